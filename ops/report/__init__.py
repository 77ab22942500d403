"""Reports of a preview: the pull-request comment, the JSON summary, the terminal view."""

from ops.report.cli import app
from ops.report.markdown import render
from ops.report.model import Report, StackReport, assemble, look

__all__ = ["Report", "StackReport", "app", "assemble", "look", "render"]
