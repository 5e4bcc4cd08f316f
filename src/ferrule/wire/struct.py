"""The two base classes of all values on the wire: closed structs and open bundles.

:class:`WireStruct` is for shapes that the specification closes: msgspec decodes and encodes their fields without Python
code. :class:`OpenBundle` is for open shapes (capabilities, ``_meta``): it *is* the JSON dict, so that unknown keys are
kept at every level when it is read and written again; its known keys are typed attributes.

This module knows no particular message.

A field has the default ``UNSET`` only where *absent* and ``null`` have different meanings (structured content).
Everywhere else ``None`` means absent, and is never written.
"""

import builtins
import sys
import types
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, UnsetType

from ferrule.wire.json_types import is_list, is_object

__all__ = [
    "UNSET",
    "OpenBundle",
    "UnsetType",
    "Value",
    "WireStruct",
    "convert_unknown_kinds",
    "decode_hook",
    "refuses_as_a_dataclass",
]

_C = TypeVar("_C", bound=type)
if TYPE_CHECKING:
    _B = TypeVar("_B", bound="OpenBundle")
else:
    _B = TypeVar("_B")  # a name in quotes would be compiled


class _StructFields:
    """``__dataclass_fields__`` computed on first use, so that the functions of ``dataclasses`` work with a Struct.

    A plain class attribute would have to be computed at import for each of about a hundred structs, and few programs
    use it.
    """

    def __init__(self) -> None:
        self._tables: dict[type, dict[str, Any]] = {}

    def __get__(self, instance: Any, owner: type[msgspec.Struct]) -> dict[str, Any]:
        table = self._tables.get(owner)
        if table is None:
            positional = set(owner.__match_args__)
            specs: list[tuple[str, Any, dict[str, Any]]] = []
            for info in msgspec.structs.fields(owner):
                options: dict[str, Any] = {"kw_only": info.name not in positional}
                if info.default is not msgspec.NODEFAULT:
                    options["default"] = info.default
                elif info.default_factory is not msgspec.NODEFAULT:
                    options["default_factory"] = info.default_factory
                specs.append((info.name, info.type, options))
            table = self._tables[owner] = _dataclass_fields(specs)
        return table


def _dataclass_fields(specs: list[tuple[str, Any, dict[str, Any]]]) -> dict[str, Any]:
    """Return ``dataclasses.Field`` objects for (name, type, options), made with the public functions of the module."""
    # Imported here, since it imports `inspect`; a caller of this code has imported `dataclasses` itself.
    from dataclasses import field, fields, make_dataclass

    holder = make_dataclass("_Fields", [(f"f{i}", tp, field(**options)) for i, (_, tp, options) in enumerate(specs)])
    table: dict[str, Any] = {}
    for (name, _, _), made in zip(specs, fields(holder), strict=True):
        made.name = name
        table[name] = made
    return table


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, repr_omit_defaults=True):
    """Base of every closed wire type: frozen, camelCase on the wire, defaults not written.

    ``dataclasses.fields``, ``replace`` and ``asdict`` work on subclasses. A field that equals its default is
    left out of the encoding *by identity*, so an explicit ``False`` or ``0`` where the default is ``None`` is written.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]] = cast("dict[str, Any]", _StructFields())

    __unknown_kind__: ClassVar[Any] = None
    """The :class:`OpenBundle` for values whose ``type`` this struct does not list; ``None`` refuses them."""


class _ValueFields:
    """``__dataclass_fields__`` of a `Value`, made on first use; types stay as they are written, as in a dataclass."""

    def __init__(self) -> None:
        self._tables: dict[type, dict[str, Any]] = {}

    def __get__(self, instance: Any, owner: type[msgspec.Struct]) -> dict[str, Any]:
        table = self._tables.get(owner)
        if table is None:
            written = {
                name: tp for base in owner.__mro__[::-1] for name, tp in vars(base).get("__annotations__", {}).items()
            }
            names = owner.__struct_fields__
            defaults: tuple[Any, ...] = owner.__struct_defaults__
            given: tuple[Any, ...] = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
            specs: list[tuple[str, Any, dict[str, Any]]] = []
            for name, default in zip(names, given, strict=True):
                options: dict[str, Any] = {"kw_only": name not in owner.__match_args__}
                if type(default) is type(_FACTORY):
                    options["default_factory"] = default.factory
                elif default is not msgspec.NODEFAULT:
                    options["default"] = default
                specs.append((name, written[name], options))
            table = self._tables[owner] = _dataclass_fields(specs)
        return table


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """Base of frozen values that never go on the wire: what ``@dataclass(frozen=True, slots=True)`` makes, for less.

    A dataclass compiles the source of its methods when it is made, which takes a third of a millisecond for each class
    at each start of a process; a Struct has them ready. ``dataclasses.fields``, ``replace`` and ``asdict`` work on
    subclasses. Assigning to an attribute raises `AttributeError`.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]] = cast("dict[str, Any]", _ValueFields())


class _Factory(Value, frozen=True):
    """For its default: how msgspec keeps a factory among the defaults of a class has no public name."""

    made: list[int] = msgspec.field(default_factory=list[int])


_FACTORY: Any = _Factory.__struct_defaults__[0]


def _refuse_assignment(self: Any, name: str, value: Any = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to or delete field {name!r}")


def refuses_as_a_dataclass(kind: _C) -> _C:
    """Make assigning to an attribute raise ``dataclasses.FrozenInstanceError``, where that is promised."""
    for name in ("__setattr__", "__delattr__"):
        setattr(kind, name, _refuse_assignment)
    return kind


class _BundleFields:
    """``__dataclass_fields__`` of an :class:`OpenBundle`, visible to the ``dataclasses`` module only.

    msgspec treats each class with this attribute as a dataclass: it would convert the known keys and lose the others.
    Without the attribute the class is a custom type for it, which :func:`decode_hook` converts. Therefore the attribute
    depends on the calling module.
    """

    def __get__(self, instance: "OpenBundle | None", owner: "type[OpenBundle]") -> dict[str, Any]:
        if sys._getframe(1).f_globals.get("__name__") != "dataclasses":  # pyright: ignore[reportPrivateUsage]
            raise AttributeError("__dataclass_fields__")
        options = {"default": None, "kw_only": True}
        specs = [(key.name, key.type, options) for key in owner.__known_keys__.values()]
        if instance is not None:
            wires = owner.__known_wires__
            specs += [(_attribute_of(owner, key), Any, options) for key in instance if key not in wires]
        return _dataclass_fields(specs)


class _KnownKey:
    """One known key of a bundle as a typed attribute; a nested object is converted to its bundle when it is read."""

    def __init__(self, name: str, wire: str, owner: "type[OpenBundle]", annotation: Any) -> None:
        self.name = name
        self.wire = wire
        self._owner = owner
        self._annotation = annotation

    @cached_property
    def type(self) -> Any:
        """The declared type; resolved on first use where the module postpones its annotations."""
        if isinstance(self._annotation, str):
            return get_type_hints(self._owner)[self.name]
        return self._annotation

    @cached_property
    def nested(self) -> "builtins.type[OpenBundle] | None":
        """The bundle that describes the value, if one does."""
        for candidate in (self.type, *get_args(self.type)):
            if isinstance(candidate, type) and issubclass(candidate, OpenBundle):
                return candidate
        return None

    def __get__(self, instance: "OpenBundle | None", owner: Any) -> Any:
        if instance is None:
            return self
        value: Any = instance.get(self.wire)
        if self.nested is not None and is_object(value) and not isinstance(value, OpenBundle):
            # Stored in place of the dict, so that a change of the nested bundle changes the JSON.
            value = instance[self.wire] = self.nested(value)
        return value

    def __set__(self, instance: "OpenBundle", value: Any) -> None:
        if value is None or value is UNSET:
            instance.pop(self.wire, None)
        else:
            instance[self.wire] = value


class OpenBundle(dict[str, Any]):
    """A JSON object of which some keys are known: the dict itself, plus typed attributes for those keys.

    Subclasses annotate the known keys (``list_changed: bool | None``; the wire name is the camelCase form, or that of
    ``names=`` in the class statement). An attribute is ``None`` if the key is absent; assigning ``None`` removes the
    key. Other keys are kept unchanged at every level; use item access for them. Two bundles are equal if their JSON is.
    ``dataclasses.fields``, ``replace`` and ``asdict`` use the known keys and, for an instance, the others too.

    Args:
        mapping: the initial JSON object (copied one level deep).
        fields: known keys by their Python names; any other name is a wire key.
    """

    __known_keys__: ClassVar[dict[str, _KnownKey]] = {}
    __known_wires__: ClassVar[frozenset[str]] = frozenset()
    __dataclass_fields__: ClassVar[dict[str, Any]] = cast("dict[str, Any]", _BundleFields())
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, names: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keys = dict(cls.__known_keys__)
        for name, tp in cls.__annotations__.items():
            if _is_class_var(tp):
                continue
            keys[name] = _KnownKey(name, (names or {}).get(name) or _camel(name), cls, tp)
            setattr(cls, name, keys[name])
        cls.__known_keys__ = keys
        cls.__known_wires__ = frozenset(key.wire for key in keys.values())
        type.__setattr__(cls, "__match_args__", tuple(keys))

    def __init__(self, mapping: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        super().__init__(mapping or {})
        known = self.__known_keys__
        for name, value in fields.items():
            key = known.get(name)
            if key is None:
                self[name.removeprefix("=")] = value
            elif value is not None and value is not UNSET:
                self[key.wire] = value

    def __repr__(self) -> str:
        parts = [f"{key.name}={getattr(self, key.name)!r}" for key in self.__known_keys__.values() if key.wire in self]
        extras = {key: value for key, value in self.items() if key not in self.__known_wires__}
        if extras:
            parts.append(f"**{extras!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    if not TYPE_CHECKING:  # a type checker should still report a misspelt attribute

        def __getattr__(self, name: str) -> Any:
            try:
                return self[name.removeprefix("=")]
            except KeyError:
                raise AttributeError(f"{type(self).__name__} has neither the attribute nor the key {name!r}") from None

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in self.__known_keys__:
                raise AttributeError(f"{type(self).__name__} knows no key {name!r}; set other keys as items")
            object.__setattr__(self, name, value)

    def __replace__(self: _B, **changes: Any) -> _B:
        made = type(self)(self)
        for name, value in changes.items():
            if name in self.__known_keys__:
                setattr(made, name, value)
            else:
                made[name.removeprefix("=")] = value
        return made


def _attribute_of(owner: type[OpenBundle], key: str) -> str:
    """Return the attribute name under which an unknown key passes through ``replace`` and ``asdict``.

    It is the key itself, unless that is the name of another attribute (``items``, or a known key's Python name): then
    it has the prefix ``=``. Keys that start with ``=`` get one more, so that removing one always restores the key.
    """
    return f"={key}" if key.startswith("=") or hasattr(owner, key) else key


def _is_class_var(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith(("ClassVar", "typing.ClassVar"))
    return get_origin(annotation) is ClassVar


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def decode_hook(type_: Any, obj: Any) -> Any:
    """Return a decoded JSON value as an instance of ``type_``: msgspec's ``dec_hook`` for the wire types.

    Known keys are checked against their declared types at every level; ``null`` means absent.

    Raises:
        ValueError: a known key has the wrong type, or ``obj`` is not an object (the peer's mistake); msgspec adds the
            path.
        NotImplementedError: ``type_`` is not an :class:`OpenBundle` (a bug in Ferrule).
    """
    if not (isinstance(type_, type) and issubclass(type_, OpenBundle)):
        raise NotImplementedError(f"no rule to decode {type_!r}")
    if not is_object(obj):
        raise ValueError(f"Expected `object`, got `{_json_kind(obj)}`")
    try:
        msgspec.convert(obj, _closed_twin(type_))
    except msgspec.ValidationError as exc:
        problem, _, path = str(exc).partition(" - at `$.")
        raise ValueError(f"{problem} in {path.rstrip('`')}" if path else problem) from None
    return obj if type(obj) is type_ else type_(obj)


def _json_kind(obj: Any) -> str:
    if obj is None:
        return "null"
    name = type(obj).__name__
    return "array" if name == "list" else name


_twins: dict[type[OpenBundle], type[msgspec.Struct]] = {}


def _closed_twin(bundle: type[OpenBundle]) -> type[msgspec.Struct]:
    """Return a struct with the bundle's known keys, with which one native conversion checks all levels."""
    twin = _twins.get(bundle)
    if twin is None:
        fields: list[tuple[str, Any, Any]] = []
        for key in bundle.__known_keys__.values():
            tp = Union[_closed_twin(key.nested), None] if key.nested else Union[key.type, None]
            fields.append((key.name, tp, msgspec.field(default=None, name=key.wire)))
        twin = _twins[bundle] = msgspec.defstruct(bundle.__name__, fields)
    return twin


def convert_unknown_kinds(obj: Any, type_: Any, *, strict: bool = True) -> Any:
    """Return ``obj`` converted to ``type_``; values of an unknown ``type`` are kept, and ``1.0`` is an integer.

    It is used after msgspec has refused a value. msgspec has no default branch for unions by ``type``: a struct that
    may meet newer kinds lists the known ones, which are decoded natively. Here a value of an unknown kind becomes the
    struct's ``__unknown_kind__``, an :class:`OpenBundle` that keeps it unchanged. ``1.0`` is an integer in JSON Schema.

    Raises:
        msgspec.ValidationError: the value is malformed in some other way too.
    """
    kept: dict[int, OpenBundle] = {}
    made = msgspec.convert(_with_stand_ins(obj, type_, kept), type_, strict=strict, dec_hook=decode_hook)
    return _without_stand_ins(made, kept) if kept else made


def _with_stand_ins(obj: Any, type_: Any, kept: dict[int, OpenBundle]) -> Any:
    """Return ``obj`` with each value of an unknown kind replaced by an instance that msgspec does not convert."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _with_stand_ins(obj, get_args(type_)[0], kept)
    if origin is Union or origin is types.UnionType:
        for member in get_args(type_):
            obj = _with_stand_ins(obj, member, kept)
        return obj
    if is_list(obj):
        return [_with_stand_ins(item, get_args(type_)[0], kept) for item in obj] if origin is list else obj
    if not is_object(obj):
        return obj
    if origin is dict:
        return {key: _with_stand_ins(value, get_args(type_)[1], kept) for key, value in obj.items()}
    if not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)):
        return obj
    facts = _facts_of(type_)
    if facts.unknown is not None:
        kind = obj.get("type")
        if isinstance(kind, str) and kind not in facts.kinds:
            stand_in = type_(type=kind)
            kept[id(stand_in)] = facts.unknown(obj)
            return stand_in
    changed = {name: _with_stand_ins(obj[name], inner, kept) for name, inner in facts.containers if name in obj}
    for name in facts.integers:
        value = obj.get(name)
        if type(value) is float and value.is_integer():
            changed[name] = int(value)
    return {**obj, **changed} if changed else obj


class _Facts(msgspec.Struct, frozen=True):
    """What `_with_stand_ins` needs of a struct.

    Attributes:
        unknown: its ``__unknown_kind__``, if its field ``type`` lists the known kinds; ``None``: no kind is unknown.
        kinds: the known kinds.
        containers: wire name and type of the fields whose values may be or hold objects.
        integers: wire names of the fields that have integers and no other numbers.
    """

    unknown: type[OpenBundle] | None
    kinds: frozenset[str]
    containers: list[tuple[str, Any]]
    integers: list[str]


@lru_cache(maxsize=512)
def _facts_of(type_: type[msgspec.Struct]) -> _Facts:
    # Kept: msgspec reads the annotations of the class each time, and a peer chooses the number of objects.
    infos = msgspec.structs.fields(type_)
    # `type_` may be any type of a program, not only a `WireStruct`.
    unknown: type[OpenBundle] | None = getattr(type_, "__unknown_kind__", None)
    listed: Any = next((info.type for info in infos if info.encode_name == "type"), None)
    has_kinds = unknown is not None and get_origin(listed) is Literal
    return _Facts(
        unknown if has_kinds else None,
        frozenset(get_args(listed)) if has_kinds else frozenset(),
        [(info.encode_name, info.type) for info in infos if not _is_scalar(info.type)],
        [info.encode_name for info in infos if issubclass(type_, WireStruct) and _is_integer_type(info.type)],
    )


_SCALARS = (str, int, float, bool, type(None), Any, UnsetType)


def _is_scalar(type_: Any) -> bool:
    """Return whether `_with_stand_ins` changes no value of the type."""
    if get_origin(type_) in (Union, types.UnionType):
        return all(map(_is_scalar, get_args(type_)))
    return type_ in _SCALARS or get_origin(type_) is Literal


def _is_integer_type(type_: Any) -> bool:
    """Return whether the type has integers and no other numbers."""
    members = get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)
    return int in members and float not in members


def _without_stand_ins(value: Any, kept: dict[int, OpenBundle]) -> Any:
    if is_list(value):
        return [_without_stand_ins(item, kept) for item in value]
    if is_object(value) and not isinstance(value, OpenBundle):
        return {key: _without_stand_ins(item, kept) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        if id(value) in kept:
            return kept[id(value)]
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if isinstance(field, (list, dict, msgspec.Struct)):
                # This conversion has just made the struct, so that changing the frozen object is safe.
                msgspec.structs.force_setattr(value, name, _without_stand_ins(field, kept))
    return value
