"""Nothing secret leaves a report: known secret places first, then anything that looks like one.

The engine already blanks what the program marked secret. These passes are for what it did not:
values under well-known keys, tokens pasted into arguments, and text that programs print.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from ops.preview.values import HIDDEN, get, is_secret, segments

MARK = "[redacted]"
_SHORTEST_KNOWN = 6

_SECRET_TREES: dict[str, tuple[str, ...]] = {
    "kubernetes:core/v1:Secret": ("data", "stringData"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secretData", "secretDataWo"),
    "gcp:container/cluster:Cluster": ("masterAuth",),
    "pulumi:providers:kubernetes": ("kubeconfig",),
    "pulumi:providers:gcp": ("credentials", "accessToken"),
}
_SECRET_KEY = re.compile(
    r"(password|passwd|passphrase|secretdata(wo)?|privatekey|clientkey|apikey|access(token|key)"
    r"|authtoken|bearertoken|refreshtoken|kubeconfig|credentials|secretkey|clientsecret)$|^token$"
)
_SECRET_ENV = re.compile(r"token|secret|passw|api_?key|credential|private", re.IGNORECASE)
# kubectl copies the whole object, secrets included (pulumi/pulumi-kubernetes#734).
_COPY = "kubectl.kubernetes.io/last-applied-configuration"

_LOOKS_SECRET = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}"
    r"|\bAIza[0-9A-Za-z_-]{30,}"
    r"|\bya29\.[0-9A-Za-z._-]{20,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{22,}|\bglpat-[\w-]{20,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bxox[abprs]-[\w-]{10,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# Substrings without which the pattern above cannot match; looking for them is ten times faster.
_HINTS = (
    "hf_",
    "AIza",
    "ya29.",
    "gh",
    "github_pat_",
    "glpat-",
    "AKIA",
    "xox",
    "sk-",
    "eyJ",
    "PRIVATE KEY-----",
)
_AFTER_LABEL = re.compile(
    r"(?P<label>\bBearer\s+|\b[\w-]*(?:TOKEN|SECRET|PASSWORD|API_KEY)[\w-]*=|://[^\s/:@]+:)"
    r"(?P<value>[^\s\"'@]{6,})"
)
_PERSON = re.compile(r"\buser:[^\s\"'`,\]]+@[^\s\"'`,\]]+")


class Redactor:
    """Blanks secrets; `known` are values of this stack's own secret configuration."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        forms = {
            form
            for value in known
            if len(value) >= _SHORTEST_KNOWN
            for form in (
                value,
                base64.b64encode(value.encode()).decode(),
                quote(value, safe=""),
                json.dumps(value)[1:-1],
            )
        }
        longest_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def text(self, text: str) -> str:
        """Any text, with everything that looks like a secret or a person blanked."""
        if len(text) < _SHORTEST_KNOWN:
            return text
        if self._known:
            text = self._known.sub(MARK, text)
        if any(hint in text for hint in _HINTS):
            text = _LOOKS_SECRET.sub(MARK, text)
        # Both need one of these, and most text has neither.
        if "=" in text or ":" in text or " " in text:
            text = _AFTER_LABEL.sub(lambda found: found["label"] + MARK, text)
        return _PERSON.sub(f"user:{MARK}", text) if "user:" in text else text

    def leaf(self, kind: str, path: str, root: Any, value: Any) -> Any:
        """The value at `path` of a resource of type `kind`, fit to be printed."""
        if is_secret(value) or not isinstance(value, str | Mapping | list):
            return value
        parts = segments(path)
        head = parts[0] if parts else ""
        if head in _SECRET_TREES.get(kind, ()) or any(map(_is_secret_key, parts)):
            return _hide(value)
        if parts and parts[-1] == "value" and isinstance(value, str):
            name = get(root, f"{path.removesuffix('value')}name")
            if isinstance(name, str) and _SECRET_ENV.search(name):
                return HIDDEN
        return self.tree(value)

    def tree(self, value: Any) -> Any:
        """A value with secret keys and secret-looking strings inside it blanked."""
        if is_secret(value):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.tree(each) for each in value]
        if isinstance(value, Mapping):
            name = value.get("name")
            secret_env = isinstance(name, str) and bool(_SECRET_ENV.search(name))
            return {
                key: _hide(each)
                if _is_secret_key(key) or (secret_env and key == "value")
                else self.tree(each)
                for key, each in value.items()
            }
        return value

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """An engine event fit to be stored where others read it."""
        for body in event.values():
            metadata = body.get("metadata") if isinstance(body, dict) else None
            if not isinstance(metadata, dict):
                continue
            for side in ("old", "new"):
                state = metadata.get(side) or {}
                for part in ("inputs", "outputs"):
                    for key in _SECRET_TREES.get(metadata.get("type", ""), ()):
                        if key in (state.get(part) or {}):
                            state[part][key] = _hide(state[part][key])
        if "preludeEvent" in event:
            event["preludeEvent"] = {"config": {}}
        return {key: self.tree(each) for key, each in event.items()}


def secrets_of_config(text: str) -> list[str]:
    """The secret values in what `pulumi config --show-secrets --json` prints."""
    found: list[str] = []
    for entry in json.loads(text or "{}").values():
        if entry.get("secret"):
            found.extend(_strings(entry.get("objectValue", entry.get("value"))))
    return found


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


@lru_cache(maxsize=4096)
def _is_secret_key(key: str | int) -> bool:
    if isinstance(key, int):
        return False
    return key == _COPY or bool(_SECRET_KEY.search(re.sub(r"[^a-z0-9]", "", key.lower())))


def _hide(value: Any) -> Any:
    if is_secret(value):
        return value
    if isinstance(value, Mapping):
        return {key: _hide(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_hide(each) for each in value]
    return HIDDEN if isinstance(value, str) and value else value
