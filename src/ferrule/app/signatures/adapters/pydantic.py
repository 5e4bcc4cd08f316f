"""pydantic models, its dataclasses and its annotated validators: decoded, described and dumped by pydantic.

Imported only when an annotation uses pydantic. A value is first read strictly as JSON, so that each value that the
published schema allows is accepted, also by strict classes. Then it is read in pydantic's lax mode, except that
booleans and numbers are not converted to each other. A `str` field keeps its text. JSON text for a declared list, dict
or model is decoded; see `ferrule.app.signatures.coercion`.
"""

from __future__ import annotations

import typing
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from ferrule.app.errors import SignatureError
from ferrule.app.signatures.adapters.base import Opaque
from ferrule.app.signatures.scalars import ACCEPTED
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_array, is_object

__all__ = ["PYDANTIC"]

_MAX_PROBLEMS = 5
_MAX_LISTED = 10_000
_MAX_LEVELS = 16
"""Maximum number of times that JSON text inside JSON text is decoded."""
_CONTAINER_ERRORS = frozenset(
    f"{kind}_type"
    for kind in ("list", "dict", "set", "frozen_set", "tuple", "model", "model_attributes", "dataclass", "mapping")
)
_INTEGER_ERRORS = frozenset({"int_type", "int_from_float", "int_parsing", "int_parsing_size"})
_NUMBER_ERRORS = frozenset({"int_type", "float_type", "decimal_type"})
_NOT_YET = frozenset({"class-not-fully-defined", "undefined-annotation"})
_SAFE_FORMATS = frozenset({"date", "date-time", "uuid", "uuid4", "ipv4", "binary", "base64url", "base64"})
"""Formats that every result fits; ``date-time`` only if the type requires an offset."""


class _Schemas(GenerateJsonSchema):
    """Makes schemas without titles that repeat a field's name; for results without formats that a value may break."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        made = super().decimal_schema(schema)
        if self.mode == "validation":
            for part in made.get("anyOf", ()):
                if part.get("type") == "string":
                    part.setdefault("pattern", ACCEPTED[Decimal]["pattern"])
        return made

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        made = super().datetime_schema(schema)
        has_offset = schema.get("tz_constraint") not in (None, "naive")
        return made if has_offset or self.mode == "validation" else {"type": "string"}


class _Pydantic(Opaque):
    name = "pydantic"

    def decode(self, annotation: Any, value: Any) -> Any:
        validators = _validators(annotation)
        for left in reversed(range(_MAX_LEVELS)):
            try:
                return _validate(validators, value)
            except ValidationError as error:
                value, changed = _convert_wrong_values(value, error)
                if not changed or not left:
                    raise ValueError(_describe(error)) from error
        raise AssertionError

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        """As `Adapter.schema`.

        Raises:
            NameError: the class names something that is not defined yet.
            SignatureError: pydantic has no schema for it, or the author's own method for one fails.
        """
        try:
            made = _adapter(annotation).json_schema(
                mode="serialization" if output else "validation", schema_generator=_Schemas, by_alias=True
            )
        except Exception as error:
            reason = str(error).partition("\n")[0]
            # Errors of pydantic carry a code, which says more than their class.
            if isinstance(error, NameError) or getattr(error, "code", None) in _NOT_YET:
                _class_adapter.cache_clear()  # what it holds for the class would stay unfinished
                raise NameError(reason) from error
            raise SignatureError(f"pydantic cannot describe {_name(annotation)}: {reason}") from error
        _drop_class_titles(made, annotation)
        if output:
            _drop_formats(made)
        else:
            _require_tags(made)
        return made


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _validate(validators: tuple[Any, Any], value: Any) -> Any:
    read_python, read_json = validators
    try:
        text = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):  # it holds what a caller in this process has: instances
        return read_python(value)
    try:
        return read_json(text, strict=True)
    except ValidationError as error:
        strictly = error
    if _mixes_truth_and_numbers(strictly):
        raise strictly
    return read_json(text)


def _problems_of(error: ValidationError) -> list[Any]:
    """Return the problems, each with its path and value.

    Raises:
        ValueError: there are too many problems; a peer chooses their number, and listing them takes time.
    """
    if (count := error.error_count()) > _MAX_LISTED:
        raise ValueError(f"there are {count:,} problems with it")
    return error.errors(include_url=False, include_context=False)


def _mixes_truth_and_numbers(error: ValidationError) -> bool:
    for problem in _problems_of(error):
        kind, given = problem["type"], problem["input"]
        if isinstance(given, bool) and kind in _NUMBER_ERRORS:
            return True
        if kind == "bool_type" and isinstance(given, int | float) and not isinstance(given, bool):
            return True
    return False


def _require_tags(schema: Any) -> None:
    """Make the tag required in each member of a discriminated union, as pydantic does although it has a default."""
    if is_object(schema):
        tag = schema.get("discriminator")
        name = tag.get("propertyName") if is_object(tag) else None
        for part in schema.get("oneOf", ()) if isinstance(name, str) else ():
            if "$ref" in part or "properties" in part:
                part["required"] = list(dict.fromkeys([*part.get("required", ()), name]))
        for key, part in schema.items():
            if key not in _DATA:
                _require_tags(part)
    elif is_array(schema):
        for part in schema:
            _require_tags(part)


_DATA = frozenset({"default", "examples", "enum", "const"})


def _drop_formats(schema: Any) -> None:
    if is_object(schema):
        if schema.get("type") == "string" and schema.get("format", "date") not in _SAFE_FORMATS:
            del schema["format"]
        for name, part in schema.items():
            if name not in _DATA:
                _drop_formats(part)
    elif is_array(schema):
        for part in schema:
            _drop_formats(part)


@lru_cache(maxsize=1024)
def _class_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _class_adapter(annotation)
    except TypeError:  # unhashable: Annotated with mutable metadata
        return TypeAdapter(annotation)


@lru_cache(maxsize=1024)
def _class_validators(annotation: Any) -> tuple[Any, Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.model_validate, annotation.model_validate_json
    adapter = _adapter(annotation)
    return adapter.validate_python, adapter.validate_json


def _validators(annotation: Any) -> tuple[Any, Any]:
    """Return two validators: of Python values, and of JSON."""
    try:
        return _class_validators(annotation)
    except TypeError:
        adapter = _adapter(annotation)
        return adapter.validate_python, adapter.validate_json


def _drop_class_titles(schema: dict[str, Any], annotation: Any) -> None:
    cls = typing.get_origin(annotation) or annotation
    # A generic alias has no `__name__`.
    if schema.get("title") == getattr(cls, "__name__", None):
        del schema["title"]
    for name, part in schema.get("$defs", {}).items():
        if isinstance(part.get("title"), str) and name.startswith(part["title"].partition("[")[0]):
            del part["title"]


def _convert_wrong_values(value: Any, error: ValidationError) -> tuple[Any, bool]:
    """Repair a value: decode JSON text for declared containers, convert whole floats to declared integers.

    Returns:
        The value, and whether it has changed.
    """
    made, changed = value, False
    for problem in _problems_of(error):
        sent = problem["input"]
        better = sent
        if problem["type"] in _CONTAINER_ERRORS and isinstance(sent, str):
            better = _container_of(sent)
        elif problem["type"] in _INTEGER_ERRORS and isinstance(sent, float) and sent.is_integer():
            better = int(sent)
        if better is not sent:
            if not changed:
                made, changed = _copy(value), True
            made = _replace_at(made, problem["loc"], sent, better)
    return made, changed


def _container_of(text: str) -> Any:
    try:
        made = decode(text)
    except DecodeError:
        return text
    return made if is_object(made) or is_array(made) else text


def _copy(value: Any) -> Any:
    """Return a copy of the containers: the caller's value is never changed."""
    if is_object(value):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if is_array(value) else value


def _replace_at(root: Any, path: tuple[Any, ...], sent: Any, better: Any) -> Any:
    """Return ``root`` with ``better`` in place of ``sent``; a step that is not a key names a member of a union."""
    parent: Any = None
    place: Any = None
    node = root
    for step in path:
        if (is_object(node) and step in node) or (is_array(node) and isinstance(step, int) and step < len(node)):
            parent, place, node = node, step, cast("Any", node)[step]
    if node.__class__ is not sent.__class__ or node != sent:
        return root
    if parent is None:
        return better
    parent[place] = better
    return root


def _describe(error: ValidationError) -> str:
    problems = _problems_of(error)
    texts: list[str] = []
    for problem in problems[:_MAX_PROBLEMS]:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem["loc"])
        texts.append(f"`{path.lstrip('.')}`: {problem['msg']}" if path else problem["msg"])
    if len(problems) > _MAX_PROBLEMS:
        texts.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return "; ".join(texts)


PYDANTIC = _Pydantic()
