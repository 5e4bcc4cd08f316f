"""The model profile rewrites what model APIs refuse, and its checker finds what is left."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from ferrule.app.signatures.schema_profile import MAX_NODES, model_profile, schema_hints, schema_problems


def root(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"type": ["string", "null"], "minLength": 2},
            {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        ({"type": "object", "additionalProperties": True}, {"type": "object"}),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"description": "d", "type": "string"}),
        ({"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "null"}]},
         {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"enum": ["a", 1]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}]}),
    ],
)  # fmt: skip
def test_what_apis_refuse_is_rewritten(before, after):
    """Each form is refused by some model API."""
    assert model_profile(root(p=before))["properties"]["p"] == after


def test_an_optional_parameter_loses_its_null_and_a_required_one_keeps_it():
    """For an optional one absence means the same; for a required one null is a separate value."""
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    made = model_profile({"type": "object", "properties": {"p": nullable}})
    assert made["properties"]["p"] == {"type": "string"}
    made = model_profile(root(p={"anyOf": [{"type": "string"}, {"type": "null"}]}))
    assert {"type": "null"} in made["properties"]["p"]["anyOf"]


def test_an_output_schema_keeps_the_nulls_that_results_hold():
    """A client validates a result with null against it."""
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    made = model_profile({"type": "object", "properties": {"p": nullable}}, output=True)
    jsonschema_rs.validator_for(made).validate({"p": None})


def test_a_reference_keeps_its_siblings_when_it_is_put_in_place():
    """The description beside $ref is the parameter's own."""
    schema = root(p={"$ref": "#/$defs/A", "description": "mine"}) | {
        "$defs": {"A": {"type": "object", "description": "its", "properties": {}}}
    }
    assert model_profile(schema)["properties"]["p"]["description"] == "mine"
    assert "$defs" not in model_profile(schema)


def test_only_true_recursion_stays_a_reference():
    """A used-twice class is put in place, a class that contains itself cannot be."""
    defs = {
        "Leaf": {"type": "object"},
        "Node": {
            "type": "object",
            "properties": {"leaf": {"$ref": "#/$defs/Leaf"}, "next": {"$ref": "#/$defs/Node"}},
        },
    }
    made = model_profile(root(p={"$ref": "#/$defs/Node"}, q={"$ref": "#/$defs/Leaf"}) | {"$defs": defs})
    assert set(made["$defs"]) == {"Node"}
    assert made["properties"]["q"] == {"type": "object"}
    assert schema_problems(made) == []


def test_growth_by_putting_classes_in_place_is_bounded():
    """Twenty classes that each hold the next twice would be a million nodes."""
    defs = {
        f"C{i}": {"type": "object", "properties": {s: {"$ref": f"#/$defs/C{i + 1}"} for s in "ab"}} for i in range(20)
    }
    defs["C20"] = {"type": "string"}
    made = model_profile(root(p={"$ref": "#/$defs/C0"}) | {"$defs": defs})
    assert len(str(made)) < MAX_NODES * 20
    jsonschema_rs.validator_for(made)


def test_what_a_default_holds_is_data_not_a_schema():
    """A default that happens to look like a schema must not be rewritten."""
    default = {"type": ["a", "b"], "$ref": "#/nowhere", "const": 1}
    assert model_profile(root(p={"type": "object", "default": default}))["properties"]["p"]["default"] == default


def test_a_property_named_like_a_keyword_is_a_property():
    """A parameter may be called title, type, items or required."""
    made = model_profile(root(title={"type": "string"}, items={"type": "string"}, const={"type": "string"}))
    assert set(made["properties"]) == {"title", "items", "const"}


def test_the_argument_is_not_changed():
    """Callers cache it."""
    before = root(p={"type": ["string", "null"]})
    model_profile(before)
    assert before == root(p={"type": ["string", "null"]})


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "string"}, "root"),
        (root(p={"$ref": "#/$defs/Gone"}), "dangling"),
        (root(p={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"type": "string"}}}, "does not contain itself"),
        (root(p={"type": ["string", "null"]}), "list of types"),
        (root(p=True), "boolean"),
        (root(p={"type": "array"}), "items"),
        (root(p={"type": "string", "title": "P"}), "title"),
        (root(p={"const": 1}), "const"),
        (root() | {"properties": {"p": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, "null"),
        (root() | {"properties": {"p": {"type": "string", "default": None}}}, "null default"),
        (root() | {"required": ["x"]}, "not described"),
    ],
)
def test_the_checker_names_each_kind_of_problem(schema, word):
    """A checker that finds nothing would make every other schema test empty."""
    assert any(word in problem for problem in schema_problems(schema)), schema_problems(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": "#/x"},
        {"type": "object", "properties": {"a": {"anyOf": [{"properties": "x"}]}}},
        {"type": "object", "required": [1, {}]},
        {"type": "object", "required": "a"},
        {"type": "object", "$defs": []},
        {"type": "object", "enum": 3},
        {"type": "object", "items": "x"},
        {"type": 3},
        {"type": "object", "properties": {"a": {"$ref": 3}}},
    ],
)
def test_a_malformed_schema_of_others_is_a_problem_and_no_crash(schema):
    """A foreign server may publish anything."""
    assert any("may not have" in problem for problem in schema_problems(schema))


def test_the_checker_is_bounded():
    """A foreign server chooses the depth, and how many definitions there are."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"a": deep}}
    assert any("deep" in problem for problem in schema_problems(deep))
    many = {"type": "object", "$defs": {f"n{n}": {"$ref": f"#/$defs/n{n + 1}"} for n in range(50_000)}}
    assert any("definitions" in problem for problem in schema_problems(many))


def test_what_every_model_api_takes_may_still_get_a_hint():
    """A good server of others leaves the names open; that is no reason to fail it."""
    assert schema_hints({"type": "object", "properties": {}, "additionalProperties": False}) == []
    open_names = {"type": "object", "properties": {}}
    assert schema_problems(open_names) == []
    assert len(schema_hints(open_names)) == 1
    forgotten = {"type": "object", "properties": {"ctx": {}}, "required": ["ctx"], "additionalProperties": False}
    assert "`ctx: Context`" in schema_hints(forgotten)[0]
    described = {"type": "object", "properties": {"context": {"type": "string"}}, "additionalProperties": False}
    assert schema_hints(described) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMinimum": 0.5}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 5, "maximum": 3}, {"type": "integer", "maximum": 3}),
        ({"type": "integer", "exclusiveMaximum": 5, "maximum": 9}, {"type": "integer", "maximum": 4}),
        (
            {"type": "number", "exclusiveMinimum": 0, "description": "Price"},
            {"type": "number", "minimum": 0, "description": "Price (greater than 0)"},
        ),
        ({"type": "integer", "multipleOf": 5}, {"type": "integer", "description": "A multiple of 5"}),
        ({"type": "string", "format": "date"}, {"type": "string", "description": "A date such as 2026-01-31"}),
        ({"type": "string", "format": "odd"}, {"type": "string", "description": "Format odd"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "contentEncoding": "base64"}, {"type": "string", "description": "Base64"}),
        (
            {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "integer", "exclusiveMinimum": 3}]},
            {"anyOf": [{"type": "string", "description": "A UUID"}, {"type": "integer", "minimum": 4}]},
        ),
    ],
)
def test_keywords_that_one_api_lacks_are_replaced_by_common_ones(before, after):
    """Gemini's OpenAPI subset refuses every tool for one such keyword; outputs are not sent to models."""
    assert model_profile({"type": "object", "properties": {"p": before}, "required": ["p"]})["properties"]["p"] == after
    assert model_profile(before, output=True) == before


def test_a_tuple_that_ends_by_its_length_has_typed_items():
    """Draft 7 has no ``prefixItems``, so tuples end by ``maxItems`` and not by ``items: false``."""
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}
    items = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert model_profile(pair) == {"type": "array", "minItems": 2, "maxItems": 2, "items": items}
