"""The only reader of Pulumi's configuration."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from config.problem import ConfigError
from config.stack import NAMESPACE, Report, Stack, check


def load() -> Stack:
    """The stack being deployed. Ends the program with every error before anything is declared."""
    report: Report = check(
        _config(), name=default_name(pulumi.get_stack()), today=datetime.now(UTC).date()
    )
    for warning in report.warnings:
        pulumi.log.warn(str(warning))
    try:
        return report.require()
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None


def default_name(stack: str) -> str:
    """What a stack is called in Google Cloud unless its file says otherwise."""
    return f"{NAMESPACE}-{stack}"


def _config() -> dict[str, Any]:
    raw: Mapping[str, str] = {**get_config_env(), **CONFIG.get()}
    return {key: _decode(text) for key, text in raw.items()}


def _decode(text: str) -> Any:
    # The engine hands over objects and truth values as JSON, and words as they are.
    return json.loads(text) if text[:1] in ("{", "[") or text in ("true", "false") else text
