"""Reads YAML as JSON-shaped data, within bounds; PyYAML does the parsing and is loaded on first use.

YAML is foreign data like any other: its nesting and the expansion of its aliases and merges are bounded, and only plain
data is made of it. Dates stay text, as they are in JSON.
"""

from __future__ import annotations

from typing import Any, Final

from ferrule.wire.codec import encode_str
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_array, is_object
from ferrule.wire.patterns import pattern

__all__ = ["MAX_YAML_NESTING", "YamlError", "decode_core_yaml", "decode_yaml", "encode_yaml", "plain_data"]

MAX_YAML_NESTING: Final = 200
"""Maximum nesting of a YAML document."""

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"

_CORE: Final = (
    ("null", pattern(r"(~|null|Null|NULL|)\Z"), "~nN\0"),
    ("bool", pattern(r"(true|True|TRUE|false|False|FALSE)\Z"), "tTfF"),
    ("int", pattern(r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), "-+0123456789"),
    ("float", pattern(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"), "-+.0123456789"),
)
"""The plain scalars that are not text in the core schema of YAML 1.2 (section 10.3.2), with their first characters.

Infinities and not-a-number are left out: JSON does not have them, so that they stay the text that the author wrote."""


class YamlError(DecodeError):
    """Text is not YAML within the bounds; the message is the end of a sentence that begins with the text's name."""


def decode_yaml(data: bytes | str, max_values: int, *, needs: str) -> Any:
    """Return a document as PyYAML reads it (YAML 1.1), as JSON-shaped data.

    Args:
        data: the document.
        max_values: maximum number of values, each use of an alias counted.
        needs: the message of the `ImportError` if PyYAML is not installed.

    Raises:
        YamlError: it is not YAML, or exceeds a bound.
        ImportError: PyYAML is not installed.
    """
    yaml = _import(needs)
    resolvers = {
        first: [(tag, wanted) for tag, wanted in known if tag != _TIMESTAMP]
        for first, known in _base(yaml).yaml_implicit_resolvers.items()
    }
    return plain_data(_load(yaml, data, max_values, {"yaml_implicit_resolvers": resolvers}), max_values)


def decode_core_yaml(data: bytes | str, max_values: int, *, needs: str) -> Any:
    """Return a document of YAML 1.2 (core schema) as JSON-shaped data.

    A mapping with the same key twice is refused: parsers differ in which one counts.

    Args:
        data, max_values, needs: see `decode_yaml`.

    Raises:
        YamlError: it is not YAML, exceeds a bound, repeats a key, or has a value that JSON does not have.
        ImportError: PyYAML is not installed.
    """
    yaml = _import(needs)
    resolvers: dict[str, list[Any]] = {}
    for kind, wanted, firsts in _CORE:
        for first in firsts:
            # PyYAML looks an empty scalar up under the empty text.
            resolvers.setdefault("" if first == "\0" else first, []).append((f"tag:yaml.org,2002:{kind}", wanted))
    parts: dict[str, Any] = {
        "yaml_implicit_resolvers": resolvers,
        "construct_mapping": _without_repeated_keys(yaml),
        "yaml_constructors": {
            **_base(yaml).yaml_constructors,
            "tag:yaml.org,2002:int": _core_int,
            "tag:yaml.org,2002:float": _core_float,
        },
    }
    return plain_data(_load(yaml, data, max_values, parts), max_values, only_json=True)


def encode_yaml(value: Any, *, needs: str) -> str:
    """Return JSON-shaped data as YAML in flow style, which is the same data in YAML 1.1 and 1.2.

    Raises:
        ImportError: PyYAML is not installed.
    """
    yaml = _import(needs)

    def written(part: Any) -> str:
        if isinstance(part, str):
            return str(yaml.safe_dump(part, default_style='"', allow_unicode=True, width=1 << 30)).strip()
        if is_object(part):
            return "{" + ", ".join(f"{written(key)}: {written(member)}" for key, member in part.items()) + "}"
        if is_array(part):
            return "[" + ", ".join(written(member) for member in part) + "]"
        return encode_str(part)

    return written(value)


def plain_data(value: Any, max_values: int, *, only_json: bool = False) -> Any:
    """Return a value of YAML or Python as JSON-shaped data: with text keys, and without shared or recursive parts.

    Args:
        value: the value.
        max_values: maximum number of values, each use of a shared part counted.
        only_json: refuse a value that JSON does not have; otherwise it becomes its text.

    Raises:
        YamlError: it has too many values, refers to itself, or has a value that JSON does not have.
    """
    nodes = 0

    def convert(part: Any, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > max_values or depth > MAX_YAML_NESTING:
            raise YamlError("expands to too many values, or refers to itself")
        if isinstance(part, str):
            return _encodable(part)
        if is_object(part):
            return {_name(key): convert(member, depth + 1) for key, member in part.items()}
        if is_array(part):
            return [convert(member, depth + 1) for member in part]
        if isinstance(part, int | float | bool | None):
            return part
        if only_json:
            raise YamlError(f"has a value that JSON does not have, a {type(part).__name__}")
        return str(part)

    try:
        return convert(value, 0)
    except RecursionError as error:
        raise YamlError("is nested too deeply") from error


def _import(needs: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError(needs) from error
    return yaml


def _base(yaml: Any) -> Any:
    # The C parser is much faster, and not on every platform.
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _load(yaml: Any, data: bytes | str, max_values: int, parts: dict[str, Any]) -> Any:
    base = _base(yaml)
    merged = 0

    def flatten_mapping(self: Any, node: Any) -> None:
        nonlocal merged
        base.flatten_mapping(self, node)
        merged += len(node.value)
        if merged > max_values:  # merges of merges
            raise yaml.YAMLError("it expands to too many values")

    loader = type("JsonLoader", (base,), {**parts, "flatten_mapping": flatten_mapping})
    try:
        # The C parser recurses without a bound while it builds nested values, so that the nesting is checked before.
        _check_nesting(yaml, data, base)
        return yaml.load(data, loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError) as error:
        raise YamlError(f"is not YAML: {str(error)[:300]}") from error


def _check_nesting(yaml: Any, data: bytes | str, base: Any) -> None:
    depth = 0
    for event in yaml.parse(data, base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_YAML_NESTING:
                raise yaml.YAMLError(f"it is nested more than {MAX_YAML_NESTING} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _without_repeated_keys(yaml: Any) -> Any:
    base = _base(yaml)

    def construct_mapping(self: Any, node: Any, deep: bool = False) -> Any:
        made = base.construct_mapping(self, node, deep=deep)
        if len({_name(key) for key in made}) != len(node.value):
            raise yaml.YAMLError(f"a key is there twice in the mapping{node.start_mark}")
        return made

    return construct_mapping


def _core_int(self: Any, node: Any) -> int | float:
    text = str(self.construct_scalar(node))
    number = int(text[2:], 8) if text.startswith("0o") else int(text[2:], 16) if text[:2] == "0x" else int(text)
    return number if -(1 << 63) <= number < 1 << 64 else float(number)  # what fits into JSON for all peers


def _core_float(self: Any, node: Any) -> float:
    number = float(self.construct_scalar(node))
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


def _encodable(text: str) -> str:
    """Return a text without the lone surrogates that an escape of YAML can write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _name(key: Any) -> str:
    if isinstance(key, str):
        return _encodable(key)
    return encode_str(key) if isinstance(key, bool | None) else str(key)
