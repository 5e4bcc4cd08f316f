"""``msgspec.Struct`` classes: msgspec converts them itself; only their fields are read here, for the schema."""

from __future__ import annotations

import typing
from typing import Any, Literal

import msgspec

from ferrule.app.signatures.adapters import RawField
from ferrule.app.signatures.adapters.base import Fields, class_hints, collection_default

__all__ = ["STRUCTS"]


_UNION: Any = typing.Union


class _Structs(Fields):
    name = "msgspec"

    def fields(self, annotation: Any) -> list[RawField]:
        cls = typing.get_origin(annotation) or annotation
        config = cls.__struct_config__
        found: list[RawField] = []
        if config.tag_field is not None:
            found.append(RawField(config.tag_field, config.tag_field, Literal[config.tag], True))
        hints = class_hints(annotation)
        for field in msgspec.structs.fields(cls):
            default = field.default if field.default is not msgspec.NODEFAULT else msgspec.UNSET
            if field.default is msgspec.NODEFAULT:
                default = collection_default(field.default_factory)
            hint = _without_unset(hints[field.name])
            found.append(RawField(field.name, field.encode_name, hint, field.required, default))
        return found

    def build(self, annotation: Any, values: dict[str, Any]) -> Any:
        cls = typing.get_origin(annotation) or annotation
        values.pop(cls.__struct_config__.tag_field, None)
        return cls(**values)

    def traits(self, annotation: Any) -> frozenset[str]:
        cls = typing.get_origin(annotation) or annotation
        config = cls.__struct_config__
        facts = {"closed": config.forbid_unknown_fields, "array": config.array_like}
        return frozenset(name for name, holds in facts.items() if holds)


def _without_unset(hint: Any) -> Any:
    args = typing.get_args(hint)
    if msgspec.UnsetType not in args:
        return hint
    return _UNION[tuple(arg for arg in args if arg is not msgspec.UnsetType)]


STRUCTS = _Structs()
