"""YAML as the Pulumi CLI reads it (gopkg.in/yaml.v3), which PyYAML alone does not.

Only `true` and `false` are truth values, `22:00` is text, `1e3` is a number, a key stands once. A
day is text: the CLI hands it over as Go prints a time, and the schema reads both.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

# C-speed where libyaml is there; the pure loader understands the same.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # one of two classes, known when it runs
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


def _number(loader: Any, node: yaml.ScalarNode) -> int | float:
    text = loader.construct_scalar(node).replace("_", "")
    if octal := re.fullmatch(r"([-+]?)0([0-7]+)", text):
        return int(f"{octal[1]}{octal[2]}", 8)
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


_WORDS = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    "merge": (r"<<", "<"),
}
for _word, (_form, _first) in _WORDS.items():
    _firsts = [*_first, *([""] if _word == "null" else [])]
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_word}", re.compile(f"(?:{_form})$"), _firsts
    )
for _word in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_word}", _number)


def read(path: Path) -> Mapping[str, Any]:
    """A stack file. OSError or yaml.YAMLError when it cannot be read as a mapping."""
    loader = _Loader(path.read_text(encoding="utf-8"))
    try:
        node = loader.get_single_node()
        _keys_stand_once(node)
        content = {} if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    if not isinstance(content, Mapping):
        msg = f"{path} is no mapping"
        raise yaml.YAMLError(msg)
    return content


def _keys_stand_once(node: yaml.Node | None) -> None:
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _keys_stand_once(each)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key.value!r} stands twice in a mapping", key.start_mark
            )
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)
        _keys_stand_once(value)
