"""Arguments of the provider that a caller lays over a component's own."""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def with_extra(own: T, extra: Mapping[str, Any]) -> T:
    """Fresh arguments of a resource, changed where `extra` says more; lists are replaced whole."""
    for key, value in extra.items():
        setattr(own, key, _over(getattr(own, key), value))
    return own


def _over(own: Any, extra: Any) -> Any:
    if own is None or not isinstance(extra, Mapping):
        return extra
    if isinstance(own, Mapping):
        return {**own, **{key: _over(own.get(key), value) for key, value in extra.items()}}
    return with_extra(own, extra)
