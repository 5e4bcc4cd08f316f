"""Documents to operations: what is wrong with one operation is that operation's problem."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.operations import Operation, UnusableOperation
from tests.expose.documents import FORUM, SHOP, document


def operation(raw: Any, *, path: str = "/x", method: str = "post", **parts: Any) -> Operation:
    """Return the only operation of a document."""
    description = read_description(document({path: {method: raw}}, **parts))
    assert description.skipped == ()
    (found,) = description.operations
    return found


def input_of(raw: Any, **more: Any) -> dict[str, Any]:
    return operation(raw, **more).schemas().input


def body(schema: Any, content_type: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {content_type: {"schema": schema, **more}}}}


# -- broken documents --------------------------------------------------------------------------------------------------

_PLACED = (
    None, True, 0, -1, 1.5, float("inf"), 10**30, "", "x", "$ref", "#", "#/", "#x", "#/components/schemas/Nothing",
    "http://[", "%zz", "é" * 300, "\ud800", [], {}, [None], [{}], [["a"]], {"$ref": "#"}, {"$ref": "#/paths"},
    {"$ref": "other.json#/x"}, {"$ref": 1}, {"": None}, {"a": {"b": {}}}, {"type": "object", "properties": {"a": 1}},
    {"allOf": [{"$ref": "#/components/schemas/Post"}]}, {"in": {}, "name": []},
)  # fmt: skip
_NAMES = (
    "", "$ref", "$id", "$anchor", "type", "schema", "in", "name", "content", "items", "allOf", "oneOf", "not",
    "nullable", "required", "discriminator", "é/~", "{", "a" * 100, "\ud800",
)  # fmt: skip


def _changed(value: Any, draw: Callable[[Any], Any]) -> Any:
    """Return a document with one member, anywhere in it, replaced, removed or renamed."""
    value = copy.deepcopy(value)
    place = value
    while True:
        steps: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        step = draw(st.sampled_from(steps))
        inner = place[step]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 9)):
            place = inner
            continue
        how = draw(st.sampled_from(["replace", "replace", "remove", "rename"]))
        if how == "replace" or (how == "rename" and not isinstance(place, dict)):
            place[step] = copy.deepcopy(draw(st.sampled_from(_PLACED)))
        elif how == "remove":
            del place[step]
        else:
            place[draw(st.sampled_from(_NAMES))] = place.pop(step)
        return value


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_a_broken_member_spoils_at_most_its_own_operation(data: st.DataObject) -> None:
    """Published descriptions are often wrong, and most of their operations can be used all the same."""
    changed: Any = data.draw(st.sampled_from([SHOP, FORUM]))
    for _ in range(data.draw(st.sampled_from([1, 1, 3]))):
        changed = _changed(changed, data.draw)
    try:
        description = read_description(changed)
    except NotADescription:
        return
    for skipped in description.skipped:
        assert "cannot be read" not in skipped.reason, skipped
    for each in description.operations:
        try:
            schemas = each.schemas()
        except UnusableOperation:
            continue
        for schema in (schemas.input, schemas.output):
            if schema is not None:
                json.dumps(schema, allow_nan=False).encode()
                jsonschema_rs.validator_for(schema)


@pytest.mark.parametrize("broken", [{}, {"post": "x"}, {"post": {"parameters": [{"in": "query"}]}}, "x"])
def test_other_operations_are_not_affected(broken: Any) -> None:
    description = read_description(document({"/good": {"get": {}}, "/broken": broken}))
    assert [each.label for each in description.operations] == ["GET /good"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"swagger": "2.0", "info": {}}, "swagger2openapi"),
        ({"openapi": "4.0.0"}, "3.0, 3.1 and 3.2"),
        ({"info": {}}, "no member 'openapi'"),
        ([], "object"),
    ],
)
def test_what_is_no_openapi_3_is_refused_with_what_to_do(given: Any, reason: str) -> None:
    with pytest.raises(NotADescription, match=reason):
        read_description(given)


def test_an_operation_that_is_described_twice_is_offered_once() -> None:
    found = read_description(document({"/a": {"get": {}, "additionalOperations": {"GET": {}}}}))
    assert [each.label for each in found.operations] == ["GET /a"]
    assert [each.reason for each in found.skipped] == ["it is described twice"]


def test_a_body_that_refers_to_nothing_accepts_anything() -> None:
    made = operation(body({"$ref": "#/components/schemas/Missing"}))
    assert made.schemas().input["properties"] == {"body": True}
    assert "Missing" in made.notes[0]


def test_a_parameter_without_a_place_that_the_path_names_stands_there() -> None:
    made = operation({"parameters": [{"name": "id", "schema": {"type": "integer"}}]}, path="/x/{id}")
    assert made.parameters[0].location == "path"
    assert made.schemas().input["properties"] == {"id": {"type": "integer"}}


# -- references --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        {"parameters": [{"$ref": "#/components/parameters/A"}]},
        {"requestBody": {"$ref": "#/components/requestBodies/A"}},
    ],
)
def test_references_in_a_circle_spoil_their_operation_only(raw: Any) -> None:
    circle = {"A": {"$ref": "#/components/{}/B"}, "B": {"$ref": "#/components/{}/A"}}
    components = {
        kind: {name: {"$ref": part["$ref"].format(kind)} for name, part in circle.items()}
        for kind in ("parameters", "requestBodies")
    }
    found = read_description(document({"/a": {"post": raw}, "/b": {"get": {}}}, components=components))
    assert [each.label for each in found.operations] == ["GET /b"]
    assert "circle" in found.skipped[0].reason


def test_a_path_item_in_a_circle_is_skipped() -> None:
    paths = {"/a": {"$ref": "#/paths/~1b"}, "/b": {"$ref": "#/paths/~1a"}, "/c": {"get": {}}}
    found = read_description(document(paths))
    assert [each.label for each in found.operations] == ["GET /c"]
    assert len(found.skipped) == 2


def test_schemas_in_a_circle_of_aliases_accept_anything() -> None:
    schemas = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    raw = {"parameters": [{"name": "a", "in": "query", "schema": {"$ref": "#/components/schemas/A"}}]}
    assert input_of(raw, components={"schemas": schemas})["properties"] == {"a": True}


def test_a_path_item_of_another_document_keeps_its_own_references() -> None:
    other = {
        "item": {
            "parameters": [{"$ref": "#/parameters/tenant"}],
            "post": body({"$ref": "#/schemas/Item"}) | {"responses": {"200": {"$ref": "#/answers/ok"}}},
        },
        "parameters": {"tenant": {"name": "tenant", "in": "query", "schema": {"$ref": "#/schemas/Tenant"}}},
        "schemas": {
            "Item": {"type": "object", "properties": {"name": {"$ref": "#/schemas/Tenant"}}},
            "Tenant": {"type": "string", "maxLength": 9},
        },
        "answers": {"ok": {"content": {"application/json": {"schema": {"$ref": "#/schemas/Item"}}}}},
    }
    found = read_description(
        document({"/x": {"$ref": "other.json#/item"}}),
        base_uri="file:///api/openapi.json",
        documents={"file:///api/other.json": other},
    )
    (made,) = found.operations
    tenant = {"type": "string", "maxLength": 9}
    assert made.schemas().input["properties"] == {"tenant": tenant, "name": tenant}
    output = made.schemas().output
    assert output is not None
    assert output["properties"] == {"name": tenant}


def test_what_stands_beside_the_reference_of_a_path_item_counts() -> None:
    paths = {"/x": {"$ref": "#/components/pathItems/X", "parameters": [{"name": "v", "in": "query", "schema": True}]}}
    components = {"pathItems": {"X": {"get": {"summary": "Get"}}}}
    (made,) = read_description(document(paths, components=components)).operations
    assert [each.name for each in made.parameters] == ["v"]


def test_a_remote_reference_spoils_the_operation_that_needs_it() -> None:
    remote = {"$ref": "https://other.example/schemas.json#/X"}
    paths = {
        "/body": {"post": body(remote)},
        "/answer": {"get": {"responses": {"200": {"content": {"application/json": {"schema": remote}}}}}},
    }
    found = read_description(document(paths))
    assert "not fetched" in found.skipped[0].reason
    (answer,) = found.operations
    assert answer.schemas().output is None  # what cannot be described can be called all the same
    assert "other.example" in answer.schemas().notes[0]


def test_schemas_are_found_by_anchor_and_id() -> None:
    schemas = {
        "A": {"$anchor": "short", "type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}},
        "B": {"$id": "https://x.example/b.json", "$defs": {"C": {"enum": [1, 2]}}, "$ref": "#/$defs/C"},
    }
    raw = {
        "parameters": [
            {"name": "a", "in": "query", "schema": {"$ref": "#short"}},
            {"name": "b", "in": "query", "schema": {"$ref": "https://x.example/b.json#/$defs/C"}},
            {"name": "c", "in": "query", "schema": {"$ref": "#/components/schemas/B"}},
        ]
    }
    made = input_of(raw, components={"schemas": schemas})
    assert made["properties"]["b"] == {"enum": [1, 2]}
    assert made["$defs"]["B"]["enum"] == [1, 2]
    assert made["$defs"]["short"]["properties"]["x"]["minimum"] == 1


# -- parameters and bodies ---------------------------------------------------------------------------------------------


def test_what_a_security_scheme_describes_is_no_argument() -> None:
    """Credentials are configuration; a model that is asked for a key invents one."""
    schemes = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        "token": {"type": "apiKey", "in": "query", "name": "token"},
    }
    raw = {
        "parameters": [
            {"name": "x-api-key", "in": "header", "required": True, "schema": {"type": "string"}},
            {"name": "token", "in": "query", "schema": {"type": "string"}},
            {"name": "Token", "in": "query", "schema": {"type": "string"}},
            {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
        ]
    }
    made = input_of(raw, components={"securitySchemes": schemes})
    assert list(made["properties"]) == ["Token"]
    assert "required" not in made


@pytest.mark.parametrize(
    ("types", "chosen"),
    [
        (["multipart/form-data", "application/json"], "application/json"),
        (["application/x-www-form-urlencoded", "multipart/form-data"], "multipart/form-data"),
        (["application/xml", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded"),
        (["application/xml", "application/vnd.api+json"], "application/vnd.api+json"),
        (["application/octet-stream", "text/plain"], "text/plain"),
        (["application/xml"], "application/xml"),
        (["application/json; charset=utf-8"], "application/json; charset=utf-8"),
        (["*/*"], "application/json"),
    ],
)
def test_one_of_several_content_types_is_sent_by_a_fixed_rule(types: list[str], chosen: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    made = operation({"requestBody": {"content": {each: {"schema": schema} for each in types}}})
    assert made.body is not None
    assert made.body.content_type == chosen


def test_null_removes_a_member_of_a_merge_patch() -> None:
    made = input_of(body({"type": "object", "properties": {"a": {"type": "string"}}}, "application/merge-patch+json"))
    validator = jsonschema_rs.validator_for(made)
    assert validator.is_valid({"a": None})
    assert validator.is_valid({"a": "x"})


def test_a_json_patch_is_one_argument() -> None:
    patch = {"type": "array", "items": {"type": "object", "properties": {"op": {"type": "string"}}}}
    assert list(input_of(body(patch, "application/json-patch+json"))["properties"]) == ["body"]


def test_a_name_of_path_and_body_is_distinguished() -> None:
    raw = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}]}
    made = input_of(raw | body({"type": "object", "properties": {"id": {"type": "string"}}}), path="/x/{id}")
    assert made["properties"]["id"] == {"type": "integer"}
    assert made["properties"]["id_body"] == {"type": "string"}


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "takes_null"), [("3.0.3", True), ("3.1.0", False), ("3.2.0", False)])
def test_nullable_belongs_to_3_0(version: str, takes_null: bool) -> None:
    raw = {"parameters": [{"name": "a", "in": "query", "schema": {"type": "string", "nullable": True}}]}
    made = read_description(document({"/x": {"get": raw}}, openapi=version)).operations[0].schemas().input
    assert jsonschema_rs.validator_for(made).is_valid({"a": None}) is takes_null


def test_what_stands_beside_a_reference_counts_since_3_1() -> None:
    components = {"schemas": {"Name": {"type": "string"}}}
    schema = {"$ref": "#/components/schemas/Name", "maxLength": 3}
    raw = {"get": {"parameters": [{"name": "a", "in": "query", "schema": schema}]}}
    for version, expected in (("3.0.3", True), ("3.1.0", False)):
        found = read_description(document({"/x": raw}, components=components, openapi=version))
        assert jsonschema_rs.validator_for(found.operations[0].schemas().input).is_valid({"a": "long"}) is expected


def test_methods_of_3_2_are_read() -> None:
    paths = {"/x": {"query": {}, "trace": {}, "additionalOperations": {"LINK": {}, "TRACE": {}, "B D": {}}}}
    found = read_description(document(paths, openapi="3.2.0"))
    assert [each.label for each in found.operations] == ["QUERY /x", "LINK /x"]
    assert len(found.skipped) == 2


def test_a_whole_query_string_is_an_argument_since_3_2() -> None:
    content = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    raw = {"parameters": [{"name": "all", "in": "querystring", "content": content}]}
    assert input_of(raw, openapi="3.2.0", method="get")["properties"] == {"all": {"type": "object"}}


# -- work --------------------------------------------------------------------------------------------------------------


MAX_BYTES = 2000


def _calls(work: Callable[[], object]) -> int:
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _converted(given: dict[str, Any]) -> Description:
    description = read_description(given, max_schema_bytes=MAX_BYTES)
    for each in description.operations:
        each.schemas()
    return description


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _all_connected(size: int) -> dict[str, Any]:
    """Every schema leads to every other one, and every operation to all of them."""
    schemas = {
        f"S{n}": {
            "type": "object",
            "required": ["id"],
            "properties": {"id": {"type": "string", "readOnly": True}, "next": _reference(f"S{(n + 1) % size}")},
        }
        for n in range(size)
    }
    paths = {f"/p{n}": {"post": body(_reference(f"S{n}"))} for n in range(size)}
    return document(paths, components={"schemas": schemas})


def _same_last_step(size: int) -> dict[str, Any]:
    parts = {f"G{n}": {"Item": {"type": "object", "properties": {"a": {}}}} for n in range(size)}
    schema = {"anyOf": [{"$ref": f"#/components/x-parts/G{n}/Item"} for n in range(size)]}
    return document({"/x": {"post": body(schema)}}, components={"x-parts": parts})


def _tall_hierarchy(size: int) -> dict[str, Any]:
    """Each schema has all of the one before it, twice."""
    schemas: dict[str, Any] = {"S0": {"type": "object", "properties": {"a": {"readOnly": True}}, "required": ["a"]}}
    for n in range(1, size):
        schemas[f"S{n}"] = {"allOf": [_reference(f"S{n - 1}"), _reference(f"S{n - 1}")], "required": ["a"]}
    return document({"/x": {"post": body(_reference(f"S{size - 1}"))}}, components={"schemas": schemas})


def _circle_of_siblings(size: int) -> dict[str, Any]:
    """References with further keywords beside them, in circles."""
    schemas = {
        f"S{n}": _reference(f"S{(n + 1) % size}")
        | {"properties": {"a": _reference(f"S{n}"), "b": _reference(f"S{(n + 2) % size}")}}
        for n in range(size)
    }
    return document({"/x": {"post": body(_reference("S0"))}}, components={"schemas": schemas})


def _many_anchors(size: int) -> dict[str, Any]:
    schemas = {f"S{n}": {"$anchor": f"a{n}", "type": "object", "properties": {"a": {}}} for n in range(size)}
    raw = {
        "parameters": [{"name": f"p{n}", "in": "query", "schema": {"$ref": f"#a{n}"}} for n in range(min(size, 200))]
    }
    return document({"/x": {"get": raw}}, components={"schemas": schemas})


@pytest.mark.parametrize("make", [_all_connected, _same_last_step, _tall_hierarchy, _circle_of_siblings, _many_anchors])
def test_the_work_grows_with_the_document(make: Callable[[int], dict[str, Any]]) -> None:
    """Two large public documents do not end in minutes where each operation walks all that it can reach."""
    small, large = (_calls(lambda size=size: _converted(make(size))) for size in (100, 400))
    assert large < 6 * small + 20_000


def test_one_schema_has_a_bound() -> None:
    found = _converted(_all_connected(60))
    sizes = [len(json.dumps(each.schemas().input, separators=(",", ":"))) for each in found.operations]
    assert max(sizes) <= MAX_BYTES
    assert "simplified" in found.operations[0].schemas().notes[0]


def test_an_alternative_that_was_simplified_does_not_exclude_the_others() -> None:
    """Where only one alternative may fit, two that accept anything would refuse every value."""
    large = {f"m{n}": {"type": "string", "enum": [f"{n}" * 30]} for n in range(200)}
    schemas = {
        name: {"type": "object", "required": [name], "properties": {name: {"type": "string"}, **large}}
        for name in ("A", "B", "C")
    }
    schema = {"type": "object", "properties": {"one": {"oneOf": [_reference(name) for name in schemas]}}}
    made = input_of(body(schema), components={"schemas": schemas})
    assert jsonschema_rs.validator_for(made).is_valid({"one": {"A": "x"}})
    assert jsonschema_rs.validator_for(made).is_valid({"one": {"C": "x"}})


def test_eleven_thousand_operations_are_read() -> None:
    paths = {f"/p{n}/{{id}}": {"get": {}, "delete": {}} for n in range(5500)}
    found = read_description(document(paths))
    assert len(found.operations) == 11_000
    assert len({each.name for each in found.operations}) == 11_000
