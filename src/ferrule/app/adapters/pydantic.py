"""pydantic models, its dataclasses and its annotated validators: decoded, described and dumped by pydantic.

Imported only when an annotation uses pydantic. Validation is pydantic's own (lax) mode; a `str` field keeps its text
there too. Where a list, dict or model is declared and JSON text arrives, the text is decoded; see
`ferrule.app.arguments` for the rule.
"""

from __future__ import annotations

import typing
from functools import lru_cache
from typing import Any

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from ferrule.app.adapters.base import Opaque
from ferrule.app.guards import is_array, is_object

__all__ = ["PYDANTIC"]

_MAX_PROBLEMS = 5
_MAX_REPAIRS = 16
_CONTAINER_ERRORS = frozenset(
    f"{kind}_type"
    for kind in ("list", "dict", "set", "frozen_set", "tuple", "model", "model_attributes", "dataclass", "mapping")
)


class _Schemas(GenerateJsonSchema):
    """Without the titles that repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class _Pydantic(Opaque):
    name = "pydantic"

    def decode(self, annotation: Any, value: Any) -> Any:
        validate = _validator(annotation)
        try:
            return validate(value)
        except ValidationError as error:
            problem = error
        for _ in range(_MAX_REPAIRS):
            value, changed = _decode_json_text(value, problem)
            if not changed:
                break
            try:
                return validate(value)
            except ValidationError as error:
                problem = error
        raise ValueError(_tell(problem)) from problem

    def schema(self, annotation: Any, *, output: bool) -> dict[str, Any]:
        made = _adapter(annotation).json_schema(
            mode="serialization" if output else "validation", schema_generator=_Schemas, by_alias=True
        )
        _drop_class_titles(made, annotation)
        return made


@lru_cache(maxsize=1024)
def _class_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _class_adapter(annotation)
    except TypeError:  # unhashable: Annotated with mutable metadata
        return TypeAdapter(annotation)


@lru_cache(maxsize=1024)
def _class_validator(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.model_validate
    return _adapter(annotation).validate_python


def _validator(annotation: Any) -> Any:
    try:
        return _class_validator(annotation)
    except TypeError:
        return _adapter(annotation).validate_python


def _drop_class_titles(schema: dict[str, Any], annotation: Any) -> None:
    cls = typing.get_origin(annotation) or annotation
    if schema.get("title") == getattr(cls, "__name__", None):
        del schema["title"]
    for name, part in schema.get("$defs", {}).items():
        if isinstance(part.get("title"), str) and name.startswith(part["title"].partition("[")[0]):
            del part["title"]


def _decode_json_text(value: Any, error: ValidationError) -> tuple[Any, bool]:
    """``value`` with the first JSON text put where a container is declared, as the container that it spells."""
    for problem in error.errors(include_url=False, include_context=False):
        text = problem["input"]
        if problem["type"] not in _CONTAINER_ERRORS or not isinstance(text, str):
            continue
        try:
            decoded = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(decoded, dict | list):
            return _replaced(value, problem["loc"], text, decoded)
    return value, False


def _replaced(value: Any, path: tuple[Any, ...], text: str, decoded: Any) -> tuple[Any, bool]:
    if value is text or (not path and value == text):
        return decoded, True
    if not path:
        return value, False
    step, *rest = path
    if is_object(value) and step in value:
        inner, changed = _replaced(value[step], tuple(rest), text, decoded)
        return ({**value, step: inner}, True) if changed else (value, False)
    if is_array(value) and isinstance(step, int) and step < len(value):
        inner, changed = _replaced(value[step], tuple(rest), text, decoded)
        return ([*value[:step], inner, *value[step + 1 :]], True) if changed else (value, False)
    return _replaced(value, tuple(rest), text, decoded)  # a step that names a union's member, not a place


def _tell(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    told: list[str] = []
    for problem in problems[:_MAX_PROBLEMS]:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem["loc"])
        told.append(f"`{path.lstrip('.')}`: {problem['msg']}" if path else problem["msg"])
    if len(problems) > _MAX_PROBLEMS:
        told.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return "; ".join(told)


PYDANTIC = _Pydantic()
