"""Slices that nobody uses any more, and what to delete: `python -m ops slices`."""

from ops.slices.command import app

__all__ = ["app"]
