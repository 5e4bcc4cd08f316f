"""The adapter of each class: of the library that defines it; found once for each annotation.

Two kinds: an adapter with fields tells what a class is made of, and msgspec or `ferrule.app.signatures.shapes` decodes
it; an
*opaque* adapter decodes, describes and dumps by itself. pydantic and attrs are recognised by what they leave on a
class, so neither is imported unless an annotation uses it.
"""

from __future__ import annotations

from enum import Enum, Flag
from functools import lru_cache
from typing import Any, Protocol, get_origin

# By name: the submodule `msgspec` of this package takes over that attribute once it is imported.
from msgspec import UNSET, Struct, to_builtins

from ferrule.wire.json_types import is_object

__all__ = [
    "Adapter",
    "RawField",
    "adapter_for",
    "foreign_adapter",
    "is_instance",
    "register_text_type",
    "to_json",
    "without_subclasses",
]


class RawField(Struct):
    """A field as its class declares it; ``hint`` is resolved."""

    name: str
    wire_name: str
    hint: Any
    required: bool
    default: Any = UNSET


class Adapter(Protocol):
    """The operations on one library's classes; see also the base classes in ``adapters.base``."""

    name: str
    is_opaque: bool

    def fields(self, annotation: Any) -> list[RawField]:
        """Return the fields of a class, in order; generic arguments are substituted."""
        ...

    def build(self, annotation: Any, values: dict[str, Any]) -> Any:
        """Return an instance from converted values, by Python name."""
        ...

    def decode(self, annotation: Any, value: Any) -> Any:
        """Return ``value`` as an instance of an opaque class.

        Raises:
            ValueError: it does not fit; the message ends with a JSON path.
        """
        ...

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        """Return the JSON Schema of an opaque class, with its ``$defs``."""
        ...

    def traits(self, annotation: Any) -> frozenset[str]:
        """Return the traits of a class.

        ``"closed"``: unknown fields are refused. ``"slow"``: msgspec cannot build it as its library does. ``"array"``:
        an instance is an array of its fields.
        """
        ...


_FOREIGN_MARKS = ("__pydantic_core_schema__", "__get_pydantic_core_schema__")


@lru_cache(maxsize=4096)
def _adapter_of(cls: Any) -> Adapter | None:
    if any(hasattr(cls, name) for name in _FOREIGN_MARKS) or cls.__module__.partition(".")[0] == "pydantic":
        return foreign_adapter()
    if "__attrs_attrs__" in cls.__dict__:
        from ferrule.app.signatures.adapters.attrs import ATTRS

        return ATTRS
    if issubclass(cls, Struct):
        from ferrule.app.signatures.adapters.msgspec import STRUCTS

        return STRUCTS
    from ferrule.app.signatures.adapters.builtin import adapter_of_builtin

    return adapter_of_builtin(cls)


def adapter_for(annotation: Any) -> Adapter | None:
    """Return the adapter of a class or of a parametrised class; ``None`` if there is none."""
    cls: Any = annotation if isinstance(annotation, type) else get_origin(annotation)
    return _adapter_of(cls) if isinstance(cls, type) else None


def foreign_adapter() -> Adapter:
    """Return pydantic's adapter, which converts pydantic's own unions and ``Annotated`` validators as a whole."""
    from ferrule.app.signatures.adapters.pydantic import PYDANTIC

    return PYDANTIC


def is_instance(value: Any, annotation: Any) -> bool:
    """Return whether ``value`` is an instance of the class of ``annotation`` already; ``False`` for a TypedDict."""
    cls = get_origin(annotation) or annotation
    return cls in type(value).__mro__  # a TypedDict refuses isinstance, and is in no value's


def register_text_type(cls: type) -> None:
    """Allow a class in signatures and results that is built from one string, and converted back by ``str()``."""
    from ferrule.app.signatures.adapters.builtin import TEXT_TYPES

    TEXT_TYPES.add(cls)
    _adapter_of.cache_clear()


def to_json(value: Any) -> Any:
    """Return ``value`` as dicts with text keys, lists, text, numbers, booleans and ``None``.

    Raises:
        TypeError, ValueError: a part of it has no JSON form.
        RecursionError: it is nested too deeply or refers to itself.
    """
    return to_builtins(value, str_keys=True, enc_hook=_encode_hook)


def without_subclasses(value: Any) -> Any:
    """Return ``value`` with instances of classes as JSON objects, and of subclasses of plain types as those types.

    For values of a declared type that conversion refuses only because of a subclass.

    Raises:
        TypeError, ValueError: a part has no JSON form.
    """
    if is_object(value):
        return {without_subclasses(key): without_subclasses(part) for key, part in value.items()}
    cls: type = value.__class__
    for kind in _SEQUENCES:
        # The mark of a named tuple, which has no class of its own.
        if issubclass(cls, kind) and not hasattr(cls, "_fields"):
            return kind([without_subclasses(part) for part in value])
    if issubclass(cls, Flag):  # msgspec knows the members and not what is made of none of them
        return value.value
    if adapter_for(cls) is None or issubclass(cls, Enum):
        return value
    from ferrule.app.signatures.adapters.builtin import plain_scalar, scalar_base

    return to_json(value) if scalar_base(cls) is None else plain_scalar(value)


_SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)


def _encode_hook(value: Any) -> Any:
    cls: type = type(value)  # pyright: ignore[reportUnknownVariableType]
    # Set by pydantic, which must not be imported to find out.
    if (serializer := getattr(cls, "__pydantic_serializer__", None)) is not None:
        # Without pydantic's warnings: what breaks a declared type is an error of the result.
        return serializer.to_python(value, mode="json", by_alias=True, warnings=False)
    from ferrule.app.signatures.adapters.builtin import encode_builtin

    return encode_builtin(value)
