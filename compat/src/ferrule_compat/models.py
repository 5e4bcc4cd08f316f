"""`Model`: the part of pydantic's models that servers use of the old SDK's types, without importing pydantic.

A model has named fields, keeps what it does not know, and is dumped under the names of Python or of the wire. Values
are not checked beyond that a required field is there: the kernel checks what is sent to a peer. If the program has
imported pydantic itself, URIs become its ``AnyUrl``, and a model can be a field of a pydantic model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self, cast
from urllib.parse import urlsplit

__all__ = ["Model", "ModelField", "Root", "Uri", "ValidationError", "plain", "to_uri"]

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()


class ValidationError(ValueError):
    """A required field is missing."""


class Uri(str):
    """A URI with the parts that pydantic's ``AnyUrl`` has."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return ``scheme``, ``host``, ``port``, ``path``, ``query`` or ``fragment``; ``None`` for one without."""
        if name not in ("scheme", "host", "port", "path", "query", "fragment", "username", "password"):
            raise AttributeError(name)
        parts = urlsplit(str(self))
        return getattr(parts, "hostname" if name == "host" else name) or None


def to_uri(value: Any) -> Any:
    """Return text as a URI: pydantic's class where the program uses pydantic, else `Uri`."""
    if not isinstance(value, str):
        return value
    networks = sys.modules.get("pydantic.networks")
    if networks is not None:
        try:
            return networks.AnyUrl(value)
        except ValueError:
            pass
    return Uri(value)


class ModelField(NamedTuple):
    """A field of a model, with the names that pydantic's ``FieldInfo`` has.

    Attributes:
        alias: its name on the wire; ``None`` where that is the name in Python.
        default: `REQUIRED` for none.
        read: converts a given value; ``None`` keeps it.
        annotation, description: as in pydantic; nothing is known of them here.
    """

    alias: str | None = None
    default: Any = REQUIRED
    read: Callable[[Any], Any] | None = None
    annotation: Any = Any
    description: str | None = None

    def is_required(self) -> bool:
        """Return whether the field has no default."""
        return self.default is REQUIRED


class _FieldsOfSubclasses(type):
    """Adds the annotated names of a subclass that a server writes to the fields of the model."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        made: dict[str, ModelField] = {}
        for base in reversed(cls.__mro__[1:]):
            made |= base.__dict__.get("model_fields", {})
        for key in body.get("__annotations__", {}):
            if not key.startswith("_") and key not in ("model_fields", "model_config"):
                made[key] = ModelField(default=body.get(key, REQUIRED))
        made |= body.get("model_fields", {})
        cls.model_fields = made  # type: ignore[attr-defined]


class Model(metaclass=_FieldsOfSubclasses):
    """A value with named fields; unknown ones are kept."""

    model_fields: ClassVar[dict[str, ModelField]] = {}
    model_config: ClassVar[dict[str, Any]] = {"extra": "allow"}

    def __init__(self, /, **given: Any) -> None:
        values = _values(self)
        missing: list[str] = []
        for name, field in type(self).model_fields.items():
            key = field.alias if field.alias is not None and field.alias in given else name
            if key in given:
                value = given.pop(key)
                values[name] = value if field.read is None or value is None else field.read(value)
            elif field.default is REQUIRED:
                missing.append(name)
            else:
                values[name] = [] if field.default == [] else field.default
        if missing:
            lines = "".join(f"\n{name}\n  Field required" for name in missing)
            raise ValidationError(f"{len(missing)} validation error(s) for {type(self).__name__}{lines}")
        values.update(given)

    @classmethod
    def read(cls, value: Any) -> Any:
        """Return an object as this model; other values as they are."""
        return cls(**value) if isinstance(value, Mapping) else value

    # -- the methods of pydantic that servers call -------------------------------------------------------------------

    @classmethod
    def model_validate(cls, value: Any, **_: Any) -> Self:
        """Return a mapping, or an instance, as this model."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ValidationError(f"{cls.__name__} is made of an object, not of {type(value).__name__}")
        return cls(**value)

    @classmethod
    def model_validate_json(cls, value: str | bytes, **_: Any) -> Self:
        """Return JSON text as this model."""
        return cls.model_validate(json.loads(value))

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """Return a model of these values, without any check."""
        made = cls.__new__(cls)
        _values(made).update(values)
        return made

    def model_dump(
        self,
        *,
        mode: str = "python",
        by_alias: bool = False,
        exclude_none: bool = False,
        include: Any = None,
        exclude: Any = None,
        exclude_defaults: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """Return the fields as a dictionary; with ``by_alias`` under the names of the wire."""
        made: dict[str, Any] = {}
        fields = type(self).model_fields
        for name, value in self.__dict__.items():
            field = fields.get(name)
            skipped = (
                (exclude_none and value is None) or (exclude and name in exclude) or (include and name not in include)
            )
            if skipped or (exclude_defaults and field is not None and field.default == value):
                continue
            key = field.alias if by_alias and field is not None and field.alias is not None else name
            made[key] = plain(value, mode=mode, by_alias=by_alias, exclude_none=exclude_none)
        return made

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return `model_dump` as JSON text."""
        separators = (",", ":") if indent is None else None
        return json.dumps(
            self.model_dump(**{**options, "mode": "json"}), indent=indent, ensure_ascii=False, separators=separators
        )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed."""
        from copy import deepcopy

        values = deepcopy(self.__dict__) if deep else dict(self.__dict__)
        return type(self).model_construct(**{**values, **(update or {})})

    @classmethod
    def model_rebuild(cls, **_: Any) -> None:
        """Do nothing: there is nothing to complete."""

    dict, json, copy = model_dump, model_dump_json, model_copy
    parse_obj = model_validate

    @property
    def model_fields_set(self) -> set[str]:
        """The names of the fields that are not at their defaults."""
        fields = type(self).model_fields
        return {name for name, value in self.__dict__.items() if name not in fields or fields[name].default != value}

    @property
    def model_extra(self) -> dict[str, Any]:
        """The values under names that the model does not define."""
        return {name: value for name, value in self.__dict__.items() if name not in type(self).model_fields}

    def to_wire(self) -> dict[str, Any]:
        """Return the model as it is sent: under the names of the wire, without empty fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.__dict__.items())

    # -- as a type of a pydantic model or of a tool's result ---------------------------------------------------------

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.model_validate,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.to_wire()),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        fields = cls.model_fields.items()
        required = [field.alias or name for name, field in fields if field.is_required()]
        made = {
            "type": "object",
            "title": cls.__name__,
            "properties": {field.alias or name: {} for name, field in fields},
        }
        return {**made, "required": required} if required else made


def _values(model: Model) -> dict[str, Any]:
    return cast("dict[str, Any]", model.__dict__)


class Root(Model):
    """A model around one value, such as ``ServerResult(result)``."""

    def __init__(self, root: Any = None, /, **given: Any) -> None:
        _values(self)["root"] = given.get("root") if root is None else root

    def model_dump(self, **options: Any) -> Any:
        """Return the value as `plain` does."""
        known = ("mode", "by_alias", "exclude_none")
        return plain(self.root, **{name: value for name, value in options.items() if name in known})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no {name!r}; its value is .root")


def plain(value: Any, *, mode: str = "python", by_alias: bool = False, exclude_none: bool = False) -> Any:
    """Return a value with the models in it as dictionaries; with mode ``"json"`` as JSON data."""
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool or kind is float:
        return value
    if mode == "json" and isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        # Not `str(value)`: a subclass may show itself otherwise. A URI stays one in Python.
        return str.__str__(value) if mode == "json" else value
    options: Any = {"mode": mode, "by_alias": by_alias, "exclude_none": exclude_none}
    if isinstance(value, Model):
        return value.model_dump(**options)
    if isinstance(value, Mapping):
        # `None` is a value in free data, such as arguments and structured content.
        return {key: plain(item, **options) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, **options) for item in value]
    if mode != "json" or isinstance(value, int | float):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is not None:  # a model of pydantic
        return dump(**options)
    isoformat = getattr(value, "isoformat", None)
    return str(value) if isoformat is None else isoformat()
