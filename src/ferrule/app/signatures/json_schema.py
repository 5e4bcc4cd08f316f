"""Shapes and signatures as JSON Schema 2020-12.

There are two steps. `exact_schema` has every detail: ``$ref`` into ``$defs`` for classes, null unions, tuple positions.
`ferrule.app.signatures.schema_profile` then rewrites that for the APIs of models. Most parameters are plain scalars for
which both forms are equal, and they skip the second step.
"""

from __future__ import annotations

import math
import typing
from typing import Any

import msgspec

from ferrule.app.signatures import adapters
from ferrule.app.signatures.schema_profile import model_profile
from ferrule.app.signatures.shapes import FieldShape, Shape
from ferrule.wire.json_types import is_array, is_object

__all__ = ["exact_schema", "function_schema", "json_default", "value_schema"]

_DEFS = "#/$defs/"
_SAME_IN_BOTH: frozenset[Any] = frozenset({str, int, float, bool})


def exact_schema(shape: Shape, *, output: bool = False) -> dict[str, Any]:
    """Return the whole schema of one value.

    Args:
        shape: from `ferrule.app.signatures.shapes.shape_of`.
        output: describe sent values (pydantic's serialisation), not accepted ones.
    """
    writer = _Writer(output)
    made = writer.write(shape)
    if writer.defs:
        if set(made) == {"$ref"}:  # older revisions require `type: object` at the root
            name = made["$ref"].removeprefix(_DEFS)
            made = dict(writer.defs[name])
            if writer.uses[name] == 1:
                del writer.defs[name]
        if writer.defs:
            made = {**made, "$defs": writer.defs}
    return made


def function_schema(fields: list[FieldShape], descriptions: dict[str, str], mode: str) -> dict[str, Any]:
    """Return the input schema of a function: its parameters as one closed object.

    Args:
        fields: the parameters.
        descriptions: descriptions by name, for parameters without one of their own.
        mode: ``"model"`` or ``"exact"``.
    """
    if not fields:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    writer = _Writer(output=False)
    made: dict[str, Any] = {"type": "object", **writer.properties(fields), "additionalProperties": False}
    for name, schema in made["properties"].items():
        if "description" not in schema and name in descriptions:
            schema["description"] = descriptions[name]
    if writer.defs:
        made["$defs"] = writer.defs
    if mode == "exact" or all(_is_same_in_both(field.shape) for field in fields):
        return made
    return model_profile(made)


def value_schema(shape: Shape, mode: str) -> dict[str, Any]:
    """Return the output schema of one value, in the given mode."""
    made = exact_schema(shape, output=True)
    return made if mode == "exact" or _is_same_in_both(shape) else model_profile(made, output=True)


def _is_same_in_both(shape: Shape) -> bool:
    return type(shape.hint) is type and shape.hint in _SAME_IN_BOTH and not shape.keywords


def json_default(default: Any) -> Any:
    """Return a default as JSON; ``UNSET`` if it has no JSON form: the schema then has no default."""
    if default is msgspec.UNSET:
        return default
    try:
        made = adapters.to_json(default)
    except (TypeError, ValueError, RecursionError):
        return msgspec.UNSET
    return msgspec.UNSET if isinstance(made, float) and not math.isfinite(made) else made


class _Writer:
    """One document: its ``$defs`` and their names."""

    def __init__(self, output: bool) -> None:
        self.output = output
        self.defs: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.uses: dict[str, int] = {}

    def write(self, shape: Shape) -> dict[str, Any]:
        made = self._plain(shape)
        return {**made, **shape.keywords} if shape.keywords else made

    def _plain(self, shape: Shape) -> dict[str, Any]:
        kind = shape.kind
        if kind == "any":
            return {}
        if shape.sent is not None and self.output:
            return dict(shape.sent)
        if shape.schema is not None:
            return dict(shape.schema)
        if kind == "array":
            made: dict[str, Any] = {"type": "array", "items": self.write(shape.items[0])}
            return made | {"uniqueItems": True} if shape.is_unique else made
        if kind == "tuple":
            count = len(shape.items)
            # Not `"items": false`: validators of draft 7 know no `prefixItems` and would refuse every item.
            made = {"type": "array", "minItems": count - shape.optional_items, "maxItems": count}
            return made | {"prefixItems": [self.write(item) for item in shape.items]} if count else made
        if kind == "map":
            return self._map(shape)
        if kind == "object":
            return self._named(shape, self._name_of(shape), lambda: self._object(shape))
        if kind == "union":
            return self._union(shape)
        return self._opaque(shape)

    def _map(self, shape: Shape) -> dict[str, Any]:
        key, value = shape.items
        made: dict[str, Any] = {"type": "object"}
        if (values := self.write(value)) != {}:
            made["additionalProperties"] = values
        if names := _as_names(self.write(key)):
            made["propertyNames"] = names
        return made

    def _union(self, shape: Shape) -> dict[str, Any]:
        if shape.source is not None:  # a recursive alias
            return self._named(shape, shape.source.__name__, lambda: self.write(shape.items[0]))
        return {"anyOf": [self.write(item) for item in shape.items]}

    def _named(self, shape: Shape, wanted: str, make: typing.Callable[[], dict[str, Any]]) -> dict[str, Any]:
        key = id(shape.fields) if shape.kind == "object" else id(shape)
        name = self.names.get(key)
        if name is None:
            name = wanted
            while name in self.defs:
                name += "_"
            self.names[key] = name
            self.uses[name] = 0
            self.defs[name] = {}
            self.defs[name] = make()
        self.uses[name] += 1
        return {"$ref": _DEFS + name}

    def _object(self, shape: Shape) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "array" if shape.is_array else "object"}
        if text := _class_text(shape.source):
            made["description"] = text
        if shape.is_array:
            return made | self._places(shape)
        made |= self.properties(shape.fields)
        if shape.is_closed:
            made["additionalProperties"] = False
        return made

    def _places(self, shape: Shape) -> dict[str, Any]:
        """Return a class as an array of its fields, by position."""
        described = self.properties(shape.fields)
        made: dict[str, Any] = {"prefixItems": [*described["properties"].values()]}
        if needed := max((at + 1 for at, field in enumerate(shape.fields) if field.required), default=0):
            made["minItems"] = needed
        if shape.is_closed:
            made["maxItems"] = len(shape.fields)
        return made

    def properties(self, fields: list[FieldShape]) -> dict[str, Any]:
        """Return ``properties`` and ``required`` of an object."""
        properties: dict[str, Any] = {}
        for field in fields:
            made = self.write(field.shape)
            if (default := json_default(field.default)) is not msgspec.UNSET:
                made["default"] = default
            properties[field.wire_name] = made
        required = [field.wire_name for field in fields if field.required]
        return {"properties": properties, "required": required} if required else {"properties": properties}

    def _opaque(self, shape: Shape) -> dict[str, Any]:
        adapter = typing.cast("adapters.Adapter", shape.adapter)
        made = adapter.schema(shape.source, output=self.output)
        inner: dict[str, Any] = made.pop("$defs", {})
        renamed: dict[str, str] = {}
        for name, part in inner.items():
            free = name
            while free in self.defs and self.defs[free] != part:
                free += "_"
            renamed[_DEFS + name] = _DEFS + free
            self.defs[free] = part
            self.uses[free] = 2
        if any(old != new for old, new in renamed.items()):
            _rename(made, renamed)
            for name in inner:
                _rename(self.defs[renamed[_DEFS + name].removeprefix(_DEFS)], renamed)
        if set(made) == {"$ref"}:
            return made
        # The source is any annotation; not each has a name.
        if (name := getattr(shape.source, "__name__", "")) and made.get("type") == "object":
            return self._named(shape, _clean(name), lambda: made)
        return made

    def _name_of(self, shape: Shape) -> str:
        cls = typing.get_origin(shape.source) or shape.source
        # The argument is any annotation; not each has a name.
        parts = [cls.__name__, *(_clean(getattr(arg, "__name__", str(arg))) for arg in typing.get_args(shape.source))]
        return "_".join(parts)


def _as_names(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of keys as JSON text; ``None`` if any text is allowed."""
    kind = schema.get("type")
    if kind == "string":
        return schema if len(schema) > 1 else None
    if "enum" in schema or "const" in schema:
        values: list[Any] = schema.get("enum", [schema.get("const")])
        return {"enum": [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in values]}
    pattern = _NAME_PATTERNS.get(kind) if isinstance(kind, str) else None
    return None if pattern is None else {"pattern": pattern}


_NAME_PATTERNS = {
    "integer": "^-?(0|[1-9][0-9]*)$",
    "number": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    "boolean": "^(true|false)$",
}


def _rename(node: Any, renamed: dict[str, str]) -> None:
    if is_object(node):
        if isinstance(ref := node.get("$ref"), str):
            node["$ref"] = renamed.get(ref, ref)
        for part in node.values():
            _rename(part, renamed)
    elif is_array(node):
        for part in node:
            _rename(part, renamed)


def _clean(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).strip("_")


def _class_text(annotation: Any) -> str | None:
    """Return a class's own docstring; the signature that dataclasses generate is not one."""
    cls = typing.get_origin(annotation) or annotation
    text = cls.__dict__.get("__doc__")
    if not isinstance(text, str) or not text.strip() or text.startswith(f"{cls.__name__}("):
        return None
    from ferrule.app.signatures.docstrings import summary

    return summary(text) or None
