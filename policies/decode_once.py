"""Decodes each resource once instead of once for every policy.

pulumi-policy 1.21.0 turns the engine's message into Python values again for each policy of the
pack; with 170 policies that was nine tenths of the time the pack took. The values
are only read, so all policies may share them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from types import SimpleNamespace
from typing import Any, Final

from google.protobuf import json_format
from pulumi_policy import policy

CAPACITY: Final = 4096


class Once:
    """A function of one argument that remembers its results by the argument's identity.

    It holds the argument too, so an identity cannot be used again while its result is kept.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._kept: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, argument: Any) -> Any:
        with self._lock:
            kept = self._kept.get(id(argument))
            if kept is not None and kept[0] is argument:
                return kept[1]
        result = self._function(argument)
        with self._lock:
            self._kept[id(argument)] = (argument, result)
            while len(self._kept) > CAPACITY:
                self._kept.popitem(last=False)
        return result


def install() -> None:
    """Lets pulumi-policy share what it decodes; does nothing where it was done."""
    names = vars(policy)
    if isinstance(names["unknown_checking_proxy"], Once):
        return
    full = names["deserialize_properties"]
    decode = Once(full)

    def deserialize(props: dict[str, Any], proxy_secrets: bool = False) -> Any:
        return full(props, proxy_secrets) if proxy_secrets else decode(props)

    names["json_format"] = SimpleNamespace(MessageToDict=Once(json_format.MessageToDict))
    names["deserialize_properties"] = deserialize
    names["unknown_checking_proxy"] = Once(names["unknown_checking_proxy"])
