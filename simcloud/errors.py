"""What a simulated project reports when it cannot go on."""

from __future__ import annotations

from collections.abc import Sequence


class SimError(Exception):
    """The simulated project cannot be set up or run as asked."""


class OperationFailed(SimError):  # noqa: N818 - reads as what happened
    """One operation ended with errors: the engine's diagnostics, one a line."""

    def __init__(self, operation: str, diagnostics: Sequence[str], output: str) -> None:
        self.operation = operation
        self.diagnostics = tuple(diagnostics)
        self.output = output
        text = "\n".join(self.diagnostics) or output
        super().__init__(f"{operation} failed:\n{text}")
