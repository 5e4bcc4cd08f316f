"""ferrule.expose.exposure and .settings: tools of operations, what their options say, and options that are misspelt."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.expose import NothingMatches, from_openapi
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.exposure import Exposure, refresh_before_reads
from ferrule.expose.openapi import read_openapi, settings_of
from ferrule.expose.operations import Operation
from tests.expose.callers_for_tests import BASE_URL, AnsweringCaller, answer, call
from tests.expose.documents import document

pytestmark = pytest.mark.anyio

TEXT = {"schema": {"type": "string"}}
SHOP: dict[str, Any] = document(
    {
        "/{tenant}/orders": {
            "parameters": [
                {"name": "tenant", "in": "path", "required": True, **TEXT},
                {"name": "X-Api-Version", "in": "header", "required": True, **TEXT},
            ],
            "get": {
                "operationId": "listOrders",
                "tags": ["orders"],
                "parameters": [{"name": "q", "in": "query", **TEXT}],
            },
            "post": {"operationId": "findOrders", "summary": "Find orders", "deprecated": True},
            "delete": {"operationId": "dropOrders"},
            "put": {"operationId": "putOrders"},
            "patch": {"operationId": "patchOrders"},
        },
        "/{tenant}/orders/{id}": {
            "get": {
                "operationId": "getOrder",
                "parameters": [
                    {"name": "tenant", "in": "path", "required": True, **TEXT},
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "version", "in": "cookie", **TEXT},
                ],
            }
        },
    }
)
CONSTANTS = {"tenant": "acme/eu", "x-api-version": 3}


def shop(caller: AnsweringCaller | None = None, **options: Any) -> MCPServer[Any]:
    options.setdefault("include", "*")
    return from_openapi(SHOP, base_url=BASE_URL, caller=caller or AnsweringCaller(), **options)


async def listed(server: MCPServer[Any]) -> dict[str, Any]:
    async with Client(server) as client:
        return {tool.name: tool for tool in await client.list_tools()}


# -- what is the same in every call ------------------------------------------------------------------------------------


async def test_a_constant_is_sent_and_hidden_and_cannot_be_changed() -> None:
    """By its name in the request, a header's in any capitals; in each place as an argument of the model would be."""
    caller = AnsweringCaller()
    server = shop(caller, parameters=CONSTANTS)
    tools = await listed(server)
    assert tools["listOrders"].input_schema["properties"].keys() == {"q"}
    assert "required" not in tools["listOrders"].input_schema
    assert tools["getOrder"].input_schema["required"] == ["id"]
    async with Client(server) as client:
        assert not (await client.call_tool("listOrders", {"q": "x"})).is_error
        for name in ("tenant", "X-Api-Version", "x-api-version"):
            assert (await client.call_tool("listOrders", {name: "evil"})).is_error
    (request,) = caller.requests
    assert request.target == "/acme%2Feu/orders?q=x"
    assert ("x-api-version", "3") in request.headers


async def test_a_constant_that_cannot_be_sent_calls_nothing() -> None:
    caller = AnsweringCaller()
    server = shop(caller, parameters={"tenant": "..", "X-Api-Version": "1\r\nX-Evil: 2"})
    async with Client(server) as client:
        assert (await client.call_tool("listOrders", {})).is_error
    assert caller.requests == []


async def test_a_constant_does_not_ask_for_the_next_page() -> None:
    raw = {"parameters": [{"name": name, "in": "query", "schema": {"type": "integer"}} for name in ("page", "size")]}
    given = document({"/x": {"get": {"operationId": "it", **raw}}})
    caller = AnsweringCaller(answer({"next": "/x?page=2&size=50"}))
    server = from_openapi(given, base_url=BASE_URL, caller=caller, include="*", parameters={"size": 50})
    result = await call(server)
    assert '{"page":2}' in result.content[-1].text


# -- names, texts, hints -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["getOrder", "GET /{tenant}/orders/{id}"])
async def test_an_option_names_an_operation_by_its_tool_its_id_or_its_path(key: str) -> None:
    caller = AnsweringCaller(answer({"id": 1, "secret": 2}))
    server = shop(caller, include="getOrder", rename={key: "order"}, describe={key: "One order."}, fields={key: ["id"]})
    (tool,) = (await listed(server)).values()
    assert (tool.name, tool.description) == ("order", "One order.")
    async with Client(server) as client:
        result = await client.call_tool("order", {"tenant": "t", "id": 1})
    assert result.structured_content == {"id": 1}


async def test_a_method_says_what_a_tool_may_do_and_a_hint_says_it_better() -> None:
    tools = await listed(shop(hints={"POST": {"readOnlyHint": True}, "dropOrders": {"title": "Drop"}}))
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert hints["listOrders"].read_only_hint is True
    assert hints["findOrders"].read_only_hint is True
    assert hints["patchOrders"].read_only_hint is not True
    assert (hints["dropOrders"].destructive_hint, hints["dropOrders"].idempotent_hint) == (True, True)
    assert hints["dropOrders"].title == "Drop"
    assert hints["putOrders"].idempotent_hint is True


@pytest.mark.parametrize(("is_marked", "text"), [(True, "Deprecated. Find orders"), (False, "Find orders")])
async def test_a_description_says_that_an_operation_is_deprecated(is_marked: bool, text: str) -> None:
    assert (await listed(shop(mark_deprecated=is_marked)))["findOrders"].description == text


async def test_a_function_takes_the_place_of_an_operation() -> None:
    caller = AnsweringCaller()

    def find(word: str) -> str:
        return f"found {word}"

    server = shop(
        caller, override={"findOrders": find}, describe={"findOrders": "By word."}, rename={"findOrders": "find"}
    )
    async with Client(server) as client:
        tool = next(tool for tool in await client.list_tools() if tool.name == "find")
        assert (tool.description, list(tool.input_schema["properties"])) == ("By word.", ["word"])
        assert (await client.call_tool("find", {"word": "x"})).text == "found x"
    assert caller.requests == []


async def test_a_function_in_place_of_an_operation_has_the_options_of_the_other_tools() -> None:
    """A function for an operation that needs a scope would be open to everybody otherwise."""

    def find(word: str) -> dict[str, str]:
        return {"word": word}

    options = {"scopes": ["orders"], "timeout_s": 7.0, "text": "toon"}
    server: MCPServer[Any] = MCPServer("x")
    settings = settings_of("expose()", {"include": "findOrders", "override": {"findOrders": find}, **options})
    exposure = Exposure(server, AnsweringCaller(), settings, allow_for=lambda operation: lambda principal: False)
    exposure.update(read_openapi(SHOP).operations)
    (tool,) = server.tools.index
    assert tool.guard is not None
    assert tool.guard._scopes == ("orders",)
    assert tool.guard.allow is not None
    async with Client(server) as client:
        assert (await client.call_tool("findOrders", {"word": "a"})).text == "word: a"


def test_a_function_cannot_take_the_place_of_a_resource() -> None:
    with pytest.raises(
        NothingMatches, match=r"override names GET /\{tenant\}/orders, which resources= makes a resource"
    ):
        shop(override={"listOrders": print}, resources="listOrders")


@pytest.mark.parametrize("given", [{"title": "The title."}, None, 1])
def test_a_description_of_an_operation_is_text(given: Any) -> None:
    """A mapping of texts for parameters has no effect; the description of the API has these."""
    with pytest.raises(TypeError, match="describe='getOrder' is not text"):
        shop(describe={"getOrder": given})


# -- what is misspelt --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rename": {"listOrder": "x"}}, "rename names 'listOrder'.*did you mean 'listOrders'"),
        ({"describe": {"listorders": "x"}}, "describe names 'listorders'"),
        ({"override": {"GET /orders": print}}, "override names 'GET /orders'"),
        ({"add_parameters": {"get_order": {}}}, "add_parameters names 'get_order'"),
        ({"fields": {"orders": ["a"]}}, "fields names 'orders'"),
        ({"hints": {"PSOT /x": {}}}, "the pattern 'PSOT /x' matches none"),
        ({"resources": "getOrders"}, "the pattern 'getOrders' matches none"),
        (
            {"resources": "dropOrders"},
            "the pattern 'dropOrders' matches none of 2 operations.*only operations with GET",
        ),
        ({"exclude": "tag:order"}, "the pattern 'tag:order' matches none.*did you mean 'orders'"),
        ({"parameters": {"tenat": "x"}}, "parameters names 'tenat'.*did you mean 'tenant'"),
        ({"parameters": {"X-Api-Versoin": "x"}}, "parameters names 'X-Api-Versoin'.*did you mean 'X-Api-Version'"),
        ({"parameters": {"Tenant": "x"}}, "parameters names 'Tenant'"),
    ],
)
async def test_an_option_that_names_nothing_is_refused(options: dict[str, Any], said: str) -> None:
    """It would have no effect: the model would be asked for a tenant that was given, or see what was to be left out."""
    with pytest.raises(NothingMatches, match=said):
        shop(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"inclde": "*"}, r"inclde.*did you mean.*include"),
        ({"include": "*", "renames": {}}, r"renames.*did you mean.*rename"),
        ({}, r"exposes nothing by itself"),
        ({"exclude": "*"}, r"exposes nothing by itself"),
    ],
)
def test_an_option_that_does_not_exist_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        settings_of("expose()", options)


def test_two_operations_of_one_name_are_refused() -> None:
    """``rename`` gave the second the name of the first."""
    with pytest.raises(RegistrationError):
        shop(rename={"findOrders": "listOrders"})


# -- what is read again ------------------------------------------------------------------------------------------------


def exposed(*operations: Operation, **options: Any) -> tuple[MCPServer[Any], Exposure]:
    server: MCPServer[Any] = MCPServer("x")
    exposure = Exposure(server, AnsweringCaller(), settings_of("expose()", {"include": "*", **options}))
    exposure.update(operations)
    return server, exposure


ONE, TWO = (Operation(name=name, method="GET", path=f"/{name}", description=name) for name in ("one", "two"))


async def test_a_second_reading_changes_what_has_changed_only() -> None:
    server, exposure = exposed(ONE, TWO)
    before = await listed(server)
    changed = Operation(name="two", method="GET", path="/two", description="other")
    exposure.update([changed, ONE, Operation(name="three", method="GET", path="/three")], strict=False)
    after = await listed(server)
    assert list(after) == ["one", "two", "three"]
    assert after["one"].description == before["one"].description
    assert after["two"].description == "other"
    assert set(exposure.operations) == {"one", "two", "three"}


async def test_a_second_reading_forgives_what_is_gone() -> None:
    """The server runs; a pattern that matches nothing any more stops only a start."""
    server, exposure = exposed(ONE, TWO, include=["one", "two"], rename={"two": "second"}, parameters={})
    exposure.update([ONE], strict=False)
    assert list(await listed(server)) == ["one"]
    with pytest.raises(NothingMatches):
        exposure.update([ONE])


async def test_a_name_that_is_taken_leaves_its_operation_out_later(caplog: pytest.LogCaptureFixture) -> None:
    server, exposure = exposed(ONE)

    @server.tool
    def two() -> str:
        return "the author's own"

    exposure.update([ONE, TWO], strict=False)
    assert [skipped.path for skipped in exposure.skipped] == ["/two"]
    assert "GET /two is not exposed" in caplog.text
    async with Client(server) as client:
        assert (await client.call_tool("two", {})).text == "the author's own"


async def test_a_resource_is_read_by_its_uri() -> None:
    """What is the same in every call does not stand in it."""
    seen: list[ApiRequest] = []

    def note(request: ApiRequest) -> Any:
        seen.append(request)
        return answer({"a": 1})

    server = shop(AnsweringCaller(note), include=["getOrder", "listOrders"], resources="GET", parameters=CONSTANTS)
    async with Client(server) as client:
        assert await client.list_tools() == []
        templates = {template.uri_template for template in await client.list_resource_templates()}
        assert templates == {"api://test/tenant/orders/{id}", "api://test/tenant/orders{?q}"}
        await client.read_resource("api://test/tenant/orders/7")
    assert seen[0].path == "/acme%2Feu/orders/7"


# -- what the description lacks ----------------------------------------------------------------------------------------


async def added(given: dict[str, Any], arguments: dict[str, Any], raw: Any = None) -> ApiRequest:
    """Return the request of an operation with added parameters."""
    described = document({"/x": {"post": {"operationId": "it", **(raw or {})}}})
    caller = AnsweringCaller()
    server = from_openapi(described, base_url=BASE_URL, caller=caller, include="*", add_parameters={"it": given})
    result = await call(server, **arguments)
    assert not result.is_error, result.text
    return caller.requests[0]


async def test_a_parameter_may_be_added_in_each_place() -> None:
    integer = {"type": "integer"}
    given = {
        "page": integer,
        "tags": {"in": "query", "schema": {"type": "array"}},
        "X-Flag": {"in": "header", "schema": {"type": "boolean"}},
        "crumb": {"in": "cookie", "schema": {"type": "string"}},
        "title": {"in": "body", "required": True, "schema": {"type": "string"}},
    }
    request = await added(given, {"page": 2, "tags": ["a", "b"], "X-Flag": True, "crumb": "c", "title": "t"})
    assert (request.query, request.body) == ("page=2&tags=a&tags=b", b'{"title":"t"}')
    assert {("x-flag", "true"), ("cookie", "crumb=c"), ("content-type", "application/json")} <= set(request.headers)


async def test_a_field_may_be_added_to_a_body_that_has_some() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    raw = {"requestBody": {"content": {"application/json": {"schema": schema}}}}
    assert (await added({"b": {"in": "body", "schema": {}}}, {"a": 1, "b": 2}, raw)).body == b'{"a":1,"b":2}'
    assert (await added({"b": {"in": "form", "schema": {}}}, {"b": "x y"})).body == b"b=x%20y"


@pytest.mark.parametrize("place", ["path", "querystring", "bdy", ""])
async def test_a_place_that_does_not_exist_leaves_its_operation_out(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    described = document({"/x": {"get": {"operationId": "it"}}, "/y": {"get": {"operationId": "other"}}})
    given = {"it": {"a": {"in": place, "schema": {}}}}
    server = from_openapi(described, base_url=BASE_URL, include="*", add_parameters=given)
    assert list(await listed(server)) == ["other"]
    assert f"cannot stand in {place!r}" in caplog.text


def test_two_exposures_of_one_server_are_both_read_before_a_list() -> None:
    """The second application must not replace the first; the same one is asked once."""
    app: MCPServer[Any] = MCPServer("x")
    asked: list[str] = []
    settings = settings_of("expose()", {"include": "*"})

    def first() -> None:
        asked.append("first")

    for refresh in (first, lambda: asked.append("second"), first):
        refresh_before_reads(app, settings, refresh)
    app.list_tools()
    assert asked == ["first", "second"]
