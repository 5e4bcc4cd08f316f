"""The work of foreign schemas is counted in bounded time, and never less than what a validator does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule.protocol import schema_work
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
    """A schema of ``times`` definitions that needs two to that power of evaluations."""
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
    """One kilobyte needs 2^40 evaluations; the number is computed without doing any of them."""
    work = SchemaWork(doubling(times, keyword=keyword))
    with pytest.raises(SchemaTooCostly):
        work.evaluations({"x": 1})


def test_a_recursive_choice_is_counted_by_the_depth_of_the_value() -> None:
    """Two ways to the same member double at each level: cheap for a shallow value, endless for a deep one."""
    way = {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}}
    work = SchemaWork({"$defs": {"a": {"anyOf": [way, dict(way)]}}, "$ref": "#/$defs/a"})
    assert work.evaluations(nested(1, 5)) < 1000
    with pytest.raises(SchemaTooCostly, match="more than 20000000 evaluations"):
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
    nowhere is refused by the validator."""
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
    with pytest.raises(SchemaTooCostly, match="more than 200000 of its parts"):
        work.evaluations([[n] for n in range(300_000)])


def test_malformed_schemas_raise_nothing_else() -> None:
    """Keywords of wrong types are the validator's to refuse."""
    for text in (
        '{"properties": 1, "allOf": {}, "items": [1], "$ref": 1, "required": 2, "enum": 3, "pattern": 4}',
        '{"$id": "http://[", "$ref": "http://[x#", "$anchor": 1, "patternProperties": [], "prefixItems": {"a": 1}}',
        '{"$ref": "#/a/b/0", "a": {"b": [true]}, "not": true, "if": null, "dependencies": {"a": ["b"]}}',
    ):
        assert SchemaWork(json.loads(text)).evaluations({"a": [1]})


COSTLY = doubling(40)["$defs"]["n40"]


@pytest.mark.parametrize(
    ("keywords", "value"),
    [
        ({"not": COSTLY}, 1),
        ({"if": COSTLY}, 1),
        ({"then": COSTLY}, 1),
        ({"else": COSTLY}, 1),
        ({"allOf": [{}, COSTLY]}, 1),
        ({"anyOf": [{}, COSTLY]}, 1),
        ({"oneOf": [{}, COSTLY]}, 1),
        ({"dependentSchemas": {"a": COSTLY}}, {"a": 1}),
        ({"dependencies": {"a": COSTLY}}, {"a": 1}),
        ({"properties": {"a": COSTLY}}, {"a": 1}),
        ({"patternProperties": {"a": COSTLY}}, {"a": 1}),
        ({"additionalProperties": COSTLY}, {"a": 1}),
        ({"unevaluatedProperties": COSTLY}, {"a": 1}),
        ({"propertyNames": COSTLY}, {"a": 1}),
        ({"items": COSTLY}, [1]),
        ({"items": [COSTLY]}, [1]),
        ({"prefixItems": [COSTLY]}, [1]),
        ({"additionalItems": COSTLY}, [1]),
        ({"unevaluatedItems": COSTLY}, [1]),
        ({"contains": COSTLY}, [1]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_every_keyword_with_subschemas_is_counted(keywords: dict[str, Any], value: Any) -> None:
    """One that is left out would be the way to hold the process."""
    work = SchemaWork({"$defs": doubling(40)["$defs"], **keywords})
    with pytest.raises(SchemaTooCostly):
        work.evaluations(value)


@pytest.mark.parametrize(
    ("keyword", "several"),
    [
        ("properties", True),
        ("patternProperties", True),
        ("additionalProperties", False),
        ("items", False),
        ("prefixItems", True),
        ("contains", False),
    ],
)
def test_choices_that_double_are_counted_in_every_direction(keyword: str, several: bool) -> None:
    """Two paths to the same part: the number of evaluations follows the depth of the value."""
    again = {"$ref": "#/$defs/a"}
    below: Any = {"n": again} if several else again
    if keyword == "prefixItems":
        below = [again]
    way = {keyword: below}
    work = SchemaWork({"$defs": {"a": {"anyOf": [way, dict(way)]}}, "$ref": "#/$defs/a"})

    def value(depth: int) -> Any:
        found: Any = 1
        for _ in range(depth):
            found = [found] if "tems" in keyword or keyword == "contains" else {"n": found}
        return found

    assert 2**5 <= work.evaluations(value(5)) < 2**9
    assert 2**7 <= work.evaluations(value(7)) < 2**11
    with pytest.raises(SchemaTooCostly, match="evaluations"):
        work.evaluations(value(60))


def test_names_of_members_are_counted_with_the_schema_of_names() -> None:
    """Also where the count needs the value."""
    way = {"properties": {"n": {"$ref": "#/$defs/a"}}, "propertyNames": {"allOf": [{}] * 50}}
    work = SchemaWork({"$defs": {"a": {"anyOf": [way, {"properties": way["properties"]}]}}, "$ref": "#/$defs/a"})
    assert work.evaluations({"b": 1, "c": 1}) - work.evaluations({"b": 1}) >= 50


@pytest.mark.parametrize("value", ["x" * 16_000, ["x" * 16_000], {"x" * 16_000: 1}, {"a": ["x" * 16_000]}])
def test_texts_count_by_their_length_where_there_are_patterns(value: Any) -> None:
    """A pattern reads every character; without one, a text is one value. Within the factor that the count promises."""
    with_patterns = SchemaWork({"pattern": "a$", "propertyNames": {}, "items": {}, "additionalProperties": {}})
    assert 500 <= with_patterns.evaluations(value) <= 10_000
    assert SchemaWork({"items": {}, "additionalProperties": {}}).evaluations(value) < 20


@pytest.mark.parametrize("number", [10**4000, -(10**4000)])
@pytest.mark.parametrize("inside", [False, True])
def test_a_long_number_counts_by_its_length(number: int, inside: bool) -> None:
    """Alone as well as among others."""
    found = SchemaWork({"items": {}}).evaluations([number] if inside else number)
    assert 10_000 < found < 10_000_000


def test_long_texts_of_numbers_without_patterns_are_one_value() -> None:
    """Only what reads them takes longer."""
    assert SchemaWork({"items": {"type": "string"}}).evaluations(["1" * 100_000] * 100) < 1000


def test_enumerations_of_objects_cost_more_than_those_of_texts() -> None:
    """Comparing texts is eight times as fast as an evaluation, comparing objects visits each of their values."""
    plain = SchemaWork({"enum": [str(n) for n in range(800)]}).evaluations("x")
    objects = SchemaWork({"enum": [{"a": n} for n in range(800)]}).evaluations("x")
    assert 50 <= plain <= 200
    assert objects >= 1600


def test_a_schema_of_the_draft_itself_counts_as_a_large_one() -> None:
    """It is not in the document, but validators know it."""
    known = SchemaWork({"$ref": "https://json-schema.org/draft/2020-12/schema"}).evaluations(1)
    assert known >= 50
    assert SchemaWork({"$ref": "https://elsewhere.test/schema"}).evaluations(1) <= 2


TWO: dict[str, Any] = {"allOf": [{}]}
THREE: dict[str, Any] = {"allOf": [{}, {}]}
META = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "value", "count"),
    [
        # One evaluation for each value: an array, its entries, a mapping, its names and its members.
        ({}, 1, 1),
        ({}, [1, 2], 3),
        ({}, {"a": 1}, 3),
        ({}, {"a": [1], "b": {}}, 6),
        ({"items": {}}, [2**640 - 1], 102),
        ({"items": {}}, 2**640 - 1, 101),
        ({"items": {}}, [2**127], 2),
        # Subschemas of the same part add up, those of different parts do not.
        (THREE, 1, 3),
        ({"allOf": [TWO] * 3}, 1, 7),
        ({"allOf": [{"pattern": "a"}] * 2}, 1, 5),
        ({"items": TWO, "properties": {"a": {"allOf": [{}, {}, {}]}}}, 1, 4),
        ({"additionalProperties": TWO, "properties": {"a": THREE}}, 1, 5),
        ({"additionalProperties": TWO, "properties": {"a": THREE, "b": TWO}}, 1, 5),
        ({"items": TWO, "prefixItems": [THREE, {"allOf": [{}, {}, {}]}]}, 1, 6),
        ({"propertyNames": THREE, "additionalProperties": TWO}, 1, 3),
        ({"allOf": [{"properties": {"n": TWO}}] * 3}, 1, 6),
        ({"allOf": [{"additionalProperties": TWO}] * 3}, 1, 6),
        ({"allOf": [{"items": TWO}] * 3}, 1, 6),
        ({"allOf": [{"prefixItems": [TWO]}] * 3}, 1, 6),
        ({"allOf": [{"propertyNames": TWO}] * 3}, 1, 6),
        # Neighbours of `unevaluated…` are evaluated three times.
        ({**THREE, "unevaluatedProperties": False}, 1, 7),
        ({**THREE, "unevaluatedItems": False}, 1, 7),
        # Eight values of an enumeration cost one evaluation, and each value inside of objects and arrays one.
        ({"enum": ["a"] * 6}, 1, 1),
        ({"enum": ["a"] * 7}, 1, 2),
        ({"enum": ["a"] * 15}, 1, 3),
        ({"enum": [{"a": 1}] * 10}, 1, 31),
        ({"enum": [[1, 2]] * 10}, 1, 31),
        ({"const": {"a": [1, 2]}}, 1, 6),
        ({"const": "a" * 1000}, 1, 1),
        ({"required": ["a"] * 7}, 1, 2),
        ({"required": ["a"] * 15}, 1, 3),
        ({"dependentRequired": {f"n{n}": [] for n in range(15)}}, 1, 3),
        # A pattern costs one evaluation for a text, and one more for each sixteen characters.
        ({"pattern": "a"}, "x" * 15, 2),
        ({"pattern": "a"}, "x" * 16, 4),
        ({"pattern": "a"}, "x" * 32, 6),
        ({"pattern": "a"}, ["x" * 32], 8),
        ({"pattern": "a"}, {"x" * 32: "y" * 16}, 12),
        ({"pattern": "a"}, {"x" * 15: "y" * 15}, 6),
        ({"patternProperties": {"a": {}, "b": {}}}, 1, 3),
        ({"pattern": "(?=a)"}, "x", 2001),
        ({"pattern": r"(a)\1"}, "x", 2001),
        ({"pattern": "a++"}, "x", 2001),
        ({"pattern": "a+"}, "x", 2),
        # A schema of a draft itself is not in the document.
        ({"$ref": META}, 1, 101),
        ({"$ref": "https://elsewhere.test/schema"}, 1, 1),
        # A division by a fraction costs forty.
        ({"multipleOf": 0.5}, 1.5, 41),
        ({"multipleOf": 0.5}, [1.5, 1], 83),
        ({"allOf": [{"multipleOf": 0.5}] * 3}, 1.5, 124),
        ({"allOf": [{"items": {}}] * 3, "items": {"multipleOf": 0.5}}, [1.5], 48),
        ({"multipleOf": 2}, 1.5, 1),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_the_weights_of_the_count(schema: dict[str, Any], value: Any, count: int) -> None:
    """They were measured with a validator; a change of one is a decision, not an accident."""
    assert SchemaWork(schema).evaluations(value) == count


def choice_of_two(**keywords: Any) -> SchemaWork:
    """A list or mapping that may be read in two ways at each depth: the count has to look at the value."""
    again = {"$ref": "#/$defs/a"}
    ways = [{**keywords, "items": again, "properties": {"n": again}}, {"items": again, "properties": {"n": again}}]
    return SchemaWork({"$defs": {"a": {"anyOf": ways}}, "$ref": "#/$defs/a"})


@pytest.mark.parametrize(
    ("keywords", "value", "count"),
    [
        # The reference, the choice and its two ways; below them the same again, for each way.
        ({}, 1, 4),
        ({}, [1], 12),
        ({}, [1, 1.5], 20),
        ({}, nested(1, 5), 252),
        ({}, {"other": 1}, 4),
        ({"additionalProperties": {}}, {"other": 1, "more": 1}, 6),
        ({"propertyNames": TWO}, {"other": 1, "more": 1}, 8),
        ({"prefixItems": [TWO]}, [1], 14),
        ({"prefixItems": [TWO, TWO]}, [1], 14),
        # The way with the keyword applies one subschema more, and evaluates it three times.
        ({"unevaluatedItems": False, "allOf": [{}]}, 1, 7),
        ({"multipleOf": 0.5}, 1.5, 44),
        ({"multipleOf": 0.5}, True, 4),
        ({"multipleOf": 0.5}, [1.5], 92),
        ({}, 2**640 - 1, 404),
        ({}, 2**127, 4),
        ({"pattern": "a"}, "x" * 16, 6),
        ({"pattern": "a"}, 1, 5),
        ({"patternProperties": {"a": {}}}, {"x" * 16: 1}, 8),
        ({"patternProperties": {"a": {}}}, [], 5),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_a_count_that_looks_at_the_value_has_the_same_weights(keywords: dict[str, Any], value: Any, count: int) -> None:
    """Only members and entries that are there are counted."""
    assert choice_of_two(**keywords).evaluations(value) == count


def test_a_schema_with_more_pairs_of_subschemas_than_the_limit_is_counted_by_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which subschemas apply one another to the same part is written down for at most so many pairs; three subschemas,
    of which one applies the others, make five."""
    monkeypatch.setattr(schema_work, "_MAX_COUNTED", 5)
    assert SchemaWork(THREE).evaluations([1]) == 3 * 2
    monkeypatch.setattr(schema_work, "_MAX_COUNTED", 4)
    assert SchemaWork(THREE).evaluations([1]) == 3


def test_the_bounds_of_the_schema_are_exact() -> None:
    """Members and entries are values, whatever they hold."""
    assert SchemaWork({"enum": list(range(99_999))})
    with pytest.raises(SchemaTooCostly, match="more than 100000 values"):
        SchemaWork({"enum": list(range(100_000))})
    patterns = {f"a{n}": {} for n in range(199)}
    assert SchemaWork({"patternProperties": patterns, "pattern": "a"})
    with pytest.raises(SchemaTooCostly, match="more than 200 patterns"):
        SchemaWork({"patternProperties": patterns, "pattern": "a", "items": {"pattern": "a"}})


def test_the_bound_on_evaluations_inside_one_another_is_exact() -> None:
    """The deepest one counts."""

    def chain(length: int) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        for _ in range(length - 1):
            schema = {"not": schema}
        return schema

    assert SchemaWork(chain(2000)).evaluations(1) == 2000
    with pytest.raises(SchemaTooCostly, match="more than 2000 times"):
        SchemaWork(chain(2001)).evaluations(1)
    assert SchemaWork({"items": chain(1999)}).evaluations([1])
    with pytest.raises(SchemaTooCostly, match="more than 2000 times"):
        SchemaWork({"items": chain(2000)}).evaluations([1])


def test_pairs_of_subschemas_and_parts_are_counted_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list and each entry make four pairs: the reference, the choice and its ways. Pairs that wait count, too."""
    monkeypatch.setattr(schema_work, "_MAX_COUNTED", 100)
    work = choice_of_two()
    assert work.evaluations([1000.5 + n for n in range(23)]) == 4 + 8 * 23
    for entries in (24, 25, 100):
        with pytest.raises(SchemaTooCostly, match="parts"):
            work.evaluations([1000.5 + n for n in range(entries)])
