"""Records are bounded, and have of the arguments only what was chosen."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.app.middleware.audit.record import cut, cut_all, time_text
from ferrule.protocol.secret_forms import secret_arguments

SECRET = {"type": "string", "writeOnly": True}


@pytest.mark.parametrize(
    ("part", "is_secret"),
    [
        ({"type": "string"}, False),
        (SECRET, True),
        ({"type": "string", "format": "password"}, True),
        ({"anyOf": [{"type": "null"}, SECRET]}, True),
        ({"type": "object", "properties": {"inner": SECRET}}, True),
        ({"type": "array", "items": SECRET}, True),
        ({"$ref": "#/$defs/Login"}, True),
        ({"$ref": "#/$defs/Loop"}, False),
        ({"$ref": "#/$defs/Missing"}, True),
        (True, False),
    ],
)
def test_an_argument_is_secret_if_any_part_of_it_is(part: Any, is_secret: bool) -> None:
    defs = {
        "Login": {"type": "object", "properties": {"password": {"format": "password"}}},
        "Loop": {"properties": {"next": {"$ref": "#/$defs/Loop"}}},
    }
    schema = {"properties": {"open": {"type": "string"}, "part": part}, "$defs": defs}
    assert secret_arguments(schema) == ({"part"} if is_secret else set())


@pytest.mark.parametrize("schema", [None, {}, {"properties": []}, []])
def test_a_schema_without_properties_has_no_secrets(schema: Any) -> None:
    assert secret_arguments(schema) == frozenset()


def test_texts_and_lists_are_cut() -> None:
    assert cut(None) is None
    assert cut("x" * 256) == "x" * 256
    assert cut("x" * 257) == "x" * 255 + "…"
    assert len(cut_all(str(number) for number in range(1000))) == 32


def test_times_are_in_utc_with_milliseconds() -> None:
    assert time_text(0.0625) == "1970-01-01T00:00:00.062Z"
