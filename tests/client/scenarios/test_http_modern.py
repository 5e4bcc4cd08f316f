"""Modern HTTP: mirrored headers, cancelling by closing, rounds of questions, recovery, caching."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ferrule import Client, MCPError
from ferrule.client.calls.subscriptions import ChangeEvent
from ferrule.client.connection.connector import forget_eras
from ferrule.client.errors import InputNotProvided, InputRequiredError, InvalidToolOutput, TooManyRounds
from ferrule.protocol.errors import ConnectionClosed, RequestTimeout
from ferrule.wire.types import ElicitResult
from tests.peers.scripted_http import CACHED, COMPLETE, DISCOVERED, META, Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

TEXT = {"content": [{"type": "text", "text": "done"}], **COMPLETE}
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


@pytest.fixture(autouse=True)
def fresh_eras() -> None:
    forget_eras()


def modern(handler: Any) -> Any:
    """A handler that answers the probe by itself."""

    async def handle(exchange: Exchange) -> None:
        if exchange.rpc_method == "server/discover":
            await exchange.result(DISCOVERED)
        elif exchange.method != "POST":
            await exchange.respond(405)
        else:
            await handler(exchange)

    return handle


async def test_every_request_mirrors_itself_in_headers() -> None:
    """Method, name, version and annotated arguments; what ASCII cannot carry is wrapped; null is left out."""

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "tools/list":
            await exchange.result({"tools": [{"name": "wé", "inputSchema": REGION}], **CACHED})
        else:
            await exchange.result({**TEXT, "contents": [], **CACHED})

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        await client.list_tools()
        await client.call_tool("wé", {"region": " eu "})
        await client.call_tool("wé", {"region": None})
        await client.read_resource("file:///a%20b")
        seen = [x.headers for x in server.seen]
    assert [x.get("mcp-method") for x in seen] == [
        "server/discover",
        "tools/list",
        "tools/call",
        "tools/call",
        "resources/read",
    ]
    assert {x.get("mcp-protocol-version") for x in seen} == {"2026-07-28"}
    assert seen[2]["mcp-name"] == "=?base64?d8Op?="
    assert seen[2]["mcp-param-region"] == "=?base64?IGV1IA==?="
    assert "mcp-param-region" not in seen[3]
    assert seen[4]["mcp-name"] == "file:///a%20b"
    assert not any("mcp-session-id" in x for x in seen)


async def test_tool_with_bad_annotation_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """One bad tool neither fails the list nor can be called by accident."""
    bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}

    async def handler(exchange: Exchange) -> None:
        tools = [{"name": "good", "inputSchema": REGION}, {"name": "bad", "inputSchema": bad}]
        await exchange.result({"tools": tools, **CACHED})

    with caplog.at_level(logging.WARNING):
        async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
            assert [tool.name for tool in await client.list_tools()] == ["good"]
    assert "'bad'" in caplog.text


async def test_header_mismatch_lists_tools_again_and_retries_once() -> None:
    """The schema changed behind our back: -32020, a fresh list, one retry with new headers and a new id."""
    calls: list[Exchange] = []

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "tools/list":
            await exchange.result({"tools": [{"name": "t", "inputSchema": REGION}], **CACHED})
        else:
            calls.append(exchange)
            if "mcp-param-region" in exchange.headers:
                await exchange.result(TEXT)
            else:
                await exchange.error(-32020, status=400)

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        assert (await client.call_tool("t", {"region": "eu"})).text == "done"
    assert len(calls) == 2
    assert calls[0].id != calls[1].id


async def test_giving_up_closes_the_response() -> None:
    """In this era closing the stream is the cancellation; no notification is sent."""
    gone: list[str] = []

    async def handler(exchange: Exchange) -> None:
        name = exchange.message["params"]["name"]
        if name == "t":
            await exchange.result(TEXT)
            return
        if name == "streaming":
            await exchange.stream()
        await exchange.gone.wait()
        gone.append(name)

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        for name in ("silent", "streaming"):
            with pytest.raises(RequestTimeout):
                await client.call_tool(name, timeout_s=0.05)
            task = asyncio.create_task(client.call_tool(name))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await client.call_tool("t")).text == "done"
        while len(gone) < 4:
            await asyncio.sleep(0.01)
        assert server.count("POST", "notifications/cancelled") == 0


async def test_broken_stream_is_an_error_and_the_next_call_works() -> None:
    """The request is lost; the caller decides whether to send it again."""

    async def handler(exchange: Exchange) -> None:
        if exchange.message["params"]["name"] == "t":
            await exchange.result(TEXT)
            return
        await exchange.stream()
        if exchange.message["params"]["name"] == "drop":
            exchange.drop()
        else:
            await exchange.end()

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        for name in ("drop", "end"):
            with pytest.raises(ConnectionClosed):
                await client.call_tool(name)
            assert (await client.call_tool("t")).text == "done"


async def test_refused_version_is_switched_and_retried_once() -> None:
    """The error -32022 for an ordinary request names the server's versions."""
    refusals = 1

    async def handler(exchange: Exchange) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            await exchange.error(-32022, {"supported": ["2026-07-28"], "requested": "2026-07-28"}, 400)
        else:
            await exchange.result({"tools": [], **CACHED})

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        assert await client.list_tools() == []
        refusals = 2
        with pytest.raises(MCPError):
            await client.list_tools()


@pytest.mark.parametrize("status", [200, 400, 404, 405, 500])
async def test_any_refusal_of_the_probe_means_legacy(status: int) -> None:
    """The era does not hinge on one code or one status."""

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "server/discover":
            if status == 200:
                await exchange.error(-32603)
            else:
                await exchange.respond(status, b"what?")
        elif exchange.method == "GET":
            await exchange.respond(405)
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    async with ScriptedServer(handler) as server:
        for _ in range(2):
            async with Client(server.url) as client:
                assert client.protocol_version == "2025-11-25"
        assert server.count("POST", "server/discover") == 1  # the second client remembered


async def test_remembered_era_is_probed_again_when_it_fails() -> None:
    """The server was upgraded: the handshake fails, and the probe finds the new era."""
    is_modern = False

    async def handler(exchange: Exchange) -> None:
        if is_modern and exchange.rpc_method == "server/discover":
            await exchange.result(DISCOVERED)
        elif is_modern and exchange.method == "POST":
            await exchange.error(-32601, status=404)
        elif exchange.method == "GET":
            await exchange.respond(405)
        else:
            await legacy_basics(exchange)

    async with ScriptedServer(handler) as server:
        async with Client(server.url) as client:
            assert not client.is_modern
        is_modern = True
        async with Client(server.url) as client:
            assert client.is_modern


async def test_prior_discover_saves_the_round_trip() -> None:
    """What one client found out, another may be given."""

    async def handler(exchange: Exchange) -> None:
        await exchange.result({"tools": [], **CACHED})

    async with ScriptedServer(modern(handler)) as server:
        async with Client(server.url, prior_discover=DISCOVERED) as client:
            await client.list_tools()
        assert server.count("POST", "server/discover") == 0


def asking(*rounds: dict[str, Any]) -> Any:
    """A handler that requests these rounds of input for a tools/call, then returns the answers."""
    got: list[dict[str, Any]] = []

    async def handler(exchange: Exchange) -> None:
        params = exchange.message["params"]
        got.append(
            {key: params[key] for key in ("inputResponses", "requestState") if key in params} | {"id": exchange.id}
        )
        if len(got) <= len(rounds):
            await exchange.result({"resultType": "input_required", "_meta": META, **rounds[len(got) - 1]})
        else:
            await exchange.result(TEXT)

    handler.got = got  # type: ignore[attr-defined]
    return handler


ELICIT = {
    "method": "elicitation/create",
    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9},
}


async def test_rounds_echo_state_exactly_or_not_at_all() -> None:
    """New id each time; a round without state drops the old one; answers are bare and not repeated."""
    handler = asking(
        {"inputRequests": {"k": ELICIT}, "requestState": "s=1;\u00e9"},
        {"inputRequests": {"m": SAMPLE, "r": {"method": "roots/list"}}},
        {"requestState": "only"},
    )
    async with (
        ScriptedServer(modern(handler)) as server,
        Client(
            server.url,
            elicitation_handler=lambda params: {"a": "x"},
            sampling_handler=lambda params: "hello",
            roots=["file:///r"],
        ) as client,
    ):
        assert (await client.call_tool("t")).text == "done"
    first, second, third, fourth = handler.got
    assert len({x["id"] for x in handler.got}) == 4
    assert set(first) == {"id"}
    assert second["requestState"] == "s=1;\u00e9"
    assert second["inputResponses"] == {"k": {"action": "accept", "content": {"a": "x"}}}
    assert "requestState" not in third
    assert set(third["inputResponses"]) == {"m", "r"}
    assert third["inputResponses"]["m"]["content"] == {"type": "text", "text": "hello"}
    assert fourth["requestState"] == "only"
    assert "inputResponses" not in fourth


async def test_questions_of_a_round_are_answered_at_once() -> None:
    """Two questions that wait for each other can only be answered together."""
    meet = asyncio.Barrier(2)

    async def elicit(params: Any) -> ElicitResult:
        await meet.wait()
        return ElicitResult("accept", content={"a": "x"})

    handler = asking({"inputRequests": {"a": ELICIT, "b": ELICIT}})
    async with ScriptedServer(modern(handler)) as server, Client(server.url, elicitation_handler=elicit) as client:
        assert (await asyncio.wait_for(client.call_tool("t"), 30)).text == "done"


async def test_endless_rounds_are_bounded() -> None:
    """A server may ask for ever; a client may not answer for ever."""
    handler = asking(*[{"inputRequests": {"k": ELICIT}}] * 50)
    async with (
        ScriptedServer(modern(handler)) as server,
        Client(server.url, elicitation_handler=lambda params: {"a": "x"}, max_rounds=3) as client,
    ):
        with pytest.raises(TooManyRounds):
            await client.call_tool("t")
        assert len(handler.got) == 4


async def test_unanswerable_question_ends_the_call_with_its_reason() -> None:
    """The protocol has no message for it to the server, so the caller gets the error."""

    def broken(params: Any) -> Any:
        raise RuntimeError("no user here")

    handler = asking(*[{"inputRequests": {"k": ELICIT, "s": SAMPLE}}] * 3)
    async with ScriptedServer(modern(handler)) as server:
        async with Client(server.url, elicitation_handler=broken) as client:
            with pytest.raises(InputNotProvided, match=r"no user here|no handler"):
                await client.call_tool("t")
        async with Client(server.url, max_rounds=0) as client:
            with pytest.raises(InputRequiredError) as caught:
                await client.call_tool("t")
            assert set(caught.value.result["inputRequests"]) == {"k", "s"}


async def test_fresh_results_are_kept_and_cannot_be_spoilt() -> None:
    """``ttlMs`` by an injected clock; every caller gets values of its own; 0 means do not keep."""
    now = 1000.0
    ttl = 5000

    async def handler(exchange: Exchange) -> None:
        tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        await exchange.result({"tools": tools, **COMPLETE, "ttlMs": ttl, "cacheScope": "private"})

    async with ScriptedServer(modern(handler)) as server, Client(server.url, clock=lambda: now) as client:
        (await client.list_tools())[0].input_schema["spoilt"] = True
        assert "spoilt" not in (await client.list_tools())[0].input_schema
        assert server.count("POST", "tools/list") == 1
        now += 6
        ttl = 0
        await client.list_tools()
        await client.list_tools()
        assert server.count("POST", "tools/list") == 3


async def test_shared_store_keeps_private_results_apart() -> None:
    """A private result belongs to one credential; a public one to all users of the store."""
    from ferrule.client.calls.cache import MemoryCacheStore

    scope = "private"

    async def handler(exchange: Exchange) -> None:
        await exchange.result({"tools": [], **COMPLETE, "ttlMs": 60000, "cacheScope": scope})

    async with ScriptedServer(modern(handler)) as server:
        for current, expected in (("private", 2), ("public", 1)):
            scope = current
            store, before = MemoryCacheStore(), server.count("POST", "tools/list")
            for token in ("a", "b", "a"):
                async with Client(server.url, auth=token, cache=store) as client:
                    await client.list_tools()
            assert server.count("POST", "tools/list") - before == expected


async def test_pages_follow_an_empty_cursor_and_stop_at_a_repeated_one(caplog: pytest.LogCaptureFixture) -> None:
    """``""`` is a cursor; a repeated cursor ends the list with a warning, so that the tools stay usable."""

    async def handler(exchange: Exchange) -> None:
        cursor = exchange.message["params"].get("cursor")
        following = {None: "", "": "b", "b": None}[cursor] if exchange.rpc_method == "prompts/list" else "again"
        page = {"prompts": [{"name": str(cursor)}], "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        await exchange.result({**page, **CACHED, **({} if following is None else {"nextCursor": following})})

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        assert [prompt.name for prompt in await client.list_prompts()] == ["None", "", "b"]
        assert [tool.name for tool in await client.list_tools()] == ["t"]
        assert "gives the cursor 'again' a second time" in caplog.text


async def test_one_malformed_member_of_a_list_does_not_cost_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """It is left out and named once; what is malformed beyond the members is still the answer's fault."""
    schema = {"type": "object"}

    async def handler(exchange: Exchange) -> None:
        pages: dict[str, Any] = {
            "tools/list": {"tools": [{"name": "good", "inputSchema": schema}, {"name": "bad", "inputSchema": 5}, 7]},
            "prompts/list": {"prompts": [{"title": "nameless"}, {"name": "p"}]},
            "resources/list": {"resources": [{"uri": "a://b"}, {"uri": "a://c", "name": "r"}]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{b}", "name": 3}]},
        }
        await exchange.result({**pages[exchange.rpc_method], **CACHED})

    async with ScriptedServer(modern(handler)) as server, Client(server.url, cache=False) as client:
        for _ in range(2):
            assert [tool.name for tool in await client.list_tools()] == ["good"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["p"]
        assert [resource.name for resource in await client.list_resources()] == ["r"]
        assert await client.list_resource_templates() == []
        assert caplog.text.count("'bad' is left out of tools/list") == 1


async def test_output_is_validated_against_the_listed_schema() -> None:
    """Fault of the server, named with its path; switchable; error results are exempt."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def handler(exchange: Exchange) -> None:
        if exchange.rpc_method == "tools/list":
            tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
            await exchange.result({"tools": [tool], **CACHED})
        else:
            arguments = exchange.message["params"]["arguments"]
            await exchange.result({**TEXT, **arguments})

    async with ScriptedServer(modern(handler)) as server:
        async with Client(server.url) as client:
            await client.list_tools()
            assert (await client.call_tool("t", {"structuredContent": {"n": 3}})).data.n == 3
            with pytest.raises(InvalidToolOutput, match=r"\$\.n"):
                await client.call_tool("t", {"structuredContent": {"n": "x"}})
            with pytest.raises(InvalidToolOutput, match="missing"):
                await client.call_tool("t", {})
            assert (await client.call_tool("t", {"isError": True})).is_error
        async with Client(server.url, validate_output=False) as client:
            await client.list_tools()
            await client.call_tool("t", {"structuredContent": {"n": "x"}})


async def test_subscription_listens_again_and_says_that_something_may_be_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two streams in a row; the change removes cached results; a gap event comes between them."""
    monkeypatch.setattr("ferrule.client.calls.subscriptions.retry_delay_s", lambda attempt, hint_ms: 0.0)
    listens = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal listens
        if exchange.rpc_method == "tools/list":
            await exchange.result({"tools": [], **COMPLETE, "ttlMs": 60000, "cacheScope": "private"})
            return
        listens += 1
        meta = {"io.modelcontextprotocol/subscriptionId": exchange.id}
        await exchange.stream()
        granted = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        await exchange.event(
            {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted}
        )
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}
        await exchange.raw(b": keep-alive\n\n")
        await change.wait()
        change.clear()
        await exchange.event(note)
        if listens == 1:
            exchange.drop()
        else:
            await exchange.gone.wait()

    change = asyncio.Event()
    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        await client.list_tools()
        async with client.listen(tools=True) as changes:
            assert changes.granted == {"toolsListChanged": True}
            change.set()
            assert (await asyncio.wait_for(anext(changes), 30)).kind == "tools"
            await client.list_tools()
            assert server.count("POST", "tools/list") == 2
            assert await asyncio.wait_for(anext(changes), 30) == ChangeEvent("gap")
            change.set()
            assert (await asyncio.wait_for(anext(changes), 30)).kind == "tools"
        assert listens == 2


async def test_refused_subscription_raises() -> None:
    """A server without subscriptions refuses it; the request is not repeated."""

    async def handler(exchange: Exchange) -> None:
        await exchange.error(-32601, status=404)

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        with pytest.raises(MCPError, match="-32601"):
            async for _ in client.listen(tools=True):
                pass
        assert server.count("POST", "subscriptions/listen") == 1


async def test_redirect_within_the_origin_is_followed_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """The slash may be added; the credential never goes elsewhere."""
    from ferrule.transports.http.client import HttpStatusError

    async def handler(exchange: Exchange) -> None:
        if exchange.path == "/mcp":
            await exchange.respond(307, headers={"location": where})
        else:
            assert exchange.headers["authorization"] == "Bearer secret"
            await exchange.result(DISCOVERED)

    async with ScriptedServer(handler) as server:
        where = "/mcp/"
        async with Client(server.url, auth="secret") as client:
            assert client.is_modern
        where = "http://elsewhere.example/mcp"
        with pytest.raises(HttpStatusError, match="elsewhere"):
            await Client(server.url, auth="secret").connect()


async def test_log_level_travels_with_each_request() -> None:
    """`set_log_level` means the same in both eras: which messages come."""

    async def handler(exchange: Exchange) -> None:
        await exchange.result(TEXT)

    key = "io.modelcontextprotocol/logLevel"
    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        await client.call_tool("t")
        await client.set_log_level("warning")
        await client.call_tool("t")
        await client.set_log_level(None)
        await client.call_tool("t")
    levels = [x.message["params"]["_meta"].get(key) for x in server.seen if x.rpc_method == "tools/call"]
    assert levels == [None, "warning", None]


async def test_thousand_calls_at_once_through_one_client() -> None:
    """Concurrency is bounded by nothing but the server."""

    async def handler(exchange: Exchange) -> None:
        await exchange.result(TEXT)

    async with ScriptedServer(modern(handler)) as server, Client(server.url) as client:
        results = await asyncio.gather(*(client.call_tool("t") for _ in range(1000)))
        assert len(results) == 1000
