"""Faults that people reported of other converters of OpenAPI, each as a case of ours.

Where an independent framework can say what arrives, it does: the right value is what FastAPI read, not what we sent.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from fastapi import Body, Cookie, FastAPI, Form, Header, HTTPException, Query, UploadFile
from pydantic import BaseModel

from ferrule import Client
from ferrule.expose import expose, read_openapi
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS
from tests.expose.callers_for_tests import AnsweringCaller, answer, call, exposing
from tests.expose.documents import document

pytestmark = pytest.mark.anyio

MODES = ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]]
both_eras = pytest.mark.parametrize("mode", MODES)


def at(location: str, name: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return one parameter."""
    return {"name": name, "in": location, "required": location == "path", "schema": schema, **more}


def json_body(schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    """Return a request body that must be given."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


async def sent(raw: dict[str, Any], arguments: dict[str, Any], **more: Any) -> Any:
    """Return the request of a call; the call must be made."""
    caller = AnsweringCaller()
    result = await call(exposing(raw, caller, **more), **arguments)
    assert not result.is_error, result.text
    return caller.requests[0]


def input_schema(raw: dict[str, Any], *, method: str = "post", path: str = "/x", **parts: Any) -> dict[str, Any]:
    """Return the schema of the arguments of one operation."""
    (operation,) = read_openapi(document({path: {method: {"operationId": "it", **raw}}}, **parts)).operations
    schema = operation.schemas().input
    jsonschema_rs.meta.validate(schema)
    return schema


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.is_valid(schema, value)


async def asked(app: FastAPI, name: str, arguments: dict[str, Any], mode: str = "auto", **options: Any) -> Any:
    """Return what an application answers, decoded."""
    async with Client(expose(app, include="*", **options), mode=mode) as client:
        result = await client.call_tool(name, arguments)
    assert not result.is_error, result.text
    return json.loads(result.content[0].text or "null")


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "explode", "query"),
    [
        ("form", None, "ids=a%2Cb&ids=c"),
        ("form", False, "ids=a%2Cb,c"),
        ("spaceDelimited", None, "ids=a%2Cb%20c"),
        ("pipeDelimited", None, "ids=a%2Cb%7Cc"),
        ("pipeDelimited", False, "ids=a%2Cb%7Cc"),
    ],
)
async def test_a_list_is_written_as_its_style_says(style: str, explode: bool | None, query: str) -> None:
    """Without ``explode`` the style decides: false for all but ``form``."""
    more: dict[str, Any] = {"style": style} | ({} if explode is None else {"explode": explode})
    raw = {"parameters": [at("query", "ids", {"type": "array", "items": {"type": "string"}}, **more)]}
    assert (await sent(raw, {"ids": ["a,b", "c"]})).query == query


async def test_a_deep_object_keeps_the_name_of_its_parameter() -> None:
    schema = {"type": "object", "properties": {"eq": {"type": "string"}, "in": {"type": "array"}, "at": {}}}
    raw = {"parameters": [at("query", "filter", schema, style="deepObject", explode=True)]}
    request = await sent(raw, {"filter": {"eq": "x&y", "in": [1, 2], "at": {"gt": 3}}})
    assert request.query == "filter%5Beq%5D=x%26y&filter%5Bin%5D=1&filter%5Bin%5D=2&filter%5Bat%5D%5Bgt%5D=3"


@both_eras
async def test_a_header_and_a_path_take_other_values_than_texts(mode: str) -> None:
    app = FastAPI()

    @app.get("/x/{flag}/{number}")
    def it(
        flag: bool, number: float, x_flag: Annotated[bool, Header()], x_count: Annotated[int, Header()]
    ) -> list[Any]:
        return [flag, number, x_flag, x_count]

    given = {"flag": True, "number": 1.5, "x-flag": False, "x-count": 3}
    assert await asked(app, "it", given, mode) == [True, 1.5, False, 3]


async def test_lists_in_a_path_and_a_header_are_joined_by_commas() -> None:
    items = {"type": "array", "items": {"type": "integer"}}
    raw = {"parameters": [at("path", "ids", items), at("header", "X-Ids", items)]}
    request = await sent(raw, {"ids": [1, 2, 3], "X-Ids": [4, 5]}, path="/x/{ids}")
    assert request.path == "/x/1,2,3"
    assert ("x-ids", "4,5") in request.headers


async def test_every_variable_of_a_path_is_filled_in() -> None:
    """Also those that are described for all operations of the path, or not at all."""
    given = document(
        {
            "/{kind}/{id}/{kind}-{part}": {
                "parameters": [at("path", "id", {"type": "integer"}), at("path", "kind", {"type": "string"})],
                "get": {"operationId": "it", "parameters": [at("path", "kind", {"enum": ["pet", "cat"]})]},
            }
        }
    )
    (operation,) = read_openapi(given).operations
    assert operation.schemas().input["properties"]["kind"] == {"enum": ["pet", "cat"]}
    caller = AnsweringCaller()
    item = given["paths"]["/{kind}/{id}/{kind}-{part}"]
    raw = {"parameters": [*item["parameters"][:1], *item["get"]["parameters"]]}
    server = exposing(raw, caller, path="/{kind}/{id}/{kind}-{part}")
    assert not (await call(server, kind="pet", id=7, part="{id}")).is_error
    assert caller.requests[0].path == "/pet/7/pet-%7Bid%7D"


@both_eras
async def test_a_parameter_that_is_not_given_is_not_sent(mode: str) -> None:
    """Neither empty nor as a null: the application's own default counts."""
    app = FastAPI()

    @app.get("/x")
    def it(
        word: str | None = "default", tags: Annotated[list[str] | None, Query()] = None, crumb: str = Cookie("none")
    ) -> list[Any]:
        return [word, tags, crumb]

    assert await asked(app, "it", {}, mode) == ["default", None, "none"]
    assert await asked(app, "it", {"word": None, "tags": None}, mode) == ["default", None, "none"]
    assert await asked(app, "it", {"word": "", "tags": []}, mode) == ["", None, "none"]


async def test_the_same_name_in_every_place_is_five_arguments() -> None:
    places = ("path", "query", "header", "cookie")
    raw = {
        "parameters": [at(place, "id", {"type": "string"}) for place in places],
        **json_body({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}),
    }
    arguments = {"id": "p", "id_query": "q", "id_header": "h", "id_cookie": "c", "id_body": "b"}
    assert set(input_schema(raw, path="/x/{id}")["properties"]) == set(arguments)
    request = await sent(raw, arguments, path="/x/{id}", method="post")
    assert (request.target, request.body) == ("/x/p?id=q", b'{"id":"b"}')
    assert {("id", "h"), ("cookie", "id=c")} <= set(request.headers)


@both_eras
async def test_a_whole_body_does_not_replace_a_parameter_of_its_name(mode: str) -> None:
    app = FastAPI()

    @app.post("/x")
    def it(values: Annotated[list[int], Body()], body: str, group: str = Query(alias="values")) -> list[Any]:
        return [values, body, group]

    async with Client(expose(app, include="*"), mode=mode) as client:
        (tool,) = await client.list_tools()
        names = set(tool.input_schema["properties"])
        assert names == {"body", "values", "body_content"}
        result = await client.call_tool("it", {"body": "b", "values": "v", "body_content": [1, 2]})
    assert json.loads(result.content[0].text or "") == [[1, 2], "b", "v"]


# -- bodies ------------------------------------------------------------------------------------------------------------


class Patch(BaseModel):
    name: str | None = None
    note: str | None = None


@both_eras
async def test_a_null_in_a_body_is_sent_and_what_is_left_out_is_not(mode: str) -> None:
    """The one clears a member, the other leaves it alone."""
    app = FastAPI()

    @app.patch("/x")
    def it(patch: Patch) -> dict[str, Any]:
        return patch.model_dump(exclude_unset=True)

    assert await asked(app, "it", {"note": None}, mode) == {"note": None}
    assert await asked(app, "it", {"name": "x"}, mode) == {"name": "x"}


@pytest.mark.parametrize(
    "kind",
    [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/vnd.shop.v2+json; charset=utf-8",
        "text/json",
    ],
)
async def test_the_body_has_the_media_type_that_is_described(kind: str) -> None:
    request = await sent(json_body({"type": "array", "items": {}}, kind), {"body": [1]}, method="patch")
    assert ("content-type", kind) in request.headers
    assert request.body == b"[1]"


@both_eras
async def test_forms_and_uploads_arrive_as_such(mode: str) -> None:
    """Not as JSON, which the application refuses."""
    app = FastAPI()

    @app.post("/form")
    def form(name: Annotated[str, Form()], tags: Annotated[list[int], Form()]) -> list[Any]:
        return [name, tags]

    @app.post("/upload")
    async def upload(file: UploadFile, note: Annotated[str, Form()]) -> list[Any]:
        return [file.filename, (await file.read()).decode(), note]

    assert await asked(app, "form", {"name": "a&b", "tags": [1, 2]}, mode) == ["a&b", [1, 2]]
    file = {"text": "hi", "filename": 'a"b\r\n.txt'}
    assert await asked(app, "upload", {"file": file, "note": "n"}, mode) == ["a%22b%0D%0A.txt", "hi", "n"]


class Union(BaseModel):
    value: list[dict[str, int]] | dict[str, str] | str | int | None


@both_eras
@pytest.mark.parametrize("value", [[{"a": 1}], {"eq": "x"}, "text", 7, None])
async def test_a_union_takes_each_of_its_types(mode: str, value: Any) -> None:
    """No type is chosen for it."""
    app = FastAPI()

    @app.post("/x")
    def it(given: Union) -> list[Any]:
        return [given.value]

    assert await asked(app, "it", {"value": value}, mode) == [value]


@pytest.mark.parametrize(
    "body", [{"type": "integer"}, {"type": "string"}, {"type": "array", "items": {"type": "number"}}]
)
async def test_a_body_that_is_no_object_is_an_argument(body: dict[str, Any]) -> None:
    schema = input_schema(json_body(body))
    assert schema["required"] == ["body"]
    value: Any = {"integer": 7, "string": "x", "array": [1.5]}[body["type"]]
    assert (await sent(json_body(body), {"body": value}, method="put")).body == json.dumps(value).encode()


async def test_members_of_all_parts_of_a_body_are_arguments() -> None:
    parts: dict[str, Any] = {
        "components": {
            "schemas": {
                "Base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
                "Named": {"properties": {"name": {"type": "string", "default": "x"}}},
            },
            "requestBodies": {
                "It": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "allOf": [
                                    {"$ref": "#/components/schemas/Base"},
                                    {"$ref": "#/components/schemas/Named"},
                                    {"properties": {"tag": {"type": "string"}}, "required": ["tag"]},
                                ]
                            }
                        }
                    },
                }
            },
        }
    }
    schema = input_schema({"requestBody": {"$ref": "#/components/requestBodies/It"}}, **parts)
    assert list(schema["properties"]) == ["id", "name", "tag"]
    assert set(schema["required"]) == {"id", "tag"}
    assert schema["properties"]["name"]["default"] == "x"


# -- schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, ["a", None], [1]),
        ({"type": "string", "nullable": False}, ["a"], [None, 1]),
        ({"type": "string", "nullable": True, "enum": ["A", "B"]}, ["A", None], ["C"]),
        ({"nullable": True, "allOf": [{"$ref": "#/components/schemas/Size"}]}, ["S", None], ["X"]),
        ({"$ref": "#/components/schemas/Size"}, ["S"], [None, "X"]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, [1], [0]),
        ({"type": "string", "enum": ["a", "a", "b"]}, ["a", "b"], ["c"]),
        ({"type": "string", "format": "date"}, ["2026-11-28"], [7]),
        ({"type": "string", "format": "date-time"}, ["2026-11-28T18:00:00Z"], [7]),
        ({"type": "string", "format": "no-such-format", "pattern": "^a+$"}, ["aa"], ["b"]),
        ({"type": "integer", "format": "int64", "default": 7}, [9007199254740993], ["7"]),
    ],
)
def test_what_a_schema_of_3_0_accepts(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    """As a parameter and as a member of a body, in the words of JSON Schema 2020-12."""
    parts: dict[str, Any] = {"openapi": "3.0.3", "components": {"schemas": {"Size": {"enum": ["S", "M"]}}}}
    raw = {
        "parameters": [at("query", "q", schema)],
        **json_body({"type": "object", "properties": {"b": schema}}),
    }
    made = input_schema(raw, **parts)
    assert "nullable" not in json.dumps(made)
    for name in ("q", "b"):
        assert [accepts(made, {name: value}) for value in good] == [True] * len(good)
        assert [accepts(made, {name: value}) for value in bad] == [False] * len(bad)


class Tree(BaseModel):
    name: str
    op: Literal["and", "or"] = "and"
    children: list[Tree] = []
    parent: Tree | None = None


@both_eras
async def test_a_type_that_contains_itself_is_taken_and_answered(mode: str) -> None:
    app = FastAPI()

    @app.post("/x")
    def it(tree: Tree) -> Tree:
        return tree

    given: dict[str, Any] = {"name": "a", "op": "or", "children": [{"name": "b", "op": "and", "children": []}]}
    async with Client(expose(app, include="*"), mode=mode) as client:
        (tool,) = await client.list_tools()
        jsonschema_rs.meta.validate(tool.input_schema)
        assert "#/components" not in json.dumps(tool.input_schema)
        assert not (await client.call_tool("it", given)).is_error
        refused = await client.call_tool("it", {"name": "a", "children": [{"children": []}]})
    assert refused.is_error
    assert "name" in refused.text


@pytest.mark.parametrize(
    "reference",
    [
        "#/paths/~1first/post/requestBody/content/application~1json/schema/properties/items/items",
        "#/components/schemas/List/properties/items/items",
        "#/components/schemas/A%20name~1with~1all",
    ],
)
def test_a_reference_may_lead_anywhere_in_the_document(reference: str) -> None:
    """Some generators refer to the first use of a type, and names of types may have any letters."""
    item = {"type": "object", "properties": {"n": {"type": "integer"}, "again": {"$ref": reference}}, "required": ["n"]}
    listed = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    given = document(
        {
            "/first": {"post": {"operationId": "first", **json_body(listed)}},
            "/second": {
                "post": {
                    "operationId": "second",
                    **json_body({"type": "object", "properties": {"one": {"$ref": reference}}}),
                }
            },
        },
        components={"schemas": {"List": listed, "A name/with/all": item}},
    )
    schema = read_openapi(given).operations[1].schemas().input
    jsonschema_rs.meta.validate(schema)
    assert accepts(schema, {"one": {"n": 1, "again": {"n": 2}}})
    assert not accepts(schema, {"one": {"n": 1, "again": {"n": "x"}}})


def test_what_a_reference_leads_to_keeps_its_description() -> None:
    parts: dict[str, Any] = {
        "components": {"schemas": {"Format": {"type": "string", "description": "How it is written"}}}
    }
    body = {"type": "object", "properties": {"format": {"$ref": "#/components/schemas/Format"}}}
    assert "How it is written" in json.dumps(input_schema(json_body(body), **parts))


# -- answers -----------------------------------------------------------------------------------------------------------


@both_eras
@pytest.mark.parametrize("value", [{"user": None, "price": None}, {}, [], None, {"more": 1}])
@pytest.mark.parametrize("mode_of_output", ["off", "log"])
async def test_an_answer_that_contradicts_its_description_is_a_result(
    mode: str, value: Any, mode_of_output: Any
) -> None:
    """A null where a text was described is the commonest of all."""
    schema = {
        "type": "object",
        "properties": {"user": {"type": "string"}, "price": {"type": "number"}},
        "required": ["user"],
        "additionalProperties": False,
    }
    raw = {"responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}}
    body = answer(json.dumps(value).encode(), content_type="application/json")
    server = exposing(raw, AnsweringCaller(body), validate_output=mode_of_output)
    async with Client(server, mode=mode) as client:
        result = await client.call_tool("it", {})
    assert not result.is_error
    assert json.loads(result.text or "null") == value


@both_eras
@pytest.mark.parametrize("status", [200, 201, 202, 204, 205])
async def test_an_answer_without_a_body_is_a_success(mode: str, status: int) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    raw = {"responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}}
    async with Client(exposing(raw, AnsweringCaller(answer(status=status)), method="delete"), mode=mode) as client:
        result = await client.call_tool("it", {})
    assert (result.is_error, result.text) == (False, "Done")


# -- credentials and errors --------------------------------------------------------------------------------------------


@both_eras
async def test_the_token_for_this_server_is_not_sent_to_the_api(mode: str) -> None:
    """It is a credential for this server. The API gets the server's own."""
    from tests.integrations.serving import over_http

    caller = AnsweringCaller()
    server = exposing({}, caller, auth="own", forward_headers=("x-tenant",))
    headers = {"Authorization": "Bearer of-the-user", "X-Tenant": "t", "X-Other": "o", "Cookie": "sid=1"}
    async with over_http(server.asgi(), mode, headers=headers) as client:
        assert not (await client.call_tool("it", {})).is_error
    assert dict(caller.requests[0].headers).keys() == {"accept", "authorization"}
    assert ("authorization", "Bearer own") in caller.requests[0].headers


@both_eras
async def test_the_messages_of_a_refusal_reach_the_model(mode: str) -> None:
    app = FastAPI()

    @app.get("/x/{number}")
    def it(number: Annotated[str, "free"], limit: int = 1) -> None:
        raise HTTPException(
            409, {"code": "taken", "message": "the name is taken", "fields": {"name": ["choose another"]}}
        )

    async with Client(expose(app, include="*"), mode=mode) as client:
        result = await client.call_tool("it", {"number": "7"})
    assert result.is_error
    assert "the name is taken" in result.text
    assert "name: choose another" in result.text


# -- names -------------------------------------------------------------------------------------------------------------


def test_ids_that_differ_only_in_what_no_name_may_have_stay_apart() -> None:
    """``items/list`` and ``items.list`` become the same; long ones do, once they are cut."""
    ids = ["items/list", "items.list", "items list", *(f"{'very_' * 16}long_{n}" for n in range(3)), "Items_List"]
    given = document({f"/p{n}": {"get": {"operationId": each}} for n, each in enumerate(ids)})
    names = [operation.name for operation in read_openapi(given).operations]
    assert len({name.lower() for name in names}) == len(ids)
    assert all(0 < len(name) <= 64 for name in names)
    again = document({f"/p{n}": {"get": {"operationId": each}} for n, each in reversed(list(enumerate(ids)))})
    assert sorted(operation.name for operation in read_openapi(again).operations) == sorted(names)
