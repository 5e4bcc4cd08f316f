"""The work of foreign schemas is counted in bounded time, and never less than what a validator does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule.protocol.schema_work import MAX_EVALUATIONS, SchemaTooCostly, SchemaWork

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
}
JSON_VALUE: dict[str, Any] = {
    "$defs": {
        "value": {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/value"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}},
            ]
        }
    },
    "$ref": "#/$defs/value",
}


def doubling(times: int, *, keyword: str = "anyOf") -> dict[str, Any]:
    """A schema of ``times`` definitions that asks for two to that power of evaluations."""
    defs: dict[str, Any] = {"n0": {"type": "string"}}
    for number in range(1, times + 1):
        below = {"$ref": f"#/$defs/n{number - 1}"}
        defs[f"n{number}"] = {keyword: [below, dict(below)]}
    return {"$defs": defs, "type": "object", "properties": {"x": {"$ref": f"#/$defs/n{times}"}}}


def nested(value: Any, times: int, name: str = "n") -> Any:
    for _ in range(times):
        value = {name: value}
    return value


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("times", [40, 900])
def test_a_schema_that_doubles_is_refused(keyword: str, times: int) -> None:
    """One kilobyte asks for 2^40 evaluations; what it costs is known without doing any of them."""
    work = SchemaWork(doubling(times, keyword=keyword))
    with pytest.raises(SchemaTooCostly):
        work.evaluations({"x": 1})


def test_a_recursive_choice_is_counted_by_the_depth_of_the_value() -> None:
    """Two ways to the same member double at each level: cheap for a shallow value, endless for a deep one."""
    way = {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}}
    work = SchemaWork({"$defs": {"a": {"anyOf": [way, dict(way)]}}, "$ref": "#/$defs/a"})
    assert work.evaluations(nested(1, 5)) < 1000
    with pytest.raises(SchemaTooCostly, match="evaluations"):
        work.evaluations(nested(1, 60))


def test_unevaluated_keywords_are_counted_as_often_as_they_look() -> None:
    """Nested ``unevaluatedProperties`` triple the work at each level, without a single reference."""
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(40):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    with pytest.raises(SchemaTooCostly):
        SchemaWork(schema).evaluations({"a": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
        {"$id": "http://x.test/a", "properties": {"p": {"$anchor": "here", "allOf": [{"$ref": "a#here"}]}}},
        {"$dynamicAnchor": "m", "if": {"$dynamicRef": "#m"}},
    ],
)
def test_a_schema_that_applies_itself_to_the_same_value_is_refused(schema: dict[str, Any]) -> None:
    """It has no end, however small the value is."""
    with pytest.raises(SchemaTooCostly, match="without end"):
        SchemaWork(schema)


def test_evaluations_too_deep_for_a_validator_that_recurses_are_refused() -> None:
    """250 levels of the value times 50 references at each end jsonschema-rs with a stack overflow (SIGSEGV)."""
    defs: dict[str, Any] = {f"b{at}": {"allOf": [{"$ref": f"#/$defs/b{at + 1}"}]} for at in range(50)}
    defs["b50"] = {"properties": {"n": {"$ref": "#/$defs/b0"}}}
    work = SchemaWork({"$defs": defs, "$ref": "#/$defs/b0"})
    assert work.evaluations(nested(1, 3))
    with pytest.raises(SchemaTooCostly, match="recurse"):
        work.evaluations(nested(1, 250))


@pytest.mark.parametrize("schema", [TREE, JSON_VALUE])
def test_ordinary_recursive_schemas_are_free(schema: dict[str, Any]) -> None:
    """A tree and any JSON get a fixed number of evaluations for each value, so size is no reason to refuse them."""
    value: Any = {"name": "leaf", "children": [{"name": "n", "children": []}] * 50_000}
    assert SchemaWork(schema).evaluations(value) <= MAX_EVALUATIONS
    assert SchemaWork(schema).evaluations(nested(value, 200, "children"))


def test_large_results_with_ordinary_schemas_are_free() -> None:
    """A hundred thousand rows of ten columns fit the bound."""
    row = {"type": "object", "properties": {f"c{n}": {"type": ["number", "null"]} for n in range(10)}}
    rows = [{f"c{n}": n for n in range(10)} for _ in range(100_000)]
    assert SchemaWork({"type": "array", "items": row}).evaluations(rows) <= MAX_EVALUATIONS


def test_long_enumerations_and_texts_for_patterns_count() -> None:
    """Ten thousand values, each searched among ten thousand objects; a megabyte for each of a hundred patterns."""
    work = SchemaWork({"items": {"enum": [{"a": n} for n in range(10_000)]}})
    with pytest.raises(SchemaTooCostly):
        work.evaluations([{"a": -1}] * 10_000)
    patterns = SchemaWork({"items": {"allOf": [{"pattern": f"{n}$"} for n in range(100)]}})
    with pytest.raises(SchemaTooCostly):
        patterns.evaluations(["x" * 100_000] * 40)


@pytest.mark.parametrize(
    ("schema", "number", "times"),
    [
        ({"items": {"multipleOf": 0.01}}, 1e300, 20_000),
        ({"items": {"multipleOf": 0.01}}, 10**300, 20_000),
        ({"items": {"multipleOf": 0.01}}, int("9" * 4000), 1),
        ({"items": {"multipleOf": 1e-300}}, 1.5, 20_000),
        ({"items": {"anyOf": [{"multipleOf": 0.3}] * 1000}}, 1e15, 1000),
        ({"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}, "multipleOf": 0.01}, 1e300, 20_000),
        ({"items": {"type": "integer"}}, int("9" * 4000), 2000),
        ({"items": {}}, int("9" * 4000), 2000),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_numbers_that_take_long_to_divide_or_to_read_count(schema: Any, number: Any, times: int) -> None:
    """Six bytes, and a millisecond or a quarter of a second for each: a list of them held the process for hours."""
    with pytest.raises(SchemaTooCostly):
        SchemaWork(schema).evaluations([number] * times)


def test_many_ordinary_numbers_are_divided() -> None:
    """Prices in cents."""
    rows = [{f"c{n}": 1.25 for n in range(10)} for _ in range(20_000)]
    schema = {"items": {"properties": {f"c{n}": {"type": "number", "multipleOf": 0.01} for n in range(10)}}}
    assert SchemaWork(schema).evaluations(rows) <= MAX_EVALUATIONS
    assert SchemaWork({"items": {"multipleOf": 5}}).evaluations([1e300] * 100_000) <= MAX_EVALUATIONS


def test_the_schema_itself_is_bounded() -> None:
    """Values and patterns cost memory when the schema is compiled."""
    with pytest.raises(SchemaTooCostly, match="values"):
        SchemaWork({"enum": list(range(200_000))})
    with pytest.raises(SchemaTooCostly, match="patterns"):
        SchemaWork({"patternProperties": {f"a{n}": {} for n in range(300)}})


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/~1a~0b%20c",
        "http://x.test/root#/$defs/~1a~0b%20c",
        "other",
        "#named",
        "https://elsewhere.test/x",
        "#/no",
    ],
)
def test_references_are_followed_in_every_spelling(reference: str) -> None:
    """Pointers with escapes, absolute and relative ids and anchors lead to a doubling all the same; what leads
    nowhere is the validator's to refuse."""
    costly = doubling(40)["$defs"]["n40"]
    defs = {**doubling(40)["$defs"], "/a~b c": costly, "o": {"$id": "other", **doubling(40)}, "n": {"$anchor": "named"}}
    defs["n"].update(costly)
    defs["o"]["$ref"] = "#/$defs/n40"
    work = SchemaWork({"$id": "http://x.test/root", "$defs": defs, "properties": {"x": {"$ref": reference}}})
    if reference in ("https://elsewhere.test/x", "#/no"):
        assert work.evaluations({"x": 1}) < 100
    else:
        with pytest.raises(SchemaTooCostly):
            work.evaluations({"x": 1})


def test_counting_is_bounded_itself() -> None:
    """Where the count needs the value, it looks at a limited number of its parts."""
    way = {"items": {"$ref": "#/$defs/a"}}
    work = SchemaWork({"$defs": {"a": {"anyOf": [way, {"items": {"$ref": "#/$defs/a"}}]}}, "$ref": "#/$defs/a"})
    with pytest.raises(SchemaTooCostly, match="parts"):
        work.evaluations([[n] for n in range(300_000)])


def test_malformed_schemas_raise_nothing_else() -> None:
    """Keywords of wrong types are the validator's to refuse."""
    for text in (
        '{"properties": 1, "allOf": {}, "items": [1], "$ref": 1, "required": 2, "enum": 3, "pattern": 4}',
        '{"$id": "http://[", "$ref": "http://[x#", "$anchor": 1, "patternProperties": [], "prefixItems": {"a": 1}}',
        '{"$ref": "#/a/b/0", "a": {"b": [true]}, "not": true, "if": null, "dependencies": {"a": ["b"]}}',
    ):
        assert SchemaWork(json.loads(text)).evaluations({"a": [1]})
