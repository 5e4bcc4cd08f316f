"""attrs classes: msgspec builds plain ones, validators included; converters and aliases need the constructor."""

from __future__ import annotations

import sys
import typing
from typing import Any

from ferrule.app.adapters import RawField
from ferrule.app.adapters.base import Fields, class_hints, collection_default

__all__ = ["ATTRS"]


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
                default = collection_default(getattr(default, "factory", None))
            found.append(RawField(field.alias, field.alias, hints.get(field.name, Any), required, default))
        return found

    def traits(self, annotation: Any) -> frozenset[str]:
        particular = any(f.converter is not None or f.alias != f.name or not f.init for f in _attributes(annotation))
        return frozenset({"slow"}) if particular else frozenset()


def _attributes(annotation: Any) -> tuple[Any, ...]:
    cls = typing.get_origin(annotation) or annotation
    return tuple(cls.__attrs_attrs__)


ATTRS = _Attrs()
