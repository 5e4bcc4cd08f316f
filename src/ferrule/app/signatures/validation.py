"""Validation by JSON Schemas that an author wrote, with jsonschema-rs, which is imported when the first one is used.

A reference to another document is refused when the schema is compiled, and never fetched (2026-07-28, "JSON Schema").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from ferrule.app.errors import RegistrationError, ResultError
from ferrule.protocol.number_work import division_work, fraction_bits
from ferrule.wire.codec import encode

__all__ = ["check_schema", "problems_by", "validator_for"]

_MAX_PROBLEMS = 5
_MAX_DIVISION_WORK = 20_000_000
"""Maximum work of dividing a value's numbers by a fraction of the schema (``multipleOf``): about half a second."""
_MAX_EXPLAINED_BYTES = 16 * 1024
"""Maximum size of a value, as JSON in bytes, of which more than the first problem is searched."""


def validator_for(schema: dict[str, Any]) -> Callable[[Any], None]:
    """Return a function that raises `ResultError` for a value that does not fit; for errors see `problems_by`."""
    problems = problems_by(schema)

    def validate(value: Any) -> None:
        found = problems(value)
        if found:
            raise ResultError("it does not fit the declared output schema: " + "; ".join(found))

    return validate


def problems_by(schema: dict[str, Any]) -> Callable[[Any], list[str]]:
    """Return a function from a JSON value to its problems, at most five lines of ``path: reason``.

    Raises:
        RegistrationError: the schema is not valid 2020-12, or refers to another document.
        ImportError: jsonschema-rs is not installed.
    """
    validator = _compile(schema)
    divides = _largest_fraction(schema)

    def problems(value: Any) -> list[str]:
        if divides and division_work(value, divides, _MAX_DIVISION_WORK) > _MAX_DIVISION_WORK:
            return ["`value`: its numbers are too many, or too long, to be divided"]
        try:
            if validator.is_valid(value):
                return []
        except ValueError:  # the only one that jsonschema-rs has for a value: more than 255 levels
            return ["`value`: it is nested too deeply to be checked"]
        found: list[str] = []
        for error in _problems_of(validator, value):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            found.append(f"`{path.lstrip('.') or 'value'}`: {error.message}")
            if len(found) == _MAX_PROBLEMS:
                break
        return found

    return problems


def _largest_fraction(schema: dict[str, Any]) -> int:
    """Return the size in bits of the largest fraction in a ``multipleOf`` of a schema; 0 if there is none."""
    found = 0
    todo: list[Any] = [schema]
    while todo:
        part: Any = todo.pop()
        if isinstance(part, dict):
            found = max(found, fraction_bits(cast("dict[str, Any]", part)))
            todo.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list):
            todo.extend(cast("list[Any]", cast("object", part)))
    return found


def _problems_of(validator: Any, value: Any) -> Iterable[Any]:
    """Return all problems of a small value, or the first one of a large value."""
    # `iter_errors` finds all problems before it returns the first: 200,000 wrong entries took 12 s and 1 GB.
    import jsonschema_rs

    try:
        if len(encode(value)) <= _MAX_EXPLAINED_BYTES:
            return cast("Iterable[Any]", validator.iter_errors(value))
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return (error,)
    return ()


def check_schema(schema: dict[str, Any]) -> None:
    """Check that a schema can be enforced; for errors see `problems_by`."""
    _compile(schema)


def _compile(schema: dict[str, Any]) -> Any:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise ImportError("enforcing a schema of your own needs jsonschema-rs: pip install jsonschema-rs") from error
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, mask="the value")
    except Exception as error:
        raise RegistrationError(f"the schema cannot be used: {error}") from error


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and references are never fetched")
