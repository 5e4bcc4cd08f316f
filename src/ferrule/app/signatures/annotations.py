"""The conversion of annotations to shapes.

Most annotations are *plain*: msgspec converts values to the annotation itself, in one C call. A part that msgspec does
not support is replaced by a marker (`ferrule.app.signatures.markers`). A class cannot be changed in this way, so that a
class with such a field is converted field by field.

Annotations in strings are evaluated before, in `ferrule.app.signatures.introspection`. An annotation without a JSON
form is refused with `SignatureError`, at registration.
"""

from __future__ import annotations

import collections.abc as abc
import datetime
import enum
import math
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, cast

import msgspec

from ferrule.app.errors import SignatureError
from ferrule.app.signatures import adapters
from ferrule.app.signatures.adapters.base import class_hints, evaluated_in
from ferrule.app.signatures.markers import checked_marker, decoder_marker, foreign_marker, msgspec_accepts, shape_marker
from ferrule.app.signatures.scalars import ACCEPTED, SENT
from ferrule.app.signatures.shapes import FieldShape, NoneType, Shape, decode_hook, kinds_of, native
from ferrule.wire.json_types import is_array

__all__ = ["enum_schema", "shape_of"]

# Typing forms as `Any`: they are subscripted with values that are known at run time only.
_ANNOTATED: Any = Annotated
_LITERAL: Any = Literal
_UNION: Any = Union
_TUPLE: Any = tuple
_DICT: Any = dict

_ANY = frozenset({Any, object, msgspec.Raw})
_ARRAYS: dict[Any, Any] = dict.fromkeys(
    (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Iterator), list
) | {set: set, abc.Set: set, abc.MutableSet: set, frozenset: frozenset}
_MAPS = frozenset({dict, abc.Mapping, abc.MutableMapping})
_TRANSPARENT = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})

_scalar_shapes = {tp: Shape("scalar", tp, schema=schema, sent=SENT.get(tp)) for tp, schema in ACCEPTED.items()}
_any_shape = Shape("any", Any)


def shape_of(annotation: Any) -> Shape:
    """Return the shape of a resolved annotation.

    Raises:
        SignatureError: the annotation has no JSON form (the author's mistake).
        NameError: a field of a class in it has an annotation that cannot be resolved yet.
    """
    shape = _scalar_shapes.get(annotation) if _is_hashable(annotation) else None
    if shape is not None:
        return shape
    return _Reader().read(annotation)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


_SECRETS = "ferrule.app.signatures.secret"


class _Reader:
    """Converts one annotation; it keeps the classes that it is inside of, so that recursive types end."""

    def __init__(self) -> None:
        self.classes: dict[Any, Shape] = {}
        self.open: set[int] = set()

    def read(self, annotation: Any) -> Shape:
        if isinstance(annotation, str | typing.ForwardRef):
            raise NameError(f"the name {annotation!r} could not be resolved")
        if not _is_hashable(annotation):  # Literal or Annotated over something mutable
            return self._read_form(annotation)
        if (known := _scalar_shapes.get(annotation)) is not None:
            return known
        if annotation is None:
            return _scalar_shapes[NoneType]
        if annotation in _ANY or isinstance(annotation, typing.TypeVar):
            return _any_shape
        if (open_or_done := self.classes.get(annotation)) is not None:
            return self._again(open_or_done)
        return self._read_form(annotation)

    def _again(self, shape: Shape) -> Shape:
        # A recursive alias is not a class that msgspec could resolve by name: it needs a marker now.
        if id(shape) in self.open and shape.hint is None:
            shape.hint = shape_marker(shape)
        return shape

    def _read_form(self, annotation: Any) -> Shape:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            return self._annotated(annotation)
        if origin is Union or origin is types.UnionType:
            return self._union(typing.get_args(annotation))
        if origin is Literal:
            return self._literal(typing.get_args(annotation))
        # Special forms of `typing` have their name nowhere else.
        if getattr(origin, "_name", None) in _TRANSPARENT:
            return self.read(typing.get_args(annotation)[0])
        if isinstance(annotation, typing.NewType):
            return self.read(annotation.__supertype__)
        if type(origin or annotation).__name__ == "TypeAliasType":
            return self._alias(annotation, origin)
        container = origin or annotation
        args = typing.get_args(annotation)
        if container is tuple:
            return self._tuple(args)
        if container in _ARRAYS:
            item = self.read(args[0]) if args else _any_shape
            made = _ARRAYS[container]
            hint = made[item.hint] if args else made
            return Shape("array", hint, item.is_plain, items=[item], is_unique=made is not list)
        if container in _MAPS:
            key, value = (self.read(args[0]), self.read(args[1])) if args else (_scalar_shapes[str], _any_shape)
            hint = _DICT[key.hint, value.hint] if args else dict
            return Shape("map", hint, key.is_plain and value.is_plain, items=[key, value])
        if isinstance(container, type):
            cls: type[Any] = container
            # By its module, which only an annotation with it has loaded.
            if cls.__module__ == _SECRETS:
                return self._secret(annotation, args)
            # The mark of a named tuple, which has no class of its own.
            if issubclass(cls, tuple) and hasattr(container, "_fields"):
                return self._named_tuple(annotation, container)
            return self._class(annotation, container)
        raise SignatureError(f"{_show(annotation)} has no JSON form")

    def _secret(self, annotation: Any, args: tuple[Any, ...]) -> Shape:
        from ferrule.app.signatures.secret import SECRET_KEYWORDS, Secret

        inner = self.read(args[0] if args else str)
        if kinds_of(inner) != ["str"]:
            raise SignatureError(f"{_show(annotation)} has no JSON form: a secret is text, Secret[str]")

        def decode(value: Any) -> Any:
            return cast("Any", value) if isinstance(value, Secret) else Secret(native(value, inner))

        shape = msgspec.structs.replace(inner)
        shape.keywords = inner.keywords | SECRET_KEYWORDS
        shape.is_plain = False
        shape.hint = decoder_marker(decode)
        return shape

    def _class(self, annotation: Any, cls: type) -> Shape:
        if issubclass(cls, enum.Enum):
            return _enum(cls)
        adapter = adapters.adapter_for(cls)
        if adapter is None:
            raise SignatureError(
                f"{_show(annotation)} has no JSON form; use a dataclass, TypedDict, msgspec.Struct, or a class "
                "of attrs or pydantic"
            )
        if adapter.is_opaque:
            if adapter.name == "pydantic":
                # A class that only defines the validation of another type: its values are not instances of it.
                is_model = hasattr(cast("Any", cls), "__pydantic_core_schema__")
                hint = annotation if is_model else foreign_marker(annotation, adapter)
                return Shape("custom", hint, is_model, source=annotation, adapter=adapter)
            accepted, sent = adapter.schema(annotation, output=False), adapter.schema(annotation, output=True)
            return Shape("custom", annotation, source=annotation, schema=accepted, sent=sent, adapter=adapter)
        shape = Shape("object", annotation, source=annotation, adapter=adapter, fields=[], items=[])
        traits = adapter.traits(annotation)
        shape.is_closed, shape.is_array = "closed" in traits, "array" in traits
        known = set(self.classes)
        self.classes[annotation] = shape
        self._fill(shape, adapter.fields(annotation))
        local = "<locals>" in cls.__qualname__ and not msgspec_accepts(annotation)
        if local or "slow" in traits or not all(part.is_plain for part in shape.walk()):
            shape.is_plain = False
            shape.hint = shape_marker(shape)
            # Classes that refer to this one have used its plain hint: convert them again with the marker.
            for other in set(self.classes) - known - {annotation}:
                del self.classes[other]
            shape.fields.clear()
            self._fill(shape, adapter.fields(annotation))
        return shape

    def _fill(self, shape: Shape, fields: list[adapters.RawField]) -> None:
        for raw in fields:
            try:
                inner = self.read(raw.hint)
            except SignatureError as error:
                raise SignatureError(f"{_show(shape.source)}.{raw.name}: {error.reason}") from error
            shape.fields.append(FieldShape(raw.name, raw.wire_name, inner, raw.required, raw.default))

    def _named_tuple(self, annotation: Any, cls: type) -> Shape:
        items = [self.read(hint) for hint in class_hints(annotation).values()]
        # Python sets it on named tuples only.
        optional = len(getattr(cls, "_field_defaults", ()))
        if all(item.is_plain for item in items):
            return Shape("tuple", annotation, items=items, source=annotation, optional_items=optional)
        hints = [item.hint for item in items]

        def decode(value: Any) -> Any:
            if isinstance(value, cls):
                return value
            shorter = is_array(value) and len(items) - optional <= len(value) < len(items)
            whole = _TUPLE[tuple(hints[: len(value)] if shorter else hints)]
            return cls(*msgspec.convert(value, whole, dec_hook=decode_hook, str_keys=True))

        return Shape("tuple", decoder_marker(decode), False, items=items, source=annotation, optional_items=optional)

    def _alias(self, annotation: Any, origin: Any) -> Shape:
        alias = origin or annotation
        shape = Shape("union", None, False, items=[])
        self.classes[annotation] = shape
        self.open.add(id(shape))
        value = evaluated_in(alias.__module__, alias.__value__)
        if origin is not None:
            value = value[typing.get_args(annotation)]
        target = self.read(value)
        self.open.discard(id(shape))
        if shape.hint is None:  # not recursive: the alias is only a name
            self.classes[annotation] = target
            return target
        shape.items.append(target)
        shape.source = alias
        return shape

    def _tuple(self, args: tuple[Any, ...]) -> Shape:
        if not args:
            return Shape("array", tuple, items=[_any_shape])
        if len(args) == 2 and args[1] is ...:
            item = self.read(args[0])
            return Shape("array", _TUPLE[item.hint, ...], item.is_plain, items=[item])
        items = [self.read(arg) for arg in args if arg != ()]
        hint = _TUPLE[tuple(item.hint for item in items)] if items else _TUPLE[()]
        return Shape("tuple", hint, all(item.is_plain for item in items), items=items)

    def _literal(self, values: tuple[Any, ...]) -> Shape:
        flat: list[Any] = []
        for value in values:
            flat.extend([value.value] if isinstance(value, enum.Enum) else [value])
        schema = enum_schema(flat)
        shape = Shape("literal", _LITERAL[values], schema=schema, values=values)
        if not all(type(value) in (str, int, NoneType) for value in values):
            shape.is_plain = False
            shape.hint = shape_marker(shape)
        return shape

    def _union(self, args: tuple[Any, ...]) -> Shape:
        if any(_is_foreign(arg) for arg in args if arg is not NoneType):
            foreign = adapters.foreign_adapter()
            rest = tuple(arg for arg in args if arg is not NoneType)
            if len(rest) > 1:  # pydantic's unions know discriminators
                return Shape(
                    "custom", foreign_marker(_UNION[args], foreign), False, source=_UNION[args], adapter=foreign
                )
        items = [self.read(arg) for arg in args]
        shape = Shape("union", None, all(item.is_plain for item in items), items=items)
        hint = _UNION[tuple(item.hint for item in items)]
        if msgspec_accepts(hint) and not _overlap(items):
            shape.hint = hint
        else:
            shape.is_plain = False
            shape.hint = shape_marker(shape)
        return shape

    def _annotated(self, annotation: Any) -> Shape:
        base, *notes = typing.get_args(annotation)
        if any(type(note).__module__.partition(".")[0] in ("pydantic", "pydantic_core") for note in notes):
            foreign = adapters.foreign_adapter()
            return Shape("custom", foreign_marker(annotation, foreign), False, source=annotation, adapter=foreign)
        inner = self.read(base)
        found = _read_notes(notes)
        if not found.metas and not found.checks:
            return inner
        shape = msgspec.structs.replace(inner)
        shape.keywords = inner.keywords | _keywords(found.metas, inner)
        shape.checks = inner.checks + found.checks
        shape.is_plain = inner.is_plain and found.is_plain
        zones = {meta.tz for meta in found.metas} - {None}
        if zones and inner.sent is not None:
            shape.schema, shape.sent = _zoned(inner, True in zones)
        bounds = [meta for meta in found.metas if _has_bounds(meta)]
        hint = inner.hint
        if bounds:
            hint = _bounded(inner, bounds)
            if hint is None:
                raise SignatureError(f"a constraint in {_show(annotation)} does not fit its type")
            shape.is_plain = shape.is_plain and inner.kind != "union"  # msgspec refuses bounds around a union
        if shape.checks:
            shape.is_plain = False
            hint = checked_marker(hint, shape.checks)
        shape.hint = hint
        return shape


def _overlap(items: list[Shape]) -> bool:
    """Return whether a value that one member refuses because of its bounds may fit another member."""
    # msgspec tries one member only for each JSON kind.
    narrow: list[int] = []
    for at, item in enumerate(items):
        if item.values or item.keywords.keys() & _NARROWING:
            narrow.append(at)
    if not narrow:
        return False
    kinds = [{"number" if kind in ("int", "float") else kind for kind in kinds_of(item)} for item in items]
    return any(kinds[at] & set[str]().union(*kinds[:at], *kinds[at + 1 :]) for at in narrow)


_NARROWING = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


# -- Annotated ---------------------------------------------------------------------------------------------------------


class _Notes(msgspec.Struct):
    metas: list[msgspec.Meta]
    checks: tuple[Callable[[Any], object], ...] = ()
    is_plain: bool = True


_BOUND_NAMES = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern", "tz")


def _zoned(shape: Shape, has_offset: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas (accepted and sent) of a time with or without an offset."""
    if has_offset:
        made = {"type": "string", "format": "date-time" if shape.hint is datetime.datetime else "time"}
        return made, made
    return {"type": "string"}, {"type": "string"}


def _has_bounds(meta: msgspec.Meta) -> bool:
    return any(getattr(meta, name) is not None for name in _BOUND_NAMES)


def _bounded(shape: Shape, bounds: list[msgspec.Meta]) -> Any:
    """Return a type annotation for ``shape`` with bounds; ``None`` if msgspec does not support them for this type.

    The bounds of a union are added to each member that supports them.

    Args:
        shape: the shape of the type.
        bounds: the bounds, such as ``Meta(ge=0)``.
    """
    whole = _ANNOTATED[(shape.hint, *bounds)]
    if msgspec_accepts(whole):
        return whole
    if shape.kind != "union":
        return None
    members = [(item, _bounded(item, bounds)) for item in shape.items]
    if all(hint is None for _, hint in members):
        return None
    hint = _UNION[tuple(item.hint if hint is None else hint for item, hint in members)]
    return hint if msgspec_accepts(hint) else None


def _read_notes(notes: list[Any]) -> _Notes:
    """Return the metadata of ``Annotated`` in msgspec's form; metadata of other libraries are ignored."""
    found = _Notes([])
    for note in notes:
        if isinstance(note, msgspec.Meta):
            found.metas.append(note)
        elif isinstance(note, str):
            found.metas.append(msgspec.Meta(description=note))
        elif isinstance(
            # `Doc` of `typing_extensions` (PEP 727), or a class like it.
            text := getattr(note, "documentation", None),
            str,
        ):  # typing_extensions.Doc, annotated_types.doc
            found.metas.append(msgspec.Meta(description=text))
        elif type(note).__module__ == "annotated_types":
            _read_annotated_types(note, found)
    return found


def _read_annotated_types(note: Any, found: _Notes) -> None:
    name = type(note).__name__
    if name == "Predicate":
        found.checks = (*found.checks, note.func)
        found.is_plain = False
        return
    bounds = {
        field: value
        for field in ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length")
        if (value := getattr(note, field, None)) is not None and not (field == "min_length" and value == 0)
    }
    if bounds:
        found.metas.append(msgspec.Meta(**bounds))
        found.is_plain = False  # inside a class msgspec does not see these


_NUMBER_WORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}


def _keywords(metas: list[msgspec.Meta], shape: Shape) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for meta in metas:
        for name, word in _NUMBER_WORDS.items():
            if (bound := getattr(meta, name)) is not None:
                words[word] = bound
        for name in ("min_length", "max_length"):
            if (bound := getattr(meta, name)) is not None:
                if "contentEncoding" in (shape.schema or {}):
                    bound = 4 * math.ceil(bound / 3)  # of bytes; base64 has four letters for three
                for kind in _length_kinds(shape):
                    words[name[:3] + kind] = bound
        for name in ("title", "description", "examples"):
            if (text := getattr(meta, name)) is not None:
                words[name] = text
        words.update(meta.extra_json_schema or {})
    return words


def _length_kinds(shape: Shape) -> set[str]:
    if shape.kind == "union":
        return set[str]().union(*(_length_kinds(item) for item in shape.items))
    if shape.kind in ("array", "tuple"):
        return {"Items"}
    if shape.kind in ("map", "object"):
        return {"Properties"}
    return {"Length"} if (shape.schema or {}).get("type") == "string" else set()


def _is_foreign(annotation: Any) -> bool:
    adapter = adapters.adapter_for(annotation) if isinstance(annotation, type) else None
    return adapter is not None and adapter.name == "pydantic"


# -- enums -------------------------------------------------------------------------------------------------------------


def _enum(cls: type[enum.Enum]) -> Shape:
    if issubclass(cls, enum.Flag):
        return Shape("enum", cls, source=cls, schema=_flag_schema(cls), values=tuple(cls))
    members = tuple(cls)
    values = [member.value for member in members]
    if not all(value is None or isinstance(value, str | int | float | bool) for value in values):
        raise SignatureError(f"the values of {_show(cls)} have no JSON form")
    shape = Shape("enum", cls, source=cls, schema=enum_schema(values), values=members)
    if not (all(type(value) is str for value in values) or all(type(value) is int for value in values)):
        shape.is_plain = False
        shape.hint = shape_marker(shape)
    return shape


_MAX_COMBINATIONS = 64


def _flag_schema(cls: type[enum.Flag]) -> dict[str, Any]:
    """Return the schema of a flag's numbers; an ``IntFlag`` accepts unknown bits."""
    # Python sets it on flags only.
    if getattr(cls, "_boundary_", None) is not enum.FlagBoundary.STRICT:
        return {"type": "integer"}
    sums = {0}
    for member in cls:
        sums |= {value | member.value for value in sums}
        if len(sums) > _MAX_COMBINATIONS:
            return {"type": "integer", "minimum": 0, "maximum": sum(member.value for member in cls)}
    return {"type": "integer", "enum": sorted(sums)}


def enum_schema(values: list[Any]) -> dict[str, Any]:
    """Return the schema of a closed set of scalars, with ``type`` if all values have the same one.

    Raises:
        SignatureError: a value has no JSON form.
    """
    plain = [value if value is None or type(value) in (str, int, float, bool) else _plain(value) for value in values]
    kinds = {_JSON_TYPES[type(value)] for value in plain}
    schema: dict[str, Any] = {"const": plain[0]} if len(plain) == 1 else {"enum": plain}
    return {"type": kinds.pop(), **schema} if len(kinds) == 1 else schema


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def _plain(value: Any) -> Any:
    for tp in (str, int, float):
        if isinstance(value, tp):
            return tp(value)
    raise SignatureError(f"the value {value!r} has no JSON form")


def _show(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
