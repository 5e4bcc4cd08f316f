"""Schemas of tools in each API's subset: nothing that it refuses, nothing refused that the tool takes."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest

from ferrule.client.bridges.schemas import dialects
from ferrule.client.bridges.schemas.dialects import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI,
    GEMINI_OPENAPI,
    OPENAI,
    OPENAI_STRICT,
    Dialect,
)
from ferrule.client.bridges.schemas.limits import excess
from ferrule.client.bridges.schemas.rewriting import MAX_NODES, SchemaNotExpressible, rewritten
from tests.client.bridges.model_schemas import SCHEMAS
from tests.client.bridges.subsets import CHECKS, nodes

DIALECTS = [OPENAI, OPENAI_STRICT, ANTHROPIC, ANTHROPIC_STRICT, GEMINI, GEMINI_OPENAPI]
BY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS, ids=[each.name for each in DIALECTS])
BY_SCHEMA = pytest.mark.parametrize("name", SCHEMAS)

# What a strict subset cannot say; these tools are given without strict mode.
NOT_STRICT = {
    "array without items",
    "object of any members",
    "object of texts",
    "pattern properties",
    "reference to elsewhere",
    "boolean schemas",
    "any value",
    "mistakes",
    "enum of objects",
}
NOT_ANTHROPIC_STRICT = NOT_STRICT | {"tree", "linked list at the root", "itself"}


def as_json_schema(node: Any) -> Any:
    """OpenAPI's ``nullable`` as a type, so that a validator understands it."""
    if isinstance(node, list):
        return [as_json_schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {key: as_json_schema(each) for key, each in node.items()}
    if made.pop("nullable", None) is True:
        return {"anyOf": [made, {"type": "null"}]}
    return made


def known(arguments: Any, plan: Any) -> Any:
    """Arguments as a model would write them: under its names, and null for what is left out."""
    if not isinstance(arguments, dict):
        return arguments
    names = {old: new for new, old in plan.names.items()}
    made = {
        names.get(name, name): known(value, plan.properties.get(names.get(name, name), plan))
        for name, value in arguments.items()
    }
    return {**dict.fromkeys(plan.unset), **made}


def test_there_are_at_least_forty_and_every_dialect_is_checked() -> None:
    """A dialect without an oracle would pass everything."""
    assert len(SCHEMAS) >= 40
    assert {each.name for each in vars(dialects).values() if isinstance(each, Dialect)} == set(CHECKS)


@BY_DIALECT
@BY_SCHEMA
def test_the_api_takes_it(name: str, dialect: Dialect) -> None:
    """One schema that it refuses costs all tools of a request."""
    schema, _ = SCHEMAS[name]
    before = deepcopy(schema)
    cannot = {OPENAI_STRICT.name: NOT_STRICT, ANTHROPIC_STRICT.name: NOT_ANTHROPIC_STRICT}.get(dialect.name, set())
    if name in cannot:
        with pytest.raises(SchemaNotExpressible):
            rewritten(schema, dialect)
        return
    made, _ = rewritten(schema, dialect)
    assert list(CHECKS[dialect.name](made)) == []
    assert excess(made, dialect) is None
    assert schema == before
    json.dumps(made)


@BY_DIALECT
@BY_SCHEMA
def test_what_the_tool_takes_is_not_refused(name: str, dialect: Dialect) -> None:
    """Constrained decoding would make such a call impossible."""
    schema, samples = SCHEMAS[name]
    try:
        made, plan = rewritten(schema, dialect)
    except SchemaNotExpressible:
        return
    validator = jsonschema_rs.Draft202012Validator(as_json_schema(made))
    for sample in samples:
        given = sample if dialect.all_required and "null" in name else known(sample, plan)
        if dialect.all_required:
            given = with_nulls(given, made, made)
        assert [str(error.message) for error in validator.iter_errors(given)] == []
        assert plan.restored(given) == sample or dialect.all_required


def with_nulls(value: Any, node: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value with null for each optional member that it leaves out, as strict mode demands it."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
    if isinstance(value, list):
        return [with_nulls(each, node.get("items", {}), root) for each in value]
    if not isinstance(value, dict):
        return value
    if "anyOf" in node:
        options = [with_nulls(value, each, root) for each in node["anyOf"]]
        fits = (
            option
            for option, each in zip(options, node["anyOf"], strict=True)
            if jsonschema_rs.is_valid({**each, "$defs": root.get("$defs", {})}, option)
        )
        return next(fits, value)
    properties = node.get("properties", {})
    return {**dict.fromkeys(properties), **{k: with_nulls(v, properties.get(k, {}), root) for k, v in value.items()}}


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name not in NOT_STRICT])
def test_null_for_an_optional_argument_means_that_it_is_not_given(name: str) -> None:
    """The tool gets the arguments that it would have got without strict mode."""
    schema, samples = SCHEMAS[name]
    made, plan = rewritten(schema, OPENAI_STRICT)
    for sample in samples:
        restored = plan.restored(with_nulls(sample, made, made))
        assert {key: value for key, value in restored.items() if value is not None or key in sample} == sample or (
            name == "linked list at the root"
        )


def test_names_of_properties_come_back() -> None:
    """Also inside arrays and unions, under the tool's own names."""
    inner = {"type": "object", "properties": {"a b": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {
            "$filter": {"type": "string"},
            "list": {"type": "array", "items": inner},
            "either": {"anyOf": [{"type": "null"}, inner]},
            "map": {"type": "object", "additionalProperties": inner},
        },
    }
    made, plan = rewritten(schema, ANTHROPIC)
    (new,) = made["properties"]["list"]["items"]["properties"]
    (top,) = [name for name in made["properties"] if name.startswith("_filter")]
    given = {top: "x", "list": [{new: 1}], "either": {new: 2}, "map": {"k": {new: 3}}}
    assert plan.restored(given) == {
        "$filter": "x",
        "list": [{"a b": 1}],
        "either": {"a b": 2},
        "map": {"k": {"a b": 3}},
    }


def test_what_a_subset_cannot_say_is_written_in_the_description() -> None:
    """A bound that disappeared would be learned from errors only."""
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "description": "How much", "default": 1},
            "i": {"type": "integer", "exclusiveMinimum": 0},
            "e": {"type": "integer", "enum": [1, 2]},
            "u": {"type": "string", "format": "uuid"},
        },
    }
    made, _ = rewritten(schema, GEMINI_OPENAPI)
    assert made["properties"] == {
        "n": {"type": "number", "description": "How much (greater than 0, a multiple of 0.5, default 1)"},
        "i": {"type": "integer", "minimum": 1},
        "e": {"type": "integer", "description": "One of 1, 2"},
        "u": {"type": "string", "description": "A UUID"},
    }
    made, _ = rewritten(
        {
            "anyOf": [
                {"type": "object", "required": ["a"], "properties": {"a": {}}},
                {"type": "object", "required": ["b", "c"], "properties": {"b": {}, "c": {}}},
            ]
        },
        OPENAI,
    )
    assert made["description"] == "Give `a`, or `b` and `c`"


def test_a_recursive_schema_is_closed_where_references_are_not_taken() -> None:
    """Two levels, then any object."""
    made, _ = rewritten(SCHEMAS["tree"][0], GEMINI)
    depth = 0
    node = made["properties"]["tree"]
    while "properties" in node:
        node, depth = node["properties"]["children"]["items"], depth + 1
    assert (node, depth) == ({"type": "object"}, 2)


@BY_DIALECT
def test_a_hostile_schema_stays_small(dialect: Dialect) -> None:
    """Definitions that name each other twice would double with each of 40 levels; and 10,000 levels would overflow."""
    levels = {
        f"L{n}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/L{n + 1}"}, "b": {"$ref": f"#/$defs/L{n + 1}"}},
        }
        for n in range(40)
    }
    wide = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/L0"}},
        "$defs": {**levels, "L40": {"type": "string"}},
    }
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        deep = {"type": "array", "items": deep}
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}
    for schema in (wide, {"type": "object", "properties": {"d": deep}}, circle):
        try:
            made, _ = rewritten(schema, dialect)
        except SchemaNotExpressible:
            continue
        assert sum(1 for _ in nodes(made)) <= 5 * MAX_NODES


def test_names_of_properties_come_back_at_each_level_of_a_recursive_type() -> None:
    """The plan of a union inside a type refers to that type, whose own plan is not complete at that time."""
    inner = {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    node = {"type": "object", "properties": {"a b": {"type": "string"}, "next": inner}}
    schema = {"type": "object", "$defs": {"Node": node}, "properties": {"root": {"$ref": "#/$defs/Node"}}}
    made, plan = rewritten(schema, ANTHROPIC)
    (new,) = [name for name in made["properties"]["root"]["properties"] if name != "next"]
    given: Any = {new: "x"}
    wanted: Any = {"a b": "x"}
    for _ in range(5):
        given, wanted = {new: "x", "next": given}, {"a b": "x", "next": wanted}
    assert plan.restored({"root": given}) == {"root": wanted}


@BY_DIALECT
def test_a_long_chain_of_references_is_written(dialect: Dialect) -> None:
    """After many other properties each reference stays one; following each inside the other would overflow."""
    chain = {f"c{n}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/c{n + 1}"}}} for n in range(1000)}
    rest = {f"p{n}": {"type": "string"} for n in range(MAX_NODES + 1)}
    schema = {"type": "object", "$defs": chain, "properties": {**rest, "z": {"$ref": "#/$defs/c0"}}}
    try:
        made, _ = rewritten(schema, dialect)
    except SchemaNotExpressible:
        assert dialect.closed
    else:
        assert made["properties"].keys() == schema["properties"].keys()
        assert sum(1 for _ in nodes(made)) <= 5 * MAX_NODES


def test_a_reference_beyond_the_limit_keeps_the_type_of_its_target() -> None:
    """Text would be refused where only an object is allowed."""
    targets = {"Text": {"type": "string"}, "Either": {"anyOf": [{"type": "string"}, {"type": "object"}]}}
    rest = {f"p{n}": {"type": "string"} for n in range(MAX_NODES + 1)}
    properties = {**rest, "t": {"$ref": "#/$defs/Text"}, "e": {"$ref": "#/$defs/Either"}}
    made, _ = rewritten({"type": "object", "$defs": targets, "properties": properties}, GEMINI)
    assert (made["properties"]["t"], made["properties"]["e"]) == ({"type": "string"}, {})


@pytest.mark.parametrize(
    "schema",
    [
        {"prefixItems": [{}], "properties": {"x": {"$ref": "#/prefixItems/" + "1" * 5000}}},
        {"anyOf": [{"properties": {"x": {"anyOf": 5}}}, {"properties": {"x": {"type": "string"}}}]},
    ],
    ids=["reference to a huge index", "union that is a number"],
)
@BY_DIALECT
def test_a_mistake_in_a_schema_does_not_hide_the_tools(schema: dict[str, Any], dialect: Dialect) -> None:
    """One schema that raises would leave the program without any tool."""
    try:
        made, _ = rewritten({"type": "object", **schema}, dialect)
    except SchemaNotExpressible:
        assert dialect.closed
    else:
        assert "x" in made["properties"]


class _Counted(str):
    """A text that counts with how many others it is compared."""

    __slots__ = ()
    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str.__eq__(self, other)


_MANY = 500
_TEXTS = [_Counted(f"t{n}") for n in range(_MANY)]
_OBJECTS = [{"type": "object", "properties": {"x": {"pattern": text}}, "required": [text]} for text in _TEXTS]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"enum": _TEXTS}}},
        {"properties": {"x": {"enum": [[text] for text in _TEXTS]}}},
        {"properties": {"x": {"anyOf": [{"type": "string", "pattern": text} for text in _TEXTS]}}},
        {"properties": {"x": {"allOf": [{"enum": _TEXTS}, {"enum": _TEXTS[::-1]}]}}},
        {"properties": {"x": {"allOf": _OBJECTS}}},
        {"anyOf": _OBJECTS},
        {"properties": {text: {"type": "string"} for text in _TEXTS}, "required": _TEXTS[::-1]},
    ],
    ids=["set", "set of arrays", "union", "two sets", "all of", "union of objects", "properties"],
)
@BY_DIALECT
def test_each_part_is_compared_with_few_others(schema: dict[str, Any], dialect: Dialect) -> None:
    """Comparing each value with each other one takes minutes for a set of 20,000, and stops the event loop."""
    _Counted.compared = 0
    try:
        made, _ = rewritten({"type": "object", **schema}, dialect)
        excess(made, dialect)
    except SchemaNotExpressible:
        assert dialect.closed
    assert _Counted.compared <= 40 * _MANY


def test_references_to_large_sets_and_unions_do_not_multiply_the_work() -> None:
    """They stay references, or the tool is given without strict mode."""
    values = [f"v{n}" for n in range(2000)]
    properties = {f"p{n}": {"$ref": "#/$defs/a"} for n in range(1000)}
    schema: dict[str, Any] = {"type": "object", "$defs": {"a": {"enum": values}}, "properties": properties}
    made, _ = rewritten(schema, ANTHROPIC)
    assert sum(len(node.get("enum", ())) for _, node in nodes(made)) <= 20 * MAX_NODES
    union = {"anyOf": [{"const": value} for value in values[:200]]}
    with pytest.raises(SchemaNotExpressible, match="too large"):
        rewritten({**schema, "$defs": {"a": union}}, OPENAI_STRICT)
