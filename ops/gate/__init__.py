"""Gates on a plan: what no policy can see, refused unless somebody says so for that commit."""

from ops.gate.cli import app, gate
from ops.gate.rules import Finding, judge
from ops.gate.settings import Gates, Settings, load_settings

__all__ = ["Finding", "Gates", "Settings", "app", "gate", "judge", "load_settings"]
