"""Forms from JSON schemas: the controls of each schema, the values read from them, and schemas without a form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.inspector.conftest import Watched

READ = """async ([schema, initial, fill]) => {
  const { schemaForm } = await import("/form.js");
  const form = schemaForm(schema, initial);
  const work = document.createElement("div");
  work.append(form.element);
  for (const [at, value] of Object.entries(fill)) {
    const control = work.querySelectorAll("input, select, textarea")[Number(at)];
    if (typeof value === "boolean") control.checked = value;
    else control.value = value;
    control.dispatchEvent(new Event("input"));
    control.dispatchEvent(new Event("change"));
  }
  const kinds = [...work.querySelectorAll("input, select, textarea")].map((each) => each.type);
  return { ...form.read(), kinds };
}"""


def read(opened: Watched, schema: Any, initial: Any = None, **fill: Any) -> Any:
    """Make a form, fill in its controls by their number, and read it."""
    by_number = {name.removeprefix("c"): value for name, value in fill.items()}
    return opened.page.evaluate(READ, [schema, initial or {}, by_number])


def one(schema: Any, *, required: bool = True) -> dict[str, Any]:
    """An object with one property."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}


@pytest.mark.parametrize(
    ("schema", "required", "fill", "expected"),
    [
        ({"type": "string"}, True, {"c0": "a"}, {"x": "a"}),
        ({"type": "string"}, False, {}, {}),
        ({"type": "integer"}, True, {"c0": " 7 "}, {"x": 7}),
        ({"type": "number"}, True, {"c0": "-1e3"}, {"x": -1000}),
        ({"type": "boolean"}, True, {"c0": True}, {"x": True}),
        ({"type": "boolean"}, True, {}, {"x": False}),
        ({"type": "boolean"}, False, {}, {}),
        ({"type": "boolean"}, False, {"c0": "1"}, {"x": False}),
        ({"type": "boolean", "default": True}, False, {}, {"x": True}),
        ({"enum": [1, "1", None, True]}, True, {"c0": "1"}, {"x": "1"}),
        ({"enum": [1, "1", None, True]}, True, {"c0": "2"}, {"x": None}),
        ({"const": "only"}, True, {}, {"x": "only"}),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, True, {"c0": "1"}, {"x": 2}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True, {}, {"x": None}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, False, {"c0": "t"}, {"x": "t"}),
        ({"type": ["integer", "null"]}, False, {"c0": "3"}, {"x": 3}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, True, {"c0": "1", "c1": "s"}, {"x": "s"}),
        ({"type": "array", "items": {"type": "integer"}}, True, {"c0": "4"}, {"x": [4]}),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, True, {"c1": True}, {"x": ["b"]}),
        ({"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}}, True, {"c0": True}, {"x": ["a"]}),
        ({"type": "object", "properties": {"y": {"type": "string"}}}, False, {}, {}),
        (
            {"type": "object", "properties": {"y": {"type": "string"}}},
            False,
            {"c0": True, "c1": "z"},
            {"x": {"y": "z"}},
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, True, {"c0": '{"k": 1}'}, {"x": {"k": 1}}),
        ({}, True, {"c0": "[1, null]"}, {"x": [1, None]}),
        ({"$ref": "#/nowhere"}, True, {"c0": "5"}, {"x": 5}),
        ({"allOf": [{"type": "integer"}]}, True, {"c0": "5"}, {"x": 5}),
        ({"type": "string", "format": "date"}, True, {"c0": "2026-07-28"}, {"x": "2026-07-28"}),
    ],
    ids=range(27),
)
def test_a_schema_is_a_form(opened: Watched, schema: Any, required: bool, fill: Any, expected: Any) -> None:
    """Each control returns its value with the type of the schema."""
    found = read(opened, one(schema, required=required), **fill)
    assert (found["value"], found["problems"]) == (expected, [])


@pytest.mark.parametrize(
    ("schema", "fill"),
    [
        ({"type": "string"}, {}),
        ({"type": "string", "minLength": 3}, {"c0": "ab"}),
        ({"type": "string", "maxLength": 1}, {"c0": "ab"}),
        ({"type": "integer"}, {"c0": "1.5"}),
        ({"type": "integer"}, {"c0": "x"}),
        ({"type": "number", "minimum": 2}, {"c0": "1"}),
        ({"type": "number", "maximum": 2}, {"c0": "3"}),
        ({"enum": ["a", "b"]}, {}),
        ({"type": "object"}, {"c0": "{"}),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, {}),
    ],
    ids=range(10),
)
def test_a_wrong_value_is_a_problem(opened: Watched, schema: Any, fill: Any) -> None:
    """It is shown before anything is sent."""
    assert len(read(opened, one(schema), **fill)["problems"]) == 1


def test_references_are_followed_within_the_schema(opened: Watched) -> None:
    """Escapes in the pointer, and words beside the reference."""
    schema = one({"$ref": "#/$defs/a~1b", "title": "T"}) | {"$defs": {"a/b": {"type": "integer"}}}
    assert read(opened, schema, c0="3")["value"] == {"x": 3}


@pytest.mark.parametrize("required", [True, False])
def test_a_schema_without_end_ends_in_json(opened: Watched, required: bool) -> None:
    """Ten references to itself are ten to the eighth fields: hostile, or just a tree."""
    names = [f"p{number}" for number in range(10)]
    node = {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/n"} for name in names},
        "required": names if required else [],
    }
    found = read(opened, {**node, "$defs": {"n": node}})
    assert len(found["kinds"]) < 2000


@pytest.mark.parametrize(
    "schema", [None, True, [], "x", {"type": "object", "properties": {"x": True, "y": None}}], ids=str
)
def test_a_malformed_schema_is_no_exception(opened: Watched, schema: Any) -> None:
    """Servers send anything."""
    assert isinstance(read(opened, schema)["problems"], list)


def test_values_that_are_there_are_shown(opened: Watched) -> None:
    """A call that is repeated in the other view begins with its arguments."""
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "default": "d"},
            "list": {"type": "array", "items": {"type": "number"}},
            "inner": {"type": "object", "properties": {"flag": {"type": "boolean"}}},
            "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    value = {"text": "", "list": [1, 2.5], "inner": {"flag": True}, "any": 4}
    found = read(opened, schema, value)["value"]
    assert found["list"] == [1, 2.5]
    assert found["inner"] == {"flag": True}
    assert found["any"] == 4


DEEP: Any = {"$ref": "#/properties/x"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": 5},
        {"type": "object", "properties": "abc", "required": 7},
        one({"title": {"toString": 1, "valueOf": 1}, "type": "string"}),
        one({"enum": [{"toString": 1, "valueOf": 1}]}),
        one({"type": "array", "items": {"enum": ["a"]}, "default": 5}),
        one({"type": "array", "items": {"enum": ["a"]}, "default": {"includes": 1}}),
        {"type": "object", "required": 5, "properties": {"x": {"type": "string"}}},
        {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(20_000)}},
        one({"anyOf": [{"type": "string", "title": str(at)} for at in range(20_000)]}),
        one({"enum": [str(at) for at in range(200_000)]}),
        one({"type": "array", "items": {"type": "string"}, "default": ["x"] * 50_000}),
        one({"type": "array", "uniqueItems": True, "items": {"enum": [str(at) for at in range(50_000)]}}),
        one(DEEP),
        one({"type": "object", "properties": {"a": DEEP, "b": DEEP, "c": DEEP, "d": DEEP}}),
        one({"allOf": [{"allOf": [{"$ref": "#"}]}]}),
        one({"type": "string", "pattern": "(a+)+$", "minLength": "x"}),
        one({"$ref": "#/__proto__/toString"}),
    ],
)
def test_no_schema_is_too_strange_or_too_large(opened: Watched, schema: Any) -> None:
    """A question of the server opens by itself: one that threw, or took a minute, would take the page with it."""
    with_count = READ.replace("return {", "return { count: work.querySelectorAll('*').length,")
    found = opened.page.evaluate(with_count, [schema, {}, {}])
    assert 0 < found["count"] < 10_000


def test_names_of_javascript_are_names(opened: Watched) -> None:
    """An inherited property is not the value of a field, and a field named ``__proto__`` changes no prototype."""
    names = ["__proto__", "constructor", "toString", "hasOwnProperty"]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    script = READ.replace("return { ...form.read()", "return { text: JSON.stringify(form.read().value), ...{}")
    # Over JSON, as the page gets it: a literal would set the prototype already in the test.
    script = script.replace("const { schemaForm }", "schema = JSON.parse(schema); const { schemaForm }")
    found = opened.page.evaluate(script, [json.dumps(schema), {}, {}])
    assert found["text"] == "{}"
    found = opened.page.evaluate(script, [json.dumps(schema), {}, {"0": "1", "1": "2", "2": "3", "3": "4"}])
    assert json.loads(found["text"]) == dict(zip(names, [1, 2, 3, 4], strict=True))
    assert opened.page.evaluate("({}).polluted") is None
