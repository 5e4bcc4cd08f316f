"""Values between the page and the inspected server: numbers as they were written, and what a schema says about a value.

Python reads ``0.10`` as 0.1 and has no number for ``1e400``, so the text of such a number is kept in two places:
arguments from the page have an `Encoded` for it, and an outcome gets the text of the message that it was read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import float_info
from typing import Any, Final

from ferrule.client.calls.schema_check import SchemaCheck
from ferrule.inspector.errors import BadCall
from ferrule.protocol.schema_work import SchemaTooCostly
from ferrule.wire.codec import Encoded, decoder, encode, number_decoder
from ferrule.wire.faults import ConvertError, DecodeError
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import Value

__all__ = ["as_received", "check_value", "decode_any_number", "decode_exactly"]

MAX_COMPARED_BYTES: Final = 32 << 20
"""Maximum size of a message whose text is looked for in an outcome."""
MAX_PROBLEMS: Final = 20
_PROBLEM_CHARACTERS: Final = 500


def _exact(text: str) -> Any:
    value = float(text)
    return value if repr(value) == text else Encoded(text.encode())


decode_exactly: Final = number_decoder(_exact)
"""As `ferrule.wire.codec.decode`, with an `Encoded` for a number that Python would write in another way."""

_decode_finite: Final = number_decoder(lambda text: min(max(float(text), -float_info.max), float_info.max))

decode_any_number: Final = number_decoder(float)
"""As `ferrule.wire.codec.decode`, with infinity for a number that is too large for a double."""


class _Answer(Value):
    result: dict[str, Encoded]


_read_answer = decoder(_Answer)


def as_received(result: Any, messages: Iterable[bytes]) -> Any:
    """Return a result whose members have the text in which a message had them.

    Args:
        result: a result as JSON values.
        messages: messages from the server; the last one that has a member with the same value is used.
    """
    if not is_mapping(result):
        return result
    exact: dict[str, Any] = dict(result)
    for text in messages:
        if len(text) > MAX_COMPARED_BYTES or b'"result"' not in text:
            continue
        try:
            found = _read_answer(text).result
        except (DecodeError, ConvertError):
            continue
        for name, value in result.items():
            if name in found and decode_any_number(bytes(found[name])) == value:
                exact[name] = found[name]
    return exact


def check_value(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the problems of a value with a schema, as the page shows them.

    Args:
        body: ``schema`` and ``value``.

    Returns:
        ``problems``: at most `MAX_PROBLEMS` objects with ``path``, a list of names and indexes (``None`` if the problem
        is the schema), and ``text``.

    Raises:
        BadCall: ``schema`` is not an object.
    """
    schema: Any = _plain(body.get("schema"))
    if not is_mapping(schema):
        raise BadCall("schema is an object")
    try:
        found = SchemaCheck(dict(schema)).problems(_plain(body.get("value")), MAX_PROBLEMS)
    except ImportError:
        return {"problems": [_problem(None, "The value is not checked: jsonschema-rs is not installed")]}
    except (SchemaTooCostly, ValueError) as error:
        return {"problems": [_problem(None, f"The value is not checked: {error}")]}
    return {"problems": [_problem(path, text) for path, text in found]}


def _problem(path: list[str | int] | None, text: str) -> dict[str, Any]:
    return {"path": path, "text": text if len(text) <= _PROBLEM_CHARACTERS else f"{text[:_PROBLEM_CHARACTERS]}…"}


def _plain(value: Any) -> Any:
    return _decode_finite(encode(value))  # the validator has no infinity
