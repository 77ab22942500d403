"""Finds what looks like a secret, and says only where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rules.model import Node

PATTERNS: Final = (
    re.compile(r"\bhf_[A-Za-z0-9]{30,}"),  # Hugging Face
    re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),  # Google API key
    re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}"),  # Google access token
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}"),  # GitHub
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{32,}"),
)
SECRET_NAME: Final = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|APIKEY|API_KEY|PRIVATE_KEY)$", re.I)
_LONG: Final = re.compile(r"[A-Za-z0-9+/_=-]{20,}")


def looks_secret(text: str) -> bool:
    return any(pattern.search(text) for pattern in PATTERNS)


def looks_secret_for(name: str, text: str) -> bool:
    """Whether a value given under a telling name is a literal secret."""
    return looks_secret(text) or bool(SECRET_NAME.search(name) and _LONG.fullmatch(text))


def secret_places(node: Node) -> Iterator[str]:
    """Paths of texts that look like secrets; what is unknown is not literal text."""
    if isinstance(node.value, str):
        name = str(node.path[-1]) if node.path else ""
        if looks_secret_for(name, node.value):
            yield node.at()
    elif isinstance(node.value, dict | list):
        children = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
        for key, child in children:
            yield from secret_places(Node(child, (*node.path, key)))
