"""Proof that a served model answers, and answers well formed: `python -m ops verify`."""

from ops.verify.command import app
from ops.verify.endpoints import Endpoint, endpoints_of, read_stack_outputs
from ops.verify.evidence import Evidence
from ops.verify.runner import Options, verify

__all__ = [
    "Endpoint",
    "Evidence",
    "Options",
    "app",
    "endpoints_of",
    "read_stack_outputs",
    "verify",
]
