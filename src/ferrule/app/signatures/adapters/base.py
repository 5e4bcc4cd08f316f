"""The two base classes of adapters: for classes with fields, and for opaque classes."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any

import msgspec

from ferrule.app.signatures.adapters import RawField

__all__ = ["Fields", "Opaque", "class_hints", "collection_default", "evaluated_in", "remember_names"]

_NO_TRAITS: frozenset[str] = frozenset()


_COLLECTIONS: tuple[Any, ...] = (list, dict, set, tuple)


def collection_default(factory: Any) -> Any:
    """Return the value of a ``default_factory`` that makes an empty collection; other factories are never called."""
    return factory() if factory in _COLLECTIONS else msgspec.UNSET


class Fields:
    """An adapter for classes made of fields."""

    name = "fields"
    is_opaque = False

    def build(self, annotation: Any, values: dict[str, Any]) -> Any:
        cls = typing.get_origin(annotation) or annotation
        return cls(**values)

    def decode(self, annotation: Any, value: Any) -> Any:
        raise TypeError(f"{annotation!r} is decoded by its fields")

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        raise TypeError(f"{annotation!r} is described by its fields")

    def traits(self, annotation: Any) -> frozenset[str]:
        return _NO_TRAITS


class Opaque:
    """An adapter that decodes and describes by itself."""

    name = "opaque"
    is_opaque = True

    def fields(self, annotation: Any) -> list[RawField]:
        raise TypeError(f"{annotation!r} shows no fields")

    def build(self, annotation: Any, values: dict[str, Any]) -> Any:
        raise TypeError(f"{annotation!r} is built by its own library")

    def traits(self, annotation: Any) -> frozenset[str]:
        return _NO_TRAITS


def evaluated_in(module: str, hint: Any) -> Any:
    """Return a type that was written in a module, with what is text in it evaluated there.

    Raises:
        NameError: it names something that is not defined yet.
    """
    known = sys.modules.get(module)
    holder = types.SimpleNamespace(__annotations__={"it": hint})
    names = {} if known is None else vars(known)
    return typing.get_type_hints(holder, names, _local_names.get(module, {}), include_extras=True)["it"]


def class_hints(annotation: Any) -> dict[str, Any]:
    """Return the resolved annotations of a class with its generic arguments put in; unbound ones read as ``Any``.

    Raises:
        NameError: an annotation names something that is not defined yet, or only inside a function.
    """
    cls = typing.get_origin(annotation) or annotation
    module = sys.modules.get(cls.__module__)
    names = {**vars(module), cls.__name__: cls} if module is not None else {cls.__name__: cls}
    names.update(_local_names.get(cls.__module__, {}))
    hints = typing.get_type_hints(cls, localns=names, include_extras=True)
    bindings = _bindings(annotation)
    return {name: _substitute(hint, bindings) for name, hint in hints.items()} if bindings else hints


_local_names: dict[str, dict[str, Any]] = {}
"""By module: classes seen in the functions that register components, where local classes are found."""


def remember_names(module: str, names: dict[str, Any]) -> None:
    """Remember local classes of running functions for `class_hints`."""
    kept = _local_names.setdefault(module, {})
    for name, value in names.items():
        if isinstance(value, type | types.ModuleType | typing.TypeVar) or typing.get_origin(value) is not None:
            kept[name] = value


def _bindings(annotation: Any) -> dict[Any, Any]:
    cls = typing.get_origin(annotation) or annotation
    args = typing.get_args(annotation)
    # Set by Python on generic classes only.
    parameters = getattr(cls, "__parameters__", ())
    found: dict[Any, Any] = dict(zip(parameters, args, strict=False)) if args else {}
    # Set by Python on classes with generic bases only.
    for base in getattr(cls, "__orig_bases__", ()):
        origin = typing.get_origin(base)
        if origin is None or origin in (typing.Generic, typing.Protocol):
            continue
        # Set by Python on generic classes only.
        for parameter, argument in zip(getattr(origin, "__parameters__", ()), typing.get_args(base), strict=False):
            found.setdefault(parameter, _substitute(argument, found))
    return found


def _substitute(hint: Any, bindings: dict[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return bindings.get(hint, hint)
    # Set by Python on generic aliases only.
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(bindings.get(parameter, Any) for parameter in parameters)]
