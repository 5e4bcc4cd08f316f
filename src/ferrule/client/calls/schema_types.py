"""Python types made from the JSON Schemas that a server sends: frozen, with attribute access, once per schema.

A schema that cannot be expressed as a type, or that describes nothing, gives `Any`. These types do not validate:
`ferrule.client.calls.schema_check` does.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Union, cast

import msgspec

from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import WireStruct

__all__ = ["type_from_schema"]

_MAX_DEPTH: Final = 24
_MAX_MADE: Final = 128
_MAX_PARTS: Final = 1000
"""Maximum number of parts, with references expanded, of a schema that gets a type: a small schema may have millions."""
_NAME = re.compile(r"\W+")
_SCALARS: Final[Mapping[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


_made: dict[int, tuple[Any, Any]] = {}


def type_from_schema(schema: Mapping[str, Any]) -> Any:
    """Return a Python type for a JSON Schema; ``Any`` where no type can express it.

    Objects with named properties become frozen structs (attribute access, equality, ``dataclasses.asdict``). Made
    once per schema object.
    """
    kept = _made.get(id(schema))
    if kept is not None and kept[0] is schema:
        return kept[1]
    try:
        made = _Maker(schema).make(schema, "Result", 0)
        msgspec.json.Decoder(made)  # refuses unions that it could not tell apart
    except (TypeError, ValueError, RecursionError):
        made = Any
    if len(_made) >= _MAX_MADE:
        _made.clear()
    _made[id(schema)] = (schema, made)
    return made


class _Maker:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._open: set[str] = set()
        self._left = _MAX_PARTS

    def make(self, schema: Any, name: str, depth: int) -> Any:
        self._spend(1)
        if not is_mapping(schema) or depth > _MAX_DEPTH:
            return Any
        node = schema
        if "$ref" in node:
            return self._ref(node["$ref"], depth)
        choices = node.get("anyOf") or node.get("oneOf")
        if is_list(choices):
            return _union([self.make(choice, name, depth + 1) for choice in choices])
        if "allOf" in node or "if" in node or "not" in node:
            return Any
        values = [node["const"]] if "const" in node else node.get("enum")
        if is_list(values) and values:
            named = values
            self._spend(len(named))
            return Literal[tuple(named)] if all(type(v) in (str, int) or v is None for v in named) else Any
        kinds = node.get("type")
        if is_list(kinds):
            return _union([self._of_kind(kind, node, name, depth) for kind in kinds])
        return self._of_kind(kinds, node, name, depth)

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise ValueError("The schema has too many parts for a type")

    def _of_kind(self, kind: Any, node: Mapping[str, Any], name: str, depth: int) -> Any:
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            if "prefixItems" in node:
                return list[Any]
            return list[self.make(node.get("items"), f"{name}Item", depth + 1)]  # type: ignore[misc]
        if kind == "object":
            return self._object(node, name, depth)
        return Any

    def _object(self, node: Mapping[str, Any], name: str, depth: int) -> Any:
        properties = node.get("properties")
        if not is_mapping(properties) or not properties:
            more = node.get("additionalProperties")
            return dict[str, self.make(more, name, depth + 1) if is_mapping(more) else Any]  # type: ignore[misc]
        if any(key in node for key in ("patternProperties",)) or isinstance(node.get("additionalProperties"), Mapping):
            return dict[str, Any]
        title = node.get("title")
        cls = _identifier(title if isinstance(title, str) else name, "Result")
        required = cast("list[Any]", node.get("required") or [])
        needed: list[Any] = []
        optional: list[Any] = []
        rename: dict[str, str] = {}
        for key, sub in properties.items():
            field = _identifier(key, "field")
            if field in rename:
                return dict[str, Any]
            rename[field] = key
            made = self.make(sub, f"{cls}_{field}", depth + 1)
            if key in required:
                needed.append((field, made))
            else:
                optional.append((field, Union[made, None], None))
        return msgspec.defstruct(
            cls, [*needed, *optional], bases=(WireStruct,), rename=rename, frozen=True, module=__name__
        )

    def _ref(self, ref: Any, depth: int) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#/") or ref in self._open:
            return Any
        node: Any = self._root
        for part in ref[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not is_mapping(node) or key not in node:
                return Any
            node = node[key]
        self._open.add(ref)
        try:
            return self.make(node, ref.rpartition("/")[2], depth + 1)
        finally:
            self._open.discard(ref)


def _union(members: list[Any]) -> Any:
    if not members or any(member is Any for member in members):
        return Any
    return Union[tuple(members)]


def _identifier(text: str, default: str) -> str:
    name = _NAME.sub("_", text).strip("_") or default
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name
