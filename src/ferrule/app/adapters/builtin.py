"""What Python itself offers: dataclasses, TypedDict, classes built from one string (paths …), subclasses of scalars."""

from __future__ import annotations

import dataclasses
import typing
from collections import deque
from collections.abc import Mapping, Set, ValuesView
from pathlib import PurePath
from typing import Any

import msgspec

from ferrule.app.adapters import Adapter, RawField
from ferrule.app.adapters.base import Fields, Opaque, class_hints, collection_default

__all__ = ["TEXT_TYPES", "adapter_of_builtin", "encode_builtin", "is_typed_dict"]

TEXT_TYPES: set[type] = set()
"""Classes that the user declared as text; see `ferrule.app.adapters.register_text_type`."""

_TEXT_MODULES = frozenset({"ipaddress", "zoneinfo", "fractions"})


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
        cls = typing.get_origin(annotation) or annotation
        optional = _optional_keys(cls)
        return [RawField(name, name, hint, name not in optional) for name, hint in class_hints(annotation).items()]

    def build(self, annotation: Any, values: dict[str, Any]) -> Any:
        return values


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
        return {"type": "string"}


class _Subclasses(Opaque):
    """``class Celsius(float)``: the base's JSON, the class's own value."""

    name = "scalar subclass"

    def decode(self, annotation: Any, value: Any) -> Any:
        if isinstance(value, annotation):
            return value
        base = _scalar_base(annotation)
        return annotation(msgspec.convert(value, base))

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        return {"type": {str: "string", int: "integer", float: "number"}[_scalar_base(annotation)]}


_DATACLASSES, _TYPED_DICTS, _TEXTS, _SUBCLASSES = _Dataclasses(), _TypedDicts(), _Texts(), _Subclasses()


def adapter_of_builtin(cls: type) -> Adapter | None:
    """The adapter of a class that no library claims."""
    if hasattr(cls, "__dataclass_fields__"):
        return _DATACLASSES
    if is_typed_dict(cls):
        return _TYPED_DICTS
    if cls in TEXT_TYPES or issubclass(cls, PurePath) or cls.__module__ in _TEXT_MODULES:
        return _TEXTS
    if issubclass(cls, str | int | float) and cls not in (str, int, float, bool):
        return _SUBCLASSES
    return None


def is_typed_dict(cls: Any) -> bool:
    """Of ``typing`` and of ``typing_extensions`` alike, which are different classes on old Pythons."""
    return isinstance(cls, type) and "__required_keys__" in cls.__dict__ and dict in cls.__mro__


def encode_builtin(value: Any) -> Any:
    """The JSON shape of what msgspec does not encode by itself.

    Raises:
        TypeError: there is none.
    """
    if type(value) in TEXT_TYPES or isinstance(value, PurePath) or type(value).__module__ in _TEXT_MODULES:
        return str(value)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, deque | range | Set | ValuesView):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if callable(plain := getattr(value, "tolist", None)):  # arrays and scalars of numpy and its kin
        return plain()
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def _optional_keys(cls: Any) -> set[str]:
    # The class's own key sets are wrong under postponed annotations: NotRequired is then inside a string.
    optional = set(cls.__optional_keys__)
    for base in (cls, *getattr(cls, "__orig_bases__", ())):
        for name, hint in getattr(base, "__annotations__", {}).items():
            text = getattr(hint, "__forward_arg__", hint)
            if isinstance(text, str) and text.lstrip().startswith(
                ("NotRequired[", "typing.NotRequired[", "t.NotRequired[")
            ):
                optional.add(name)
    return optional


def _scalar_base(cls: Any) -> Any:
    return next(base for base in (str, int, float) if issubclass(cls, base))


def _kind(value: Any) -> str:
    words: dict[Any, str] = {type(None): "null", dict: "object", list: "array"}
    return words.get(type(value)) or type(value).__name__
