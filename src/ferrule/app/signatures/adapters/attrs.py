"""attrs classes: msgspec builds plain ones, validators included; converters and aliases need the constructor."""

from __future__ import annotations

import dataclasses
import sys
import typing
from typing import Any

import msgspec

from ferrule.app.signatures.adapters import RawField
from ferrule.app.signatures.adapters.base import Fields, class_hints, collection_default
from ferrule.wire.json_types import is_object

__all__ = ["ATTRS", "with_aliases"]


class _Attrs(Fields):
    name = "attrs"

    def fields(self, annotation: Any) -> list[RawField]:
        attr = sys.modules["attr"]  # loaded, since such a class exists

        hints = class_hints(annotation)
        found: list[RawField] = []
        for field in _attributes(annotation):
            if not field.init:
                continue
            default = field.default
            required = default is attr.NOTHING
            if required or isinstance(default, attr.Factory):
                # A default of attrs is a value of the user, or a `Factory` of attrs.
                default = collection_default(getattr(default, "factory", None))
            found.append(RawField(field.alias, field.alias, hints.get(field.name, Any), required, default))
        return found

    def traits(self, annotation: Any) -> frozenset[str]:
        particular = any(f.converter is not None or f.alias != f.name or not f.init for f in _attributes(annotation))
        return frozenset({"slow"}) if particular else frozenset()


def with_aliases(value: Any) -> Any:
    """Return ``value`` with attrs instances as objects with the aliases of their fields, as described and built.

    msgspec writes them by the names of their attributes, and leaves private ones out.
    """
    cls: type = value.__class__
    if "__attrs_attrs__" in cls.__dict__:
        return {field.alias: with_aliases(getattr(value, field.name)) for field in _attributes(cls)}
    if is_object(value):
        return {key: with_aliases(part) for key, part in value.items()}
    if issubclass(cls, list | tuple | set | frozenset):
        return [with_aliases(part) for part in value]
    if issubclass(cls, msgspec.Struct):
        return _struct(value, cls.__struct_config__)
    if "__dataclass_fields__" in cls.__dict__:
        return {field.name: with_aliases(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _struct(value: Any, config: Any) -> Any:
    made = {} if config.tag_field is None else {config.tag_field: config.tag}
    for field in msgspec.structs.fields(value):
        part = getattr(value, field.name)
        if part is not msgspec.UNSET:
            made[field.encode_name] = with_aliases(part)
    return list(made.values()) if config.array_like else made


def _attributes(annotation: Any) -> tuple[Any, ...]:
    cls = typing.get_origin(annotation) or annotation
    return tuple(cls.__attrs_attrs__)


ATTRS = _Attrs()
