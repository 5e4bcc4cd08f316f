"""JSON Schemas that an author wrote, enforced by jsonschema-rs, which is imported when the first one is used.

A reference that would have to be fetched is refused when the schema is compiled: nothing here opens a connection
(specification 2026-07-28, "JSON Schema": a network reference is never followed by itself).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrule.app.errors import RegistrationError, ResultError

__all__ = ["check_schema", "problems_by", "validator_for"]

_MAX_PROBLEMS = 5


def validator_for(schema: dict[str, Any]) -> Callable[[Any], None]:
    """A function that raises `ResultError` when its argument does not fit ``schema``."""
    problems = problems_by(schema)

    def validate(value: Any) -> None:
        found = problems(value)
        if found:
            raise ResultError("it does not fit the declared output schema: " + "; ".join(found))

    return validate


def problems_by(schema: dict[str, Any]) -> Callable[[Any], list[str]]:
    """A function from a JSON value to what is wrong with it, at most five lines of ``path: reason``.

    Raises:
        RegistrationError: the schema is not valid 2020-12, or refers to a document that is not in it.
        ImportError: jsonschema-rs is not installed.
    """
    validator = _compile(schema)

    def problems(value: Any) -> list[str]:
        found: list[str] = []
        for error in validator.iter_errors(value):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            found.append(f"`{path.lstrip('.') or 'value'}`: {error.message}")
            if len(found) == _MAX_PROBLEMS:
                break
        return found

    return problems


def check_schema(schema: dict[str, Any]) -> None:
    """Refuse a schema that cannot be enforced; raises as `problems_by`."""
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
