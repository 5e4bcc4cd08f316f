"""Output schemas of a server take bounded time and memory; above the bound there is an error."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.calls.results import ToolCallResult
from ferrule.client.calls.schema_types import type_from_schema
from ferrule.client.calls.tool_metadata import ToolMetadata
from ferrule.client.errors import InvalidToolOutput, OutputNotCheckable
from ferrule.wire.types import Tool, ToolResult


def book_of(schema: dict[str, Any]) -> ToolMetadata:
    book = ToolMetadata()
    book.learn([Tool(name="t", input_schema={"type": "object"}, output_schema=schema)], checks_headers=False)
    return book


def doubling(times: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"n0": {"type": "string"}}
    for number in range(1, times + 1):
        below = {"$ref": f"#/$defs/n{number - 1}"}
        defs[f"n{number}"] = {"anyOf": [below, dict(below)]}
    return {"$defs": defs, "type": "object", "properties": {"x": {"$ref": f"#/$defs/n{times}"}}}


def nested(times: int) -> Any:
    value: Any = {}
    for _ in range(times):
        value = {"n": value}
    return value


@pytest.mark.parametrize("times", [17, 60])
def test_a_schema_that_doubles_ends_the_call_with_a_reason(times: int) -> None:
    """The description alone of the failed choices took 9 s and 780 MB; with 60 definitions nothing ever ends."""
    with pytest.raises(InvalidToolOutput) as caught:
        book_of(doubling(times)).validate("t", {"x": 1})
    assert len(str(caught.value)) < 1000
    if times == 60:
        assert isinstance(caught.value, OutputNotCheckable)
        assert "evaluations" in str(caught.value)
        assert "validate_output=False" in str(caught.value)


def test_a_schema_that_refers_to_itself_without_end_is_named() -> None:
    """No value could be checked with it."""
    with pytest.raises(OutputNotCheckable, match="without end"):
        book_of({"anyOf": [{"$ref": "#"}]}).validate("t", {})


def test_deep_values_end_with_an_error_of_ours() -> None:
    """The validator raises a bare ValueError for a value that is nested 300 deep, and overflows the stack where
    references multiply the depth."""
    tree = {"type": "object", "properties": {"n": {"$ref": "#"}}}
    book_of(tree).validate("t", nested(200))
    with pytest.raises(OutputNotCheckable, match="deep"):
        book_of(tree).validate("t", nested(400))
    defs: dict[str, Any] = {f"b{at}": {"allOf": [{"$ref": f"#/$defs/b{at + 1}"}]} for at in range(50)}
    defs["b50"] = {"properties": {"n": {"$ref": "#/$defs/b0"}}}
    with pytest.raises(OutputNotCheckable, match="recurse"):
        book_of({"$defs": defs, "$ref": "#/$defs/b0"}).validate("t", nested(250))


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*\1$", r"^(?=(a+)+b)", r"^(?:(?:a{50}){50}){50}$"])
def test_patterns_that_explode_are_bounded(pattern: str) -> None:
    """The linear engine where it can, few steps back where not; a pattern too large to compile leaves the result
    unchecked like every schema that cannot be used."""
    book = book_of({"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}})
    if "{50}" in pattern:
        book.validate("t", {"x": "aaa!"})
        return
    with pytest.raises(InvalidToolOutput):
        book.validate("t", {"x": "a" * 5000 + "!"})


def test_one_problem_of_many_is_described() -> None:
    """A list of all problems of 200,000 wrong entries took 12 s and 1 GB."""
    book = book_of({"type": "array", "items": {"type": "string"}})
    with pytest.raises(InvalidToolOutput, match=r"\$\[3\]"):
        book.validate("t", ["a", "b", "c", 4, 5])
    with pytest.raises(InvalidToolOutput, match="too large to say where"):
        book.validate("t", [1] * 200_000)


def test_types_are_made_of_a_bounded_number_of_parts() -> None:
    """``.data`` of a schema that doubles thirty times is the JSON itself, at once."""
    defs: dict[str, Any] = {"n0": {"type": "string"}}
    for number in range(1, 20):
        below = {"$ref": f"#/$defs/n{number - 1}"}
        defs[f"n{number}"] = {"type": "object", "properties": {"l": below, "r": dict(below)}}
    schema = {"$defs": defs, "type": "object", "properties": {"x": {"$ref": "#/$defs/n19"}}}
    assert type_from_schema(schema) is Any
    assert type_from_schema({"enum": [f"v{n}" for n in range(50_000)]}) is Any
    result = ToolResult(content=[], structured_content={"x": {}})
    assert ToolCallResult("t", result, output_schema=schema).data == {"x": {}}
