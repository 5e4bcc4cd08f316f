"""Documents to operations: what is wrong with one operation is that operation's problem."""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.description.schemas import SchemaConverter
from ferrule.expose.documents import load_document
from ferrule.expose.operations import Operation, UnusableOperation
from ferrule.expose.requests.build import build_request
from ferrule.wire.codec import encode
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


def test_a_body_with_a_file_is_sent_in_parts_though_it_could_be_json() -> None:
    """JSON has no bytes; drf-spectacular describes each serializer for all of a view's parsers."""
    files = {"type": "object", "properties": {"cover": {"type": "string", "format": "binary"}}}
    plain = {"type": "object", "properties": {"title": {"type": "string"}}}
    for schema, sent in ((files, "multipart/form-data"), (plain, "application/json")):
        kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
        found = operation({"requestBody": {"content": {kind: {"schema": schema} for kind in kinds}}})
        assert found.body is not None
        assert found.body.content_type == sent


def test_a_body_in_parts_is_json_without_a_file_where_the_api_takes_the_same_as_json() -> None:
    files = {"type": "object", "properties": {"cover": {"type": "string", "format": "binary"}, "a": {}}}
    other = {"type": "object", "properties": {"cover": {"type": "string"}}}
    for kind, schema, expected in (
        ("application/json", files, "application/json"),
        ("application/json", other, None),
        ("application/merge-patch+json", files, None),
    ):
        content = {kind: {"schema": schema}, "multipart/form-data": {"schema": files}}
        found = operation({"requestBody": {"required": True, "content": content}})
        assert found.body is not None
        assert (found.body.content_type, found.body.json_type) == ("multipart/form-data", expected)
        headers = dict(build_request(found, {"a": None}).headers)
        assert headers["content-type"].startswith(expected or "multipart/form-data")


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


def _twenty_megabytes() -> dict[str, Any]:
    """Eight thousand operations, each of which reaches one of ten groups of 65 schemas that lead to each other."""
    text = "What it is for, and what it is not for. " * 50
    schemas = {
        f"S{group}_{n}": {
            "type": "object",
            "description": text,
            "properties": {
                "name": {"type": "string", "pattern": "^[^x]{1,40}$", "description": text},
                "own": _reference(f"S{group}_{n}"),
                **{f"to_{step}": _reference(f"S{group}_{(n * step + 1) % 65}") for step in (1, 2, 3, 5)},
            },
        }
        for group in range(10)
        for n in range(65)
    }
    paths = {
        f"/things{n}/{{id}}": {
            "post": body(_reference(f"S{n % 10}_{n % 65}")) | {"description": text, "summary": text[:60]}
        }
        for n in range(8_000)
    }
    return document(paths, components={"schemas": schemas})


def test_a_document_of_twenty_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each definition is converted once, each pattern tried once, and each schema keeps its bound."""
    given = json.dumps(_twenty_megabytes()).encode()
    assert len(given) > 20_000_000
    converted: Counter[str] = Counter()
    original = SchemaConverter.convert

    def convert(self: SchemaConverter, raw: Any, *arguments: Any) -> Any:
        if "own" in raw.get("properties", ()):
            converted[raw["properties"]["own"]["$ref"]] += 1
        return original(self, raw, *arguments)

    tried: list[Any] = []
    check = jsonschema_rs.validator_for
    monkeypatch.setattr(SchemaConverter, "convert", convert)
    monkeypatch.setattr(jsonschema_rs, "validator_for", lambda schema: (tried.append(schema), check(schema))[1])
    found = read_description(load_document(given)[0], max_schema_bytes=MAX_BYTES)
    assert len(found.operations) == 8_000
    sizes = [len(encode(each.schemas().input)) for each in found.operations[::7]]
    assert max(sizes) <= MAX_BYTES
    assert set(converted.values()) == {1}
    assert sum("pattern" in schema for schema in tried) == 1
    assert not any('"pattern"' in json.dumps(schema) for schema in tried[:20] if "pattern" not in schema)


def test_wrong_patterns_are_left_out() -> None:
    """Of a value, and of the names of members; the operation stays."""
    schema = {
        "type": "object",
        "properties": {"pattern": {"type": "string", "pattern": "(?P<a"}, "b": {"patternProperties": {"(": {}}}},
    }
    made = input_of(body(schema))
    assert made["properties"] == {"pattern": {"type": "string"}, "b": {}}


def test_eleven_thousand_operations_are_read() -> None:
    paths = {f"/p{n}/{{id}}": {"get": {}, "delete": {}} for n in range(5500)}
    found = read_description(document(paths))
    assert len(found.operations) == 11_000
    assert len({each.name for each in found.operations}) == 11_000


# -- what a hostile document would have a model decide -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Transfer-Encoding", "Connection", "Expect", "Upgrade", "TE", "Trailer",
        "Accept-Encoding", "Proxy-Authorization", "Keep-Alive", "Accept", "Content-Type", "Authorization",
        "X-A\r\nX-Evil", "X A", "X:A", ":path", "X-Ü", "X-A\x00",
    ],
)  # fmt: skip
def test_a_header_of_the_connection_is_no_argument(name: str) -> None:
    """It would say where the request ends, or to which host it goes; or its name would begin another header."""
    raw = {"parameters": [{"name": name, "in": "header", "required": True, "schema": {"type": "string"}}]}
    (operation,) = read_description(document({"/x": {"get": {"operationId": "it", **raw}}})).operations
    assert operation.parameters == ()
    assert operation.schemas().input == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize("path", ["/x/../y", "/x/./y", "/x/%2e%2E/y", "/..", "/x\\..\\y", "/x/.."])
def test_a_path_that_leads_up_is_left_out(path: str) -> None:
    """Requests are sent only below the base URL, independent of the document."""
    found = read_description(document({path: {"get": {"operationId": "it"}}, "/y": {"get": {"operationId": "y"}}}))
    assert [operation.name for operation in found.operations] == ["y"]
    assert [skipped.path for skipped in found.skipped] == [path]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 10**9, "minLength": 10**9},
        {"type": "string", "maxLength": 10**30},
        {"type": "array", "minItems": 10**9, "items": {"type": "integer", "multipleOf": 1e-300}},
        {"type": "string", "pattern": "(a+)+$"},
        {"type": "string", "pattern": "(" * 2000 + ")" * 2000},
        {"type": "string", "pattern": "a{1,1000000000}"},
        {"type": "string", "pattern": "(?=(a+))\\1b"},
        {"type": "string", "pattern": "a" * 200_000},
        {"type": "string", "enum": ["x" * 50] * 10_000},
        {"enum": [{"a": n} for n in range(10_000)]},
        {"allOf": [{"type": "object"}] * 10_000},
        {"properties": {f"p{n}": {"properties": {f"q{m}": {}}} for n in range(100) for m in range(10)}},
        {"$ref": "#/components/schemas/A"},
        {"$ref": "#/components/schemas/A/properties/a/properties/a/properties/a"},
        {"$ref": "#"},
        {"$ref": "#/paths"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "http://127.0.0.1:1/x.json"},
        {"$ref": "\x00"},
        {"$ref": "#/" + "a/" * 100_000},
        {"default": "x" * 100_000, "description": "y" * 100_000, "title": "z" * 100_000},
        {"minimum": float("nan"), "maximum": float("inf")},
        {"not": {"not": {"not": {}}}, "if": {"$ref": "#/components/schemas/A"}, "then": False},
        {"const": "\ud800"},
        {"type": "object", "patternProperties": {"(": {}}, "propertyNames": {"pattern": "["}},
        {"$dynamicRef": "#x", "$recursiveRef": "#", "$vocabulary": {}, "$schema": "http://x.example/s"},
        {"$id": "http://x.example/a", "$anchor": "b", "$ref": "#b"},
    ],
)
def test_a_schema_of_any_kind_is_usable_bounded_or_left_out(schema: Any) -> None:
    """And what a call then gives it is judged at once: the validator takes no time that grows with such numbers."""
    a = {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/A"}}}
    raw = {
        "parameters": [{"name": "q", "in": "query", "schema": schema}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"b": schema}}}}},
        "responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}},
    }
    given = document({"/x": {"post": {"operationId": "it", **raw}}}, components={"schemas": {"A": a}})
    found = read_description(given)
    assert len(found.operations) + len(found.skipped) == 1
    for operation in found.operations:
        try:
            made = operation.schemas()
        except UnusableOperation:
            continue
        assert len(encode(made.input)) <= 25 * 1024
        validator = jsonschema_rs.validator_for(made.input)
        for value in ("a" * 30 + "b", [1] * 100, {"a": {"a": {}}}, 7, None):
            validator.is_valid({"q": value, "b": value})


@pytest.mark.parametrize(
    ("info", "title", "version"),
    [
        ({"title": "x" * 1_000_000, "version": "1" * 1_000_000}, "x" * 119 + "…", "1" * 119 + "…"),
        ({"title": " A\n shop\x00\u202e ", "version": "\n"}, "A shop", "0"),
        ({"title": 7, "version": 1.5}, "API", "0"),
        (None, "API", "0"),
    ],
)
def test_title_and_version_are_short_and_plain(info: Any, title: str, version: str) -> None:
    """They are name and version of the server, which each client gets and shows."""
    found = read_description({**document({}), "info": info})
    assert (found.title, found.version) == (title, version)
