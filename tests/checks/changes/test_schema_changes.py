"""Two versions of a schema: fewer values, more, others, or only other words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.checks.changes.schema_changes import schema_changes
from ferrule.client.calls.schema_check import SchemaCheck

TEXT = {"type": "string"}
ROW = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}


def effects(old: Any, new: Any) -> list[tuple[str, str]]:
    """Pointer and effect of each change."""
    return [(path, effect) for path, effect, _ in schema_changes(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (TEXT, TEXT, []),
        (TEXT, {"type": ["string", "null"]}, [("/type", "wider")]),
        ({"type": "number"}, {"type": "integer"}, [("/type", "narrower")]),
        ({"type": "integer"}, {"type": "number"}, [("/type", "wider")]),
        (TEXT, {"type": "integer"}, [("/type", "changed")]),
        ({}, TEXT, [("/type", "narrower")]),
        (TEXT, {**TEXT, "description": "d"}, [("/description", "wording")]),
        ({"enum": [1, 2]}, {"enum": [2, 3]}, [("/enum", "narrower"), ("/enum", "wider")]),
        ({"enum": [1]}, {"const": 1}, []),
        (TEXT, {**TEXT, "maxLength": 5}, [("/maxLength", "narrower")]),
        ({"minimum": 1}, {"minimum": 0}, [("/minimum", "wider")]),
        ({"maximum": 1}, {"maximum": 0}, [("/maximum", "narrower")]),
        ({"maximum": 1}, {}, [("/maximum", "wider")]),
        ({}, {"pattern": "x"}, [("/pattern", "narrower")]),
        ({"pattern": "x"}, {"pattern": "y"}, [("/pattern", "changed")]),
        ({"default": 1}, {"default": 2}, [("/default", "wider")]),
        (ROW, {**ROW, "required": ["a", "b"]}, [("/required", "narrower")]),
        (ROW, {**ROW, "required": []}, [("/required", "wider")]),
        (ROW, {**ROW, "properties": {"a": TEXT}}, [("/properties/b", "changed")]),
        (ROW, {**ROW, "properties": {**ROW["properties"], "c": TEXT}}, [("/properties/c", "wider")]),
        (ROW, {**ROW, "additionalProperties": False}, [("/additionalProperties", "narrower")]),
        ({"items": TEXT}, {"items": {"type": "integer"}}, [("/items/type", "changed")]),
        ({"anyOf": [TEXT]}, {"anyOf": [TEXT, {"type": "null"}]}, [("/anyOf", "wider")]),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT]}, [("/anyOf", "narrower")]),
        (True, False, [("", "narrower")]),
    ],
)
def test_effects(old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    """One change, one effect."""
    assert effects(old, new) == expected


def test_references_are_followed_on_both_sides() -> None:
    """Moving a class into ``$defs`` changes nothing; a change behind a reference is found."""
    inline = {"type": "object", "properties": {"row": ROW}}
    shared = {"type": "object", "properties": {"row": {"$ref": "#/$defs/Row"}}, "$defs": {"Row": ROW}}
    assert effects(inline, shared) == []
    other = {**shared, "$defs": {"Row": {**ROW, "required": ["a", "b"]}}}
    assert effects(shared, other) == [("/properties/row/required", "narrower")]


def test_a_schema_that_contains_itself() -> None:
    """The comparison ends."""
    tree = {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"next": {"$ref": "#/$defs/T"}, "v": TEXT}}}}
    other = {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"next": {"$ref": "#/$defs/T"}, "v": {}}}}}
    assert ("/properties/v/type", "wider") in effects(tree, other)
    assert effects(tree, tree) == []


def test_each_shared_schema_is_compared_where_words_stand_beside_its_reference() -> None:
    """As pydantic writes a field with a description."""

    def schema(changed: tuple[int, ...]) -> Any:
        names = range(6)
        return {
            "type": "object",
            "properties": {f"p{at}": {"$ref": f"#/$defs/d{at}", "description": f"d{at}"} for at in names},
            "$defs": {f"d{at}": {"properties": {"v": {"type": "integer"} if at in changed else TEXT}} for at in names},
        }

    assert effects(schema(()), schema((1, 3, 5))) == [
        (f"/properties/p{at}/properties/v/type", "changed") for at in (1, 3, 5)
    ]


def test_a_schema_that_contains_itself_with_words_beside_the_reference() -> None:
    """The comparison ends: in a time that does not double with each level."""

    def tree(value: Any) -> Any:
        sides = {side: {"$ref": "#/$defs/T", "description": side} for side in ("left", "right")}
        return {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {**sides, "v": value}}}}

    (found,) = effects(tree(TEXT), tree({"type": "integer"}))
    assert found[0].endswith("/properties/v/type")


def test_schemas_that_are_nested_too_deep_count_as_changed() -> None:
    """What cannot be judged does; a definition of another server may be as deep as a message."""

    def nested(depth: int) -> Any:
        made: dict[str, Any] = {"type": "string"}
        for _ in range(depth):
            made = {"properties": {"a": made}}
        return made

    assert effects(nested(20), nested(20)) == []
    assert effects(nested(5000), nested(5000)) == [("", "changed")]


PARTS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"enum": ["a", 1]},
        {"type": "integer", "minimum": 2},
        {},
    ]
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("ab"), PARTS)},
    optional={"required": st.lists(st.sampled_from("ab"), unique=True), "additionalProperties": st.booleans()},
)
VALUES = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["a", 1, 5, None, "z"]))


@settings(deadline=None, max_examples=300)
@given(SCHEMAS, SCHEMAS, VALUES)
def test_a_change_without_a_narrowing_takes_every_old_value(old: Any, new: Any, value: Any) -> None:
    """The validator is the judge: what a caller sent by the old schema fits still."""
    value = {name: each for name, each in value.items() if name in old["properties"]}
    found = {effect for _, effect in effects(old, new)}
    if not found & {"narrower", "changed"} and SchemaCheck(old).problem(value) is None:
        assert SchemaCheck(new).problem(value) is None
