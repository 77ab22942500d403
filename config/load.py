"""The only reader of Pulumi's configuration."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret

from config.problem import ConfigError
from config.stack import HUGGING_FACE_TOKEN, NAMESPACE, SECRETS, Report, Stack, check


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


def hugging_face_token() -> pulumi.Output[str] | None:
    """The hub's token, marked secret from here on; None where the stack sets none."""
    given = pulumi.Config(NAMESPACE)
    if given.get_secret(HUGGING_FACE_TOKEN) is None:
        return None
    return given.require_secret(HUGGING_FACE_TOKEN)


def default_name(stack: str) -> str:
    """What a stack is called in Google Cloud unless its file says otherwise."""
    return f"{NAMESPACE}-{stack}"


def _config() -> dict[str, Any]:
    raw: Mapping[str, str] = {**get_config_env(), **CONFIG.get()}
    return {key: _read(key, text) for key, text in raw.items()}


def _read(key: str, text: str) -> Any:
    if key.partition(":")[2] not in SECRETS:
        return _decode(text)
    # As a stack file shows it, so that no value can end in a message.
    return {"secure": ""} if is_config_secret(key) else ""


def _decode(text: str) -> Any:
    # The engine hands over objects and truth values as JSON, and words as they are.
    return json.loads(text) if text[:1] in ("{", "[") or text in ("true", "false") else text
