"""`Shape`: the meaning of an annotation, from which schemas and conversions are made.

The published schema is written from it (`ferrule.app.signatures.json_schema`), and ``msgspec.convert`` is given its
`Shape.hint`. Shapes are made by `ferrule.app.signatures.annotations.shape_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from ferrule.app.signatures import adapters
from ferrule.wire.patterns import pattern

__all__ = [
    "FieldShape",
    "Kind",
    "Shape",
    "decode_hook",
    "flat_members",
    "is_secret_shape",
    "json_kind",
    "kinds_of",
    "native",
    "prefix_path",
    "split_path",
]

NoneType = type(None)

_PATH = pattern(r"^(?P<reason>.*?) - at `\$(?P<path>[^`]*)`(?P<outer>(?: - at `\$[^`]*`)*)$", re.DOTALL)
_KEY = pattern(r"^(?P<reason>.*?) - at `key` in `\$(?P<path>[^`]*)`(?P<outer>(?: - at `\$[^`]*`)*)$", re.DOTALL)
_OUTER = pattern(r" - at `\$([^`]*)`")

Kind = Literal["any", "scalar", "enum", "literal", "array", "tuple", "map", "object", "union", "custom"]


class FieldShape(msgspec.Struct, eq=False):
    """One field of a class: its Python name, its name on the wire, and its shape."""

    name: str
    wire_name: str
    shape: Shape
    required: bool
    default: Any = msgspec.UNSET
    """The value used when the field is absent; ``UNSET`` when there is none or it is not a constant."""


class Shape(msgspec.Struct, eq=False, weakref=True):
    """The meaning of an annotation. Made by `shape_of`; the lists are filled while a recursive class is read."""

    kind: Kind
    hint: Any
    """The type for ``msgspec.convert``."""
    is_plain: bool = True
    """Whether msgspec converts the *original* annotation correctly, so that a class with it needs no marker."""
    source: Any = None
    """The class, or the enum, that the shape was read from."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of a scalar, of literals and of enums."""
    sent: dict[str, Any] | None = None
    """The JSON Schema of a scalar in results, if it is wider than ``schema``."""
    values: tuple[Any, ...] = ()
    items: list[Shape] = []
    fields: list[FieldShape] = []
    adapter: adapters.Adapter | None = None
    keywords: dict[str, Any] = {}
    """JSON Schema keywords from ``Annotated``: description, bounds, the author's own."""
    checks: tuple[Callable[[Any], object], ...] = ()
    """Predicates that only Python can check, run after conversion."""
    is_unique: bool = False
    """The array is a set."""
    optional_items: int = 0
    """Number of items at the end of a tuple that may be missing, as in a NamedTuple with defaults."""
    is_array: bool = False
    """The class is an array of its fields on the wire (``msgspec.Struct`` with ``array_like``)."""
    is_closed: bool = False
    """The class refuses unknown fields by its own configuration."""

    def walk(self) -> list[Shape]:
        """Return this shape and every shape below it, each once."""
        found: dict[int, Shape] = {}
        ahead: list[Shape] = [self]
        while ahead:
            shape = ahead.pop()
            if id(shape) not in found:
                found[id(shape)] = shape
                ahead += shape.items
                for field in shape.fields:
                    ahead.append(field.shape)
        return list(found.values())

    def words(self) -> dict[str, Any]:
        """Return the keywords from ``Annotated``: ``description``, ``title`` and others."""
        if self.kind != "custom" or self.schema is not None:
            return self.keywords
        found: dict[str, Any] = {}
        for note in getattr(self.source, "__metadata__", ()):  # pydantic's `Field`, which its adapter reads whole
            for name in ("description", "title"):
                if isinstance(text := getattr(note, name, None), str):
                    found[name] = text
        return found | self.keywords

    def has_opaque_part(self) -> bool:
        """Return whether a library describes some part by itself, which may fail."""
        for part in self.walk():  # noqa: SIM110 - a generator is a call for each part
            if part.kind == "custom" and part.schema is None:
                return True
        return False


class DecoderMarker(type):
    """The base of marker classes, which replace unsupported parts of a hint; see `ferrule.app.signatures.markers`.

    Args:
        decode: JSON-shaped data → the value; raises ``ValueError`` for data that does not fit.
    """

    decode: Callable[[Any], Any]

    def __new__(mcs, decode: Callable[[Any], Any]) -> DecoderMarker:
        return super().__new__(mcs, "Marker", (), {})

    def __init__(cls, decode: Callable[[Any], Any]) -> None:
        super().__init__("Marker", (), {})
        cls.decode = staticmethod(decode)

    def __instancecheck__(cls, instance: Any) -> bool:
        # msgspec asks whether the decoded value is an instance of the class in the hint.
        return True


def decode_hook(tp: Any, value: Any) -> Any:
    """Return a value of a class that msgspec does not support, by marker or adapter: the ``dec_hook`` of this layer."""
    if isinstance(tp, DecoderMarker):
        return tp.decode(value)
    adapter = adapters.adapter_for(tp)
    if adapter is None:
        raise TypeError(f"`{tp!r}` has no JSON form")
    return adapter.decode(tp, value)


def native(value: Any, shape: Shape) -> Any:
    """Return ``value`` (JSON-shaped or already Python) converted to ``shape``.

    Raises:
        msgspec.ValidationError: the value does not fit; ends with a JSON path.
    """
    return msgspec.convert(value, shape.hint, dec_hook=decode_hook, str_keys=True)


def is_secret_shape(shape: Shape) -> bool:
    """Return whether a value of this shape is secret, or has a part that is; see `Secret`."""
    return any(part.keywords.get("writeOnly") is True for part in shape.walk())


def flat_members(shape: Shape, *, _depth: int = 0) -> list[Shape]:
    """Return the members of a union, of unions inside it too; a shape that is not a union is its only member."""
    if shape.kind != "union":
        return [shape]
    if _depth > 20:
        return []
    return [inner for item in shape.items for inner in flat_members(item, _depth=_depth + 1)]


def kinds_of(shape: Shape, *, _depth: int = 0) -> list[str]:
    """Return the JSON kinds that a value of this shape may have, in msgspec's words."""
    if _depth > 20:
        return []
    if shape.kind == "union":
        return [kind for item in shape.items for kind in kinds_of(item, _depth=_depth + 1)]
    if shape.kind in ("array", "tuple") or shape.is_array:
        return ["array"]
    if shape.kind in ("map", "object"):
        return ["object"]
    if shape.kind in ("enum", "literal"):
        # Members of enums stand for their value; a literal is itself.
        return list(dict.fromkeys(json_kind(getattr(value, "value", value)) for value in shape.values))
    if shape.kind == "custom" and shape.schema is None:
        return list(_opaque_kinds(shape))
    return [_KINDS.get(kind, kind) for kind in _types_of(shape.schema or {}, {})]


_KINDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def _opaque_kinds(shape: Shape) -> tuple[str, ...]:
    adapter = cast("adapters.Adapter", shape.adapter)
    made = adapter.schema(shape.source, output=False)
    return tuple(_KINDS.get(kind, kind) for kind in _types_of(made, made.get("$defs", {})))


def _types_of(schema: dict[str, Any], defs: dict[str, Any], *, _depth: int = 0) -> list[str]:
    """Return the JSON types that a schema names; ``["any"]`` where it names none."""
    if _depth > 20:
        return ["any"]
    if isinstance(ref := schema.get("$ref"), str):
        return _types_of(defs.get(ref.rpartition("/")[2], {}), defs, _depth=_depth + 1)
    if isinstance(kinds := schema.get("type"), str | list):
        return [kinds] if isinstance(kinds, str) else cast("list[str]", kinds)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found = [kind for part in schema[word] for kind in _types_of(part, defs, _depth=_depth + 1)]
            return list(dict.fromkeys(found))
    return ["any"]


def json_kind(value: Any) -> str:
    """Return the kind of a JSON value, in the words of msgspec's messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    for tp in (str, int, float):
        if isinstance(value, tp):
            return tp.__name__
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list | tuple) else type(value).__name__


def prefix_path(message: str, step: str) -> str:
    """Return the message of a conversion below ``step``, with the JSON path from above ``step``."""
    reason, found, path = message.rpartition(" - at `$")
    return f"{reason} - at `${step}{path}" if found else f"{message} - at `${step}`"


def split_path(message: str) -> tuple[str, str]:
    """Return a conversion's message without its path, and the path below ``$``, as ``.tags[0]``."""
    if (key := _KEY.match(message)) is not None:
        reason, path = split_path(f"{key['reason']} - at `${key['path']}`{key['outer']}")
        return f"{reason} in a key", path
    found = _PATH.match(message)
    if found is None:
        return message, ""
    outer = _OUTER.findall(found["outer"])
    return found["reason"], "".join(reversed(outer)) + found["path"]
