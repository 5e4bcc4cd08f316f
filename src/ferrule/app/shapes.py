"""An annotation, read once: what JSON it stands for, and what msgspec may convert by itself.

A `Shape` is the middle between Python's typing forms and everything made from them: the published schema
(`ferrule.app.schema`) and the type handed to ``msgspec.convert`` (`Shape.hint`). Most annotations are *plain*: the hint
is the annotation itself and one C call does the work. What msgspec refuses (a union of two dataclasses, an enum of mixed
values, a constraint of a foreign library) is replaced in the hint by a marker class whose decoder is here. A class cannot
be rewritten, so a class with such a field is decoded field by field, and only then.

Nothing is evaluated here from strings; `ferrule.app.hints` does that first. An annotation without a JSON form is refused
with `SignatureError`, at registration.
"""

from __future__ import annotations

import collections.abc as abc
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Union, cast

import msgspec

from ferrule.app import adapters
from ferrule.app.adapters.base import class_hints
from ferrule.app.errors import SignatureError

__all__ = ["FieldShape", "Shape", "decode_hook", "native", "shape_of"]

NoneType = type(None)

Kind = Literal["any", "scalar", "enum", "literal", "array", "tuple", "map", "object", "union", "custom"]


class FieldShape(msgspec.Struct, eq=False):
    """One field of a class: its Python name, its name on the wire, and what it holds."""

    name: str
    wire_name: str
    shape: Shape
    required: bool
    default: Any = msgspec.UNSET
    """The value used when the field is absent; ``UNSET`` when there is none or it is not a constant."""


class Shape(msgspec.Struct, eq=False, weakref=True):
    """What an annotation stands for. Made by `shape_of`; the lists are filled while a recursive class is read."""

    kind: Kind
    hint: Any
    """What ``msgspec.convert`` is given for this value."""
    is_plain: bool = True
    """Whether msgspec converts the *original* annotation rightly, so that it may stand inside a class."""
    source: Any = None
    """The class, or the enum, that the shape was read from."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of a scalar, of literals and of enums."""
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
    is_closed: bool = False
    """The class refuses unknown fields by its own configuration."""

    def walk(self, seen: set[int] | None = None) -> Iterator[Shape]:
        """This shape and every shape below it, each once."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield self
        for item in self.items:
            yield from item.walk(seen)
        for field in self.fields:
            yield from field.shape.walk(seen)


_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    memoryview: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "format": "decimal"},
}
_ANY = frozenset({Any, object, msgspec.Raw})
_ARRAYS: dict[Any, Any] = dict.fromkeys(
    (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Iterator), list
) | {set: set, abc.Set: set, abc.MutableSet: set, frozenset: frozenset}
_MAPS = frozenset({dict, abc.Mapping, abc.MutableMapping})
_TRANSPARENT = frozenset({"Required", "NotRequired", "ReadOnly", "Final"})

_scalar_shapes = {tp: Shape("scalar", tp, schema=schema) for tp, schema in _SCALARS.items()}
_any_shape = Shape("any", Any)


def decode_hook(tp: Any, value: Any) -> Any:
    """``dec_hook`` of every conversion in this layer: what msgspec does not know, by marker or by adapter."""
    decode: Callable[[Any], Any] | None = getattr(tp, "__ferrule_decode__", None)
    if decode is not None:
        return decode(value)
    adapter = adapters.adapter_for(tp)
    if adapter is None:
        raise TypeError(f"`{tp!r}` has no JSON form")
    return adapter.decode(tp, value)


def native(value: Any, shape: Shape) -> Any:
    """``value`` (JSON-shaped or already Python) as ``shape`` says.

    Raises:
        msgspec.ValidationError: the value does not fit; ends with a JSON path.
    """
    return msgspec.convert(value, shape.hint, dec_hook=decode_hook, str_keys=True)


def shape_of(annotation: Any) -> Shape:
    """The shape of a resolved annotation.

    Raises:
        SignatureError: it has no JSON form (the author's mistake).
        NameError: a class it names has a field annotation that cannot be resolved yet.
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


class _Reader:
    """One walk over one annotation; remembers the classes it is inside of, so that recursion ends."""

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
        # An alias that refers to itself is not a class that msgspec could resolve by name: it needs a marker now.
        if id(shape) in self.open and shape.hint is None:
            shape.hint = _marker(shape)
        return shape

    def _read_form(self, annotation: Any) -> Shape:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            return self._annotated(annotation)
        if origin is Union or origin is types.UnionType:
            return self._union(typing.get_args(annotation))
        if origin is Literal:
            return self._literal(typing.get_args(annotation))
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
            hint = dict[key.hint, value.hint] if args else dict
            return Shape("map", hint, key.is_plain and value.is_plain, items=[key, value])
        if isinstance(container, type):
            if issubclass(container, tuple) and hasattr(container, "_fields"):
                return self._named_tuple(annotation, container)
            return self._class(annotation, container)
        raise SignatureError(f"{_show(annotation)} has no JSON form")

    def _class(self, annotation: Any, cls: type) -> Shape:
        if issubclass(cls, enum.Enum):
            return _enum(cls)
        adapter = adapters.adapter_for(cls)
        if adapter is None:
            raise SignatureError(
                f"{_show(annotation)} has no JSON form; use a dataclass, TypedDict, msgspec.Struct, attrs or pydantic class"
            )
        if adapter.is_opaque:
            return Shape("custom", annotation, source=annotation, adapter=adapter)
        shape = Shape("object", annotation, source=annotation, adapter=adapter, fields=[], items=[])
        traits = adapter.traits(annotation)
        shape.is_closed = "closed" in traits
        self.classes[annotation] = shape
        for raw in adapter.fields(annotation):
            try:
                inner = self.read(raw.hint)
            except SignatureError as error:
                raise SignatureError(f"{_show(annotation)}.{raw.name}: {error.reason}") from error
            shape.fields.append(FieldShape(raw.name, raw.wire_name, inner, raw.required, raw.default))
        local = "<locals>" in cls.__qualname__ and not _msgspec_accepts(annotation)
        if local or "slow" in traits or not all(part.is_plain for part in shape.walk()):
            shape.is_plain = False
            shape.hint = _marker(shape)
        return shape

    def _named_tuple(self, annotation: Any, cls: type) -> Shape:
        items = [self.read(hint) for hint in class_hints(annotation).values()]
        if all(item.is_plain for item in items):
            return Shape("tuple", annotation, items=items, source=annotation)
        whole = tuple[tuple(item.hint for item in items)]  # type: ignore[misc]
        made = _marker_of(lambda value: cls(*msgspec.convert(value, whole, dec_hook=decode_hook)))
        return Shape("tuple", made, False, items=items, source=annotation)

    def _alias(self, annotation: Any, origin: Any) -> Shape:
        alias = origin or annotation
        shape = Shape("union", None, False, items=[])
        self.classes[annotation] = shape
        self.open.add(id(shape))
        value = alias.__value__
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
            return Shape("array", tuple[item.hint, ...], item.is_plain, items=[item])
        items = [self.read(arg) for arg in args if arg != ()]
        hint = tuple[tuple(item.hint for item in items)] if items else tuple[()]  # type: ignore[misc]
        return Shape("tuple", hint, all(item.is_plain for item in items), items=items)

    def _literal(self, values: tuple[Any, ...]) -> Shape:
        flat: list[Any] = []
        for value in values:
            flat.extend([value.value] if isinstance(value, enum.Enum) else [value])
        schema = enum_schema(flat)
        shape = Shape("literal", Literal[values], schema=schema, values=values)
        if not all(type(value) in (str, int, NoneType) for value in values):
            shape.is_plain = False
            shape.hint = _marker(shape)
        return shape

    def _union(self, args: tuple[Any, ...]) -> Shape:
        if any(_is_foreign(arg) for arg in args if arg is not NoneType):
            foreign = adapters.foreign_adapter()
            rest = tuple(arg for arg in args if arg is not NoneType)
            if len(rest) > 1:  # pydantic's own unions know discriminators and smart matching
                return Shape("custom", _foreign_marker(Union[args], foreign), False, source=Union[args], adapter=foreign)  # noqa: UP007
        items = [self.read(arg) for arg in args]
        shape = Shape("union", None, all(item.is_plain for item in items), items=items)
        hint: Any = Union[tuple(item.hint for item in items)]  # pyright: ignore[reportInvalidTypeArguments]
        if _msgspec_accepts(hint):
            shape.hint = hint
        else:
            shape.is_plain = False
            shape.hint = _marker(shape)
        return shape

    def _annotated(self, annotation: Any) -> Shape:
        base, *notes = typing.get_args(annotation)
        if any(type(note).__module__.partition(".")[0] in ("pydantic", "pydantic_core") for note in notes):
            foreign = adapters.foreign_adapter()
            return Shape("custom", _foreign_marker(annotation, foreign), False, source=annotation, adapter=foreign)
        inner = self.read(base)
        found = _read_notes(notes)
        if not found.metas and not found.checks:
            return inner
        shape = msgspec.structs.replace(inner)
        shape.keywords = inner.keywords | _keywords(found.metas, inner)
        shape.checks = inner.checks + found.checks
        shape.is_plain = inner.is_plain and found.is_plain
        bounds = [meta for meta in found.metas if _has_bounds(meta)]
        hint = inner.hint
        if bounds:
            hint = _bounded(inner, bounds)
            if hint is None:
                raise SignatureError(f"a constraint in {_show(annotation)} does not fit its type")
            shape.is_plain = shape.is_plain and inner.kind != "union"  # msgspec refuses bounds around a union
        if shape.checks:
            shape.is_plain = False
            hint = _checked_marker(hint, shape.checks)
        shape.hint = hint
        return shape


# -- Annotated ---------------------------------------------------------------------------------------------------------


class _Notes(msgspec.Struct):
    metas: list[msgspec.Meta]
    checks: tuple[Callable[[Any], object], ...] = ()
    is_plain: bool = True


_BOUND_NAMES = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


def _has_bounds(meta: msgspec.Meta) -> bool:
    return any(getattr(meta, name) is not None for name in _BOUND_NAMES)


def _bounded(shape: Shape, bounds: list[msgspec.Meta]) -> Any:
    """The hint of ``shape`` with bounds; of a union, each member takes those that fit it. ``None``: none fits."""
    whole = Annotated[(shape.hint, *bounds)]  # type: ignore[misc]
    if _msgspec_accepts(whole):
        return whole
    if shape.kind != "union":
        return None
    members = [(item, _bounded(item, bounds)) for item in shape.items]
    if all(hint is None for _, hint in members):
        return None
    hint = Union[tuple(item.hint if hint is None else hint for item, hint in members)]  # pyright: ignore
    return hint if _msgspec_accepts(hint) else None


def _read_notes(notes: list[Any]) -> _Notes:
    """What ``Annotated`` says, as msgspec's own metadata; unknown notes belong to someone else and are passed over."""
    found = _Notes([])
    for note in notes:
        if isinstance(note, msgspec.Meta):
            found.metas.append(note)
        elif isinstance(note, str):
            found.metas.append(msgspec.Meta(description=note))
        elif isinstance(text := getattr(note, "documentation", None), str):  # typing_extensions.Doc, annotated_types.doc
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
                for kind in _length_kinds(shape):
                    words[name[:3] + kind] = bound
        for name in ("title", "description", "examples"):
            if (text := getattr(meta, name)) is not None:
                words[name] = text
        words.update(meta.extra_json_schema or {})
    return words


def _length_kinds(shape: Shape) -> set[str]:
    if shape.kind == "union":
        return set().union(*(_length_kinds(item) for item in shape.items))
    if shape.kind in ("array", "tuple"):
        return {"Items"}
    if shape.kind in ("map", "object"):
        return {"Properties"}
    return {"Length"} if (shape.schema or {}).get("type") == "string" else set()


# -- what msgspec cannot do --------------------------------------------------------------------------------------------


def _msgspec_accepts(hint: Any) -> bool:
    try:
        msgspec.convert(None, hint, dec_hook=decode_hook, str_keys=True)
    except msgspec.ValidationError:
        return True
    except (TypeError, ValueError):
        return False
    except Exception:
        return True
    return True


def _is_foreign(annotation: Any) -> bool:
    adapter = adapters.adapter_for(annotation) if isinstance(annotation, type) else None
    return adapter is not None and adapter.name == "pydantic"


class _Marker(type):
    """A class that stands in a hint for what msgspec cannot do; msgspec asks whether the decoded value is one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return True


def _marker_of(decode: Callable[[Any], Any]) -> type:
    return _Marker("Marker", (), {"__ferrule_decode__": staticmethod(decode)})


def _marker(shape: Shape) -> type:
    return _marker_of(lambda value: _decode(shape, value))


def _checked_marker(hint: Any, checks: tuple[Callable[[Any], object], ...]) -> type:
    def decode(value: Any) -> Any:
        made = msgspec.convert(value, hint, dec_hook=decode_hook, str_keys=True)
        for check in checks:
            if not check(made):
                raise ValueError("the value does not meet the parameter's condition")
        return made

    return _marker_of(decode)


def _foreign_marker(annotation: Any, adapter: adapters.Adapter) -> type:
    return _marker_of(lambda value: adapter.decode(annotation, value))


def _decode(shape: Shape, value: Any) -> Any:
    if shape.kind == "object":
        return _decode_object(shape, value)
    if shape.kind in ("enum", "literal"):
        return _decode_value(shape, value)
    return _decode_union(shape, value)


def _decode_object(shape: Shape, value: Any) -> Any:
    adapter = cast("adapters.Adapter", shape.adapter)
    if adapters.is_instance(value, shape.source):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"Expected `object`, got `{json_kind(value)}`")
    given = cast("dict[str, Any]", value)
    made: dict[str, Any] = {}
    for field in shape.fields:
        if field.wire_name in given:
            try:
                made[field.name] = native(given[field.wire_name], field.shape)
            except msgspec.ValidationError as error:
                raise ValueError(prefix_path(str(error), f".{field.wire_name}")) from error
        elif field.required:
            raise ValueError(f"Object missing required field `{field.wire_name}`")
    if shape.is_closed and (unknown := given.keys() - {field.wire_name for field in shape.fields}):
        raise ValueError(f"Object contains unknown field `{min(unknown)}`")
    return adapter.build(shape.source, made)


def _decode_value(shape: Shape, value: Any) -> Any:
    for member in shape.values:
        plain = member.value if isinstance(member, enum.Enum) else member
        if member is value or (plain == value and type(plain) is type(value)):
            return member
    raise ValueError(f"Invalid enum value {value!r}" if isinstance(value, int | str) else "Invalid enum value")


def _decode_union(shape: Shape, value: Any) -> Any:
    """The first member that fits; among classes the one whose fields explain most of the object."""
    best: tuple[int, Any] | None = None
    problems: list[str] = []
    ranked = sorted(shape.items, key=lambda item: item.kind not in ("enum", "literal"))
    for item in ranked:
        try:
            made = native(value, item)
        except msgspec.ValidationError as error:
            problems.append(str(error))
            continue
        if item.kind != "object" or not isinstance(value, dict):
            return made
        known = len(cast("dict[str, Any]", value).keys() & {field.wire_name for field in item.fields})
        if best is None or known > best[0]:
            best = (known, made)
    if best is not None:
        return best[1]
    if len(problems) == 1:
        raise ValueError(problems[0])
    kinds = " | ".join(dict.fromkeys(kind for item in shape.items for kind in kinds_of(item)))
    if json_kind(value) not in kinds.split(" | "):
        raise ValueError(f"Expected `{kinds}`, got `{json_kind(value)}`")
    raise ValueError(f"no member of the union fits: {'; '.join(dict.fromkeys(problems))}")


def kinds_of(shape: Shape, *, _depth: int = 0) -> list[str]:
    """The JSON kinds that a value of this shape may have, in msgspec's words."""
    if _depth > 20:
        return []
    if shape.kind == "union":
        return [kind for item in shape.items for kind in kinds_of(item, _depth=_depth + 1)]
    if shape.kind in ("array", "tuple"):
        return ["array"]
    if shape.kind in ("map", "object", "custom"):
        return ["object"]
    if shape.kind in ("enum", "literal"):
        return list(dict.fromkeys(json_kind(getattr(value, "value", value)) for value in shape.values))
    kind = (shape.schema or {}).get("type", "any")
    return [{"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(kind, kind)]


def json_kind(value: Any) -> str:
    """The kind of a JSON value, in the words of msgspec's messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str | int | float):
        return next(tp.__name__ for tp in (str, int, float) if isinstance(value, tp))
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list | tuple) else type(value).__name__


def prefix_path(message: str, step: str) -> str:
    """``message`` of a conversion below ``step``, with its JSON path seen from above."""
    reason, found, path = message.rpartition(" - at `$")
    return f"{reason} - at `${step}{path}" if found else f"{message} - at `${step}`"


# -- enums -------------------------------------------------------------------------------------------------------------


def _enum(cls: type[enum.Enum]) -> Shape:
    if issubclass(cls, enum.Flag):
        return Shape("enum", cls, source=cls, schema={"type": "integer"}, values=tuple(cls))
    members = tuple(cls)
    values = [member.value for member in members]
    if not all(value is None or isinstance(value, str | int | float | bool) for value in values):
        raise SignatureError(f"the values of {_show(cls)} have no JSON form")
    shape = Shape("enum", cls, source=cls, schema=enum_schema(values), values=members)
    if not (all(type(value) is str for value in values) or all(type(value) is int for value in values)):
        shape.is_plain = False
        shape.hint = _marker(shape)
    return shape


def enum_schema(values: list[Any]) -> dict[str, Any]:
    """The schema of a closed set of scalars; with ``type`` when all values have one."""
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
