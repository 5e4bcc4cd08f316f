"""What each model API refuses: the table of docs/topics/types.md, entry by entry."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.checks.judge import make_settings
from ferrule.checks.rules.model_apis import MODEL_APIS
from tests.checks.samples import found, takes, tool

TEXT = {"type": "string", "description": "d"}


def refused(tool: dict[str, Any], *apis: str) -> dict[str, list[str]]:
    """Code → reasons, for these APIs."""
    made: dict[str, list[str]] = {}
    for each in found(tool, settings=make_settings(apis=apis, only=["F30", "F31", "F32", "F33"])):
        made.setdefault(each.code, []).append(each.message)
        assert each.severity == "error"
    return made


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "object", "properties": {}, "anyOf": [{}]}, "F30"),
        ({"type": "object"}, "F30"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "F30"),
        ({"type": "object", "properties": {}, "oneOf": [{}]}, "F31"),
        ({"type": "object", "properties": {"a b": TEXT}}, "F31"),
        ({"type": "object", "properties": {"x" * 65: TEXT}}, "F31"),
    ],
)
def test_what_is_refused(schema: dict[str, Any], code: str) -> None:
    """Each is the text of an error message of the API."""
    assert code in refused(tool(inputSchema=schema), "openai", "anthropic")


@pytest.mark.parametrize(
    "part",
    [
        {"$ref": "#"},
        {"type": ["string", "null"]},
        {"oneOf": [TEXT]},
        {"type": "integer", "exclusiveMinimum": 0},
        {"type": "integer", "multipleOf": 2},
        {"enum": [1, 2]},
        {"const": "x"},
        {"type": "string", "format": "uuid"},
        {"type": "array", "prefixItems": [TEXT]},
        {"type": "array", "items": {}},
    ],
)
def test_what_gemini_refuses(part: dict[str, Any]) -> None:
    """Its form for function parameters is a subset of OpenAPI 3.0; the others take all of these."""
    assert list(refused(takes({"a": part}), "openai", "anthropic", "gemini")) == ["F32"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "integer", "format": "int64", "minimum": 1},
        {"type": "string", "format": "date-time"},
        {"anyOf": [TEXT, {"type": "integer"}]},
        {"type": "array", "items": TEXT, "maxItems": 3},
        {"type": "string", "enum": ["a"]},
    ],
)
def test_what_all_take(part: dict[str, Any]) -> None:
    """The subset that they share."""
    assert refused(takes({"a": part}), "openai", "anthropic", "gemini") == {}


def test_strict_modes_are_judged_when_they_are_named() -> None:
    """Nearly every schema breaks them, and hosts rewrite it."""
    open_one = takes({"a": TEXT, "b": {"type": "integer", "minimum": 1}})
    assert "F33" not in [each.code for each in found(open_one)]
    assert refused(open_one, "openai-strict")["F33"] == [
        "OpenAI (strict) refuses an object without additionalProperties: false",
        "OpenAI (strict) refuses a property that is not required",
    ]
    assert "Anthropic (strict) refuses minimum" in refused(open_one, "anthropic-strict")["F33"]
    closed = takes({"a": TEXT}, required=["a"], additionalProperties=False)
    assert refused(closed, "openai-strict", "anthropic-strict") == {}


def test_one_finding_for_a_reason() -> None:
    """With the number of places."""
    three = {name: {"type": "integer", "multipleOf": 2} for name in "abc"}
    assert refused(takes(three), "gemini")["F32"] == ["Gemini (parameters) refuses multipleOf (in 3 places)"]


def test_the_schemas_of_the_library_are_taken_by_all() -> None:
    """``schema="model"`` promises it."""
    from datetime import date
    from decimal import Decimal
    from typing import Literal
    from uuid import UUID

    app = MCPServer("s")

    @app.tool
    def order(
        day: date, key: UUID, price: Decimal, kind: Literal["a", "b"], parts: tuple[int, str], note: str | None = None
    ) -> None:
        """Order parts."""

    (listed,) = app.list_tools()
    assert refused({"name": "order", "inputSchema": listed.input_schema}, "openai", "anthropic", "gemini") == {}


def test_every_api_has_a_rule() -> None:
    """A finding without one could not be explained."""
    from ferrule.checks.table import RULES

    assert {api.code for api in MODEL_APIS.values()} <= RULES.keys()
