"""Adapters of Python's own classes: dataclasses, TypedDict, classes built from a string, scalar subclasses."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import typing
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Set, ValuesView
from typing import Any

import msgspec

from ferrule.app.signatures.adapters import Adapter, RawField
from ferrule.app.signatures.adapters.base import Fields, Opaque, class_hints, collection_default
from ferrule.app.signatures.scalars import ACCEPTED, SENT
from ferrule.wire.codec import is_path_class

__all__ = ["TEXT_TYPES", "adapter_of_builtin", "encode_builtin", "is_typed_dict"]

TEXT_TYPES: set[type] = set()
"""Classes that the user declared as text; see `ferrule.app.signatures.adapters.register_text_type`."""

_TEXT_MODULES = frozenset({"ipaddress", "zoneinfo", "fractions"})
_TEXT_SCHEMAS: dict[str, dict[str, Any]] = {
    "IPv4Address": {"format": "ipv4"},
    "IPv6Address": {"format": "ipv6"},
    "Fraction": {"pattern": "^[+-]?[0-9]{1,300}(/0{0,9}[1-9][0-9]{0,300})?$"},
}
"""Class → JSON Schema ``format`` of its accepted texts."""


class _Dataclasses(Fields):
    name = "dataclass"

    def fields(self, annotation: Any) -> list[RawField]:
        cls = typing.get_origin(annotation) or annotation
        hints = class_hints(annotation)
        found: list[RawField] = []
        for field in dataclasses.fields(cls):
            if not field.init:
                continue
            default: Any
            if field.default is not dataclasses.MISSING:
                default = field.default
            else:
                default = collection_default(field.default_factory)
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            hint = hints[field.name]
            if isinstance(text := field.metadata.get("description"), str):
                hint = typing.Annotated[hint, msgspec.Meta(description=text)]
            found.append(RawField(field.name, field.name, hint, required, default))
        return found

    def traits(self, annotation: Any) -> frozenset[str]:
        cls = typing.get_origin(annotation) or annotation
        return frozenset() if all(field.init for field in dataclasses.fields(cls)) else frozenset({"slow"})


class _TypedDicts(Fields):
    name = "typeddict"

    def fields(self, annotation: Any) -> list[RawField]:
        hints = class_hints(annotation)
        optional = _optional_keys(annotation, hints)
        return [RawField(name, name, hint, name not in optional) for name, hint in hints.items()]

    def build(self, annotation: Any, values: dict[str, Any]) -> Any:
        return values

    def traits(self, annotation: Any) -> frozenset[str]:
        cls = typing.get_origin(annotation) or annotation
        hints = class_hints(annotation)
        as_written = _optional_keys(annotation, hints) == cls.__optional_keys__
        if getattr(cls, "__closed__", None):  # PEP 728
            return frozenset({"closed", "slow"})
        # msgspec goes by the class's own key sets, and knows a qualifier only where it stands outermost.
        is_plain = as_written and not any(_has_inner_qualifier(hint) for hint in hints.values())
        return frozenset() if is_plain else frozenset({"slow"})


class _Texts(Opaque):
    name = "text"

    def decode(self, annotation: Any, value: Any) -> Any:
        if isinstance(value, annotation):
            return value
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{_kind(value)}`")
        try:
            return annotation(value)
        except Exception as error:
            raise ValueError(f"the text is not a valid {annotation.__name__}") from error

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        known = _TEXT_SCHEMAS.get(annotation.__name__) if annotation.__module__ in _TEXT_MODULES else None
        return {"type": "string", **(known or {})} if not output else {"type": "string"}


class _Subclasses(Opaque):
    """Subclasses of scalars, such as ``class Celsius(float)``: JSON of the base, values of the class."""

    name = "scalar subclass"

    def decode(self, annotation: Any, value: Any) -> Any:
        if isinstance(value, annotation):
            return value
        base = scalar_base(annotation)
        plain = msgspec.convert(plain_scalar(value) if isinstance(value, base) else value, base)
        parts = _PARTS.get(base)
        try:
            return annotation(plain) if parts is None else annotation(*parts(plain))
        except Exception as error:
            raise ValueError(f"the value is not a valid {annotation.__name__}") from error

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        base = scalar_base(annotation)
        return dict(SENT.get(base, ACCEPTED[base]) if output else ACCEPTED[base])


_PARTS: dict[Any, Callable[[Any], tuple[Any, ...]]] = {
    datetime.datetime: lambda value: (
        *(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond),
        value.tzinfo,
    ),
    datetime.date: lambda value: (value.year, value.month, value.day),
    datetime.time: lambda value: (value.hour, value.minute, value.second, value.microsecond, value.tzinfo),
    datetime.timedelta: lambda value: (value.days, value.seconds, value.microseconds),
}
"""Base → function from a value to the constructor's arguments; constructors of other subclasses take the value."""

# `datetime` before `date`, which it is a subclass of.
_BASES: tuple[Any, ...] = (
    *(str, int, float, datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    *(decimal.Decimal, uuid.UUID, bytes, bytearray),
)


def scalar_base(cls: Any) -> Any:
    """Return the plain type that a class is a subclass of; ``None`` without one."""
    return next((base for base in _BASES if issubclass(cls, base)), None)


def plain_scalar(value: Any) -> Any:
    """Return a value of a subclass of a plain type as that type; ``None`` for one that equals nothing (pandas' NaT)."""
    base: Any = scalar_base(value.__class__)
    if base is datetime.datetime and value != value:
        return None
    if base is uuid.UUID:
        return uuid.UUID(int=value.int)
    parts = _PARTS.get(base)
    made: tuple[Any, ...] = (value,) if parts is None else parts(value)
    return base(*made)


_DATACLASSES, _TYPED_DICTS, _TEXTS, _SUBCLASSES = _Dataclasses(), _TypedDicts(), _Texts(), _Subclasses()


def adapter_of_builtin(cls: type) -> Adapter | None:
    """Return the adapter of a class that no library claims."""
    # The mark of a dataclass: after `is_dataclass` type checkers know nothing of the class any more.
    if hasattr(cls, "__dataclass_fields__"):
        return _DATACLASSES
    if is_typed_dict(cls):
        return _TYPED_DICTS
    if cls in TEXT_TYPES or is_path_class(cls) or cls.__module__ in _TEXT_MODULES:
        return _TEXTS
    if cls is not bool and cls not in _BASES and scalar_base(cls) is not None:
        return _SUBCLASSES
    return None


def is_typed_dict(cls: Any) -> bool:
    """Return whether a class is a TypedDict, of ``typing`` or of ``typing_extensions``, which differ on old Pythons."""
    return isinstance(cls, type) and "__required_keys__" in cls.__dict__ and dict in cls.__mro__


def encode_builtin(value: Any) -> Any:
    """Return the JSON form of a value that msgspec does not encode by itself.

    Raises:
        TypeError: the value has no JSON form.
    """
    if type(value) in TEXT_TYPES or is_path_class(value.__class__) or type(value).__module__ in _TEXT_MODULES:
        return str(value)
    if isinstance(value, _BASES):
        return plain_scalar(value)
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, deque | range | Set | ValuesView):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if callable(plain := getattr(value, "tolist", None)):  # arrays and scalars of numpy and its kin
        return plain()
    if isinstance(value, Coroutine):
        value.close()  # or Python warns, too, that nothing awaited it
        raise TypeError("a coroutine has no JSON form; was `await` forgotten?")
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def _optional_keys(annotation: Any, hints: dict[str, Any]) -> set[str]:
    """Return the keys that may be missing, by the resolved annotations.

    The class's own key sets are made from the unresolved ones, and there a qualifier may be inside a string.
    """
    cls = typing.get_origin(annotation) or annotation
    optional = set(cls.__optional_keys__)
    for name, hint in hints.items():
        said = _qualifiers(hint)
        if "NotRequired" in said:
            optional.add(name)
        elif "Required" in said:
            optional.discard(name)
    return optional


def _qualifiers(hint: Any) -> list[str]:
    """Return the names of the qualifiers around a type: ``Required``, ``NotRequired``, ``ReadOnly``, ``Annotated``."""
    found: list[str] = []
    while (origin := typing.get_origin(hint)) is not None:
        # Special forms of `typing` have their name nowhere else.
        name = "Annotated" if origin is typing.Annotated else getattr(origin, "_name", None)
        if name not in ("Required", "NotRequired", "ReadOnly", "Annotated"):
            break
        found.append(name)
        hint = typing.get_args(hint)[0]
    return found


def _has_inner_qualifier(hint: Any) -> bool:
    said = _qualifiers(hint)
    return "ReadOnly" in said or any(name in ("Required", "NotRequired") for name in said[1:])


def _kind(value: Any) -> str:
    words: dict[Any, str] = {type(None): "null", dict: "object", list: "array"}
    return words.get(type(value)) or type(value).__name__
