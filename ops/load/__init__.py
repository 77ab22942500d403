"""Load on a served model, measured: `python -m ops load`."""

from ops.load.client import Target, drive
from ops.load.command import app
from ops.load.plan import Plan
from ops.load.samples import Samples
from ops.load.summary import Summary, summarise

__all__ = ["Plan", "Samples", "Summary", "Target", "app", "drive", "summarise"]
