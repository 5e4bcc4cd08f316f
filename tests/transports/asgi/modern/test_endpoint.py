"""ferrule.transports.asgi.modern: the modern era over HTTP."""

from __future__ import annotations

import json
import logging
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from ferrule.kernel import standard_methods
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import Server
from ferrule.protocol.errors import MCPError, MissingRequiredClientCapability
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.transports.asgi import HttpEndpoint, HttpOptions
from ferrule.wire.headers import compile_param_plan
from ferrule.wire.jsonrpc import encode_notification
from tests.transports.asgi.support import (
    LEGACY,
    MODERN,
    VERSION_KEY,
    Call,
    Steered,
    modern,
    modern_call,
    modern_headers,
    running,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"


def tool(name: str, id: Any = 1, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    return modern(id, "tools/call", {"name": name, "arguments": arguments}, **(meta or {}))


async def test_a_silent_handler_is_answered_with_json_in_two_sends() -> None:
    """JSON, unless the handler sends a message before its result."""
    answer = await modern_call(Steered().endpoint(), tool("echo", text="hi")).run()
    assert (answer.status, answer.headers["content-type"], answer.sends) == (200, "application/json", 2)
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.json["result"]["content"] == [{"type": "text", "text": "hi"}]
    assert answer.json["id"] == 1


async def test_the_first_word_commits_an_event_stream_and_the_result_is_its_last_event() -> None:
    """Messages reach the client before the handler ends; there are no event ids and no priming event."""
    steered = Steered()
    call = modern_call(steered.endpoint(), tool("speak"))
    async with running(call):
        await steered.started.wait()
        assert [m["params"]["data"] for m in await call.message_count(1)] == ["one"]
        assert not call.answer.complete
        steered.release.set()
        answer = await call.until(lambda a: a.complete)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "no-store" in answer.headers["cache-control"]
    assert [m.get("method", "result") for m in answer.messages] == [
        "notifications/message",
        "notifications/message",
        "result",
    ]
    assert all(event.id is None and event.retry_ms is None for event in answer.events)
    assert b"id:" not in answer.body


async def test_progress_comes_on_the_request_s_own_stream_if_it_was_asked_for() -> None:
    """Opt-in by token, strictly rising."""
    answer = await modern_call(Steered().endpoint(), tool("progress", meta={"progressToken": "t"})).run()
    assert [m["params"]["progress"] for m in answer.messages[:-1]] == [0, 50, 100]
    assert {m["params"]["progressToken"] for m in answer.messages[:-1]} == {"t"}
    assert (await modern_call(Steered().endpoint(), tool("progress")).run()).headers[
        "content-type"
    ] == "application/json"


# --- a client that goes away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slow", "speak"])
async def test_a_vanished_client_cancels_its_request(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Disconnect is cancellation, with a stream open or not; ``finally`` runs, and nothing is sent after."""
    steered = Steered()
    call = modern_call(steered.endpoint(), tool(name))
    with caplog.at_level(logging.INFO, "ferrule.http"):
        async with running(call):
            await steered.started.wait()
            sends = call.answer.sends
            call.disconnect()
        assert steered.log[-1] == "finally"
        assert call.answer.sends == sends
    assert len([r for r in caplog.records if r.name == "ferrule.http"]) == 1
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_a_handler_that_ignores_its_cancellation_is_waited_for_and_not_answered() -> None:
    """Its response is dropped, and the endpoint serves further requests."""
    steered = Steered()
    app = steered.endpoint()
    call = modern_call(app, tool("stubborn"))
    async with running(call):
        await steered.started.wait()
        call.disconnect()
        assert (await modern_call(app, tool("echo", text="x")).run()).status == 200
        with anyio.fail_after(30):
            while not any(exchange.cancel_requested for exchange in app.modern.waiting):
                await anyio.sleep(0.001)
        steered.release.set()
    assert steered.log[-1] == "ended"
    assert call.answer.sends == 0


async def test_the_task_of_a_cancelled_request_is_clean_afterwards(anyio_backend: str) -> None:
    """The server continues to use the task, so no cancellation may remain in it."""
    if anyio_backend != "asyncio":
        pytest.skip("trio cancels by scopes")
    import asyncio

    steered = Steered()
    call = modern_call(steered.endpoint(), tool("slow"))
    state: list[int] = []

    async def serve() -> None:
        await call.run()
        task = asyncio.current_task()
        assert task is not None
        state.append(task.cancelling())
        await asyncio.sleep(0)
        state.append(task.cancelling())

    task = asyncio.ensure_future(serve())
    await steered.started.wait()
    call.disconnect()
    await asyncio.wait_for(task, 30)
    assert state == [0, 0]


async def test_a_cancellation_from_outside_goes_through(anyio_backend: str) -> None:
    """A server that shuts down cancels the request's task; that is not ours to swallow."""
    steered = Steered()
    call = modern_call(steered.endpoint(), tool("slow"))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(call.run)
            await steered.started.wait()
            scope.cancel()
    assert steered.log == ["cancelled", "finally"]


async def test_nothing_is_watched_within_the_grace() -> None:
    """A request that is quick pays for no watcher: ``receive`` is asked for the body only."""
    steered = Steered()
    app = steered.endpoint(disconnect_grace_s=3600.0)
    call = modern_call(app, tool("slow"))
    receives = 0
    original = call.receive

    async def receive() -> Any:
        nonlocal receives
        receives += 1
        return await original()

    call.receive = receive  # type: ignore[method-assign]
    async with running(call):
        await steered.started.wait()
        await anyio.lowlevel.checkpoint()
        steered.release.set()
        await call.until(lambda a: a.complete)
    assert receives == 1


# --- errors and statuses --------------------------------------------------------------------------------------------


async def test_an_unknown_method_is_404_with_its_code() -> None:
    """So that a client can tell it from a legacy 404."""
    for method in ("nothing/such", "initialize2", "ping", "logging/setLevel", "resources/subscribe"):
        answer = await modern_call(Steered().endpoint(), modern(7, method)).run()
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (404, -32601, 7)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (MCPError("no", code=-32602), 400, -32602),
        (MissingRequiredClientCapability({"sampling": {}}), 400, -32021),
        (MCPError("mine", code=4711), 200, 4711),
        (ValueError("a secret"), 200, -32603),
    ],
)
async def test_a_handler_s_error_gets_the_status_of_its_code(error: Exception, status: int, code: int) -> None:
    """One table for the ladder and for handlers; what is not in it stays 200."""
    server: Server[Any] = Server("x")

    async def fail(ctx: Any) -> Any:
        raise error

    server.add_request_handler("tools/call", fail)
    answer = await modern_call(HttpEndpoint(server), tool("x")).run()
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert b"secret" not in answer.body


async def test_an_error_after_the_first_word_is_the_last_event() -> None:
    """The status is out; the code still arrives."""
    server: Server[Any] = Server("x")

    async def fail(ctx: Any) -> Any:
        await ctx.session.dispatch.notify("notifications/message", {"level": "info", "data": 1})
        raise MCPError("no", code=-32602)

    server.add_request_handler("tools/call", fail)
    answer = await modern_call(HttpEndpoint(server), tool("x")).run()
    assert (answer.status, answer.messages[-1]["error"]["code"], answer.complete) == (200, -32602, True)


async def test_a_result_that_cannot_be_written_is_an_internal_error() -> None:
    """The log has the details; the client does not get them."""
    server: Server[Any] = Server("x")

    async def bad(ctx: Any) -> Any:
        return {"content": [], "structuredContent": object()}

    server.add_request_handler("tools/call", bad, trusted=True)
    answer = await modern_call(HttpEndpoint(server), tool("x")).run()
    assert answer.json["error"] == {"code": -32603, "message": "Internal error"}


async def test_what_is_said_after_the_answer_goes_nowhere() -> None:
    """A background task that kept the context must not write into a finished response."""
    kept: list[Any] = []
    server: Server[Any] = Server("x")

    async def keep(ctx: Any) -> Any:
        kept.append(ctx.session.dispatch)
        return {"content": []}

    server.add_request_handler("tools/call", keep)
    call = modern_call(HttpEndpoint(server), tool("x"))
    await call.run()
    await kept[0].notify("notifications/message", {"level": "info", "data": 1})
    assert call.answer.sends == 2


async def test_clean_up_that_a_handler_registered_runs_before_the_answer() -> None:
    """A modern connection ends with its request."""
    order: list[str] = []
    server: Server[Any] = Server("x")

    async def register(ctx: Any) -> Any:
        ctx.session.connection.exit_stack.callback(lambda: order.append("cleaned up"))
        return {"content": []}

    server.add_request_handler("tools/call", register)
    assert (await modern_call(HttpEndpoint(server), tool("x")).run()).status == 200
    assert order == ["cleaned up"]


# --- headers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"mcp_method": None},
        {"mcp_method": "TOOLS/CALL"},
        {"mcp_method": "tools/list"},
        {"mcp_name": None},
        {"mcp_name": "Echo"},
        {"mcp_name": "=?base64?!!!?="},
        {"mcp_protocol_version": "2025-11-25"},
    ],
)
async def test_a_mirrored_header_that_contradicts_the_body_is_refused(changes: dict[str, str | None]) -> None:
    """400 with -32020."""
    answer = await modern_call(Steered().endpoint(), tool("echo"), **changes).run()
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, -32020, 1)


async def test_values_are_trimmed_and_unwrapped_before_they_are_compared() -> None:
    """Spaces around a value do not count; the base64 form means its contents."""
    app = Steered().endpoint()
    for name in ("  echo ", "=?base64?ZWNobw==?="):
        assert (await modern_call(app, tool("echo"), mcp_name=name, mcp_method=" tools/call\t").run()).status == 200


async def test_annotated_arguments_are_compared_with_their_headers() -> None:
    """The plan of the tool is compiled once; the body is the source of truth."""
    steered = Steered()
    schema = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Region"}}}
    steered.server.attachments.made(MirroredHeaders).params["echo"] = compile_param_plan(schema)
    app = steered.endpoint()
    good = [{"mcp_param_region": "hi"}, {"mcp_param_region": " hi "}, {"mcp_param_region": "=?base64?aGk=?="}]
    bad = [{}, {"mcp_param_region": "HI"}, {"mcp_param_region": "=?base64?aGk?="}, {"mcp_param_region": ""}]
    for changes in good:
        assert (await modern_call(app, tool("echo", text="hi"), **changes).run()).status == 200
    for changes in bad:
        answer = await modern_call(app, tool("echo", text="hi"), **changes).run()
        assert (answer.status, answer.json["error"]["code"]) == (400, -32020)
    assert (await modern_call(app, tool("echo")).run()).status == 200
    assert (await modern_call(app, tool("progress")).run()).status == 200


# --- notifications --------------------------------------------------------------------------------------------------


def notification(method: str, version: str | None = MODERN) -> dict[str, Any]:
    meta = {} if version is None else {VERSION_KEY: version}
    return {"jsonrpc": "2.0", "method": method, "params": {"_meta": meta}}


async def test_a_notification_is_accepted_with_202_and_no_body() -> None:
    """And reaches a handler that wants it."""
    taken: list[str] = []
    steered = Steered()

    async def take(ctx: Any) -> None:
        taken.append(ctx.method)

    steered.server.add_notification_handler("acme/happened", take)
    app = steered.endpoint()
    for message in (notification("acme/happened"), notification("acme/happened", None), notification("acme/unknown")):
        answer = await Call(app, headers=modern_headers(message), body=json.dumps(message).encode()).run()
        assert (answer.status, answer.body) == (202, b"")
    assert taken == ["acme/happened", "acme/happened"]


@pytest.mark.parametrize(
    ("version", "changes", "code"),
    [
        (MODERN, {"mcp_protocol_version": LEGACY}, -32020),
        (MODERN, {"mcp_method": "other"}, -32020),
        ("2099-01-01", {"mcp_protocol_version": "2099-01-01"}, -32022),
    ],
)
async def test_a_notification_that_contradicts_itself_is_refused(
    version: str, changes: dict[str, str], code: int
) -> None:
    """400, so that its sender finds out."""
    message = notification("acme/happened", version)
    call = Call(Steered().endpoint(), headers=modern_headers(message, **changes), body=json.dumps(message).encode())
    answer = await call.run()
    assert (answer.status, answer.json["error"]["code"]) == (400, code)


async def test_a_client_sends_no_responses_in_the_modern_era() -> None:
    """Servers ask by input requests, so a client has no request to respond to."""
    message = {"jsonrpc": "2.0", "id": 1, "result": {}}
    headers = {**modern_headers(tool("echo"))}
    answer = await Call(Steered().endpoint(), headers=headers, body=json.dumps(message).encode()).run()
    assert (answer.status, answer.json["error"]["code"]) == (400, -32600)


# --- subscriptions/listen -------------------------------------------------------------------------------------------


def listen(id: Any = "sub", **wanted: Any) -> dict[str, Any]:
    return modern(id, "subscriptions/listen", {"notifications": wanted or {"toolsListChanged": True}})


def listening(**options: Any) -> tuple[Steered, HttpEndpoint]:
    steered = Steered(list_changed=["tools", "prompts"], resource_updates=True)
    return steered, steered.endpoint(**options)


async def test_a_subscription_begins_with_its_acknowledgement_and_carries_its_id() -> None:
    """The granted subset first, the subscription id in every message."""
    steered, app = listening()
    call = modern_call(app, listen(toolsListChanged=True, resourcesListChanged=True, resourceSubscriptions=["a://b"]))
    async with running(call):
        first = (await call.message_count(1))[0]
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}
        steered.server.bus.publish(Event.list_changed("prompts"))
        steered.server.bus.publish(Event.list_changed("tools"))
        steered.server.bus.publish(Event.resource_updated("a://other"))
        steered.server.bus.publish(Event.resource_updated("a://b"))
        messages = await call.message_count(3)
    assert [m["method"] for m in messages[1:]] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    assert messages[2]["params"]["uri"] == "a://b"
    assert {m["params"]["_meta"][SUBSCRIPTION_KEY] for m in messages} == {"sub"}


async def test_several_subscriptions_are_distinguished() -> None:
    """Each by the id of its own request, number or text as the client wrote it."""
    steered, app = listening()
    one, two = modern_call(app, listen(1)), modern_call(app, listen("1"))
    async with running(one), running(two):
        await one.message_count(1)
        await two.message_count(1)
        steered.server.bus.publish(Event.list_changed("tools"))
        assert (await one.message_count(2))[1]["params"]["_meta"][SUBSCRIPTION_KEY] == 1
        assert (await two.message_count(2))[1]["params"]["_meta"][SUBSCRIPTION_KEY] == "1"


async def test_a_client_ends_its_subscription_by_closing_the_stream() -> None:
    """Nothing stays behind."""
    steered, app = listening()
    call = modern_call(app, listen())
    async with running(call):
        await call.message_count(1)
        assert len(steered.server.bus) == 1
    assert len(steered.server.bus) == 0
    assert len(app.modern.waiting) == 0


async def test_a_shutdown_ends_subscriptions_with_their_result() -> None:
    """The client learns that it was deliberate."""
    _, app = listening()
    call = modern_call(app, listen())
    async with running(call):
        await call.message_count(1)
        await app.drain()
        answer = await call.until(lambda a: a.complete)
    result = answer.messages[-1]["result"]
    assert (result["resultType"], result["_meta"][SUBSCRIPTION_KEY]) == ("complete", "sub")


async def test_a_subscriber_that_cannot_keep_up_is_ended_not_skipped() -> None:
    """The buffer is bounded; a client that subscribes again knows that it may have missed events."""
    from ferrule.kernel.changes.bus import SubscriptionBus

    steered = Steered(resource_updates=True, bus=SubscriptionBus(max_events=4))
    app = steered.endpoint()
    uris = [f"a://{number}" for number in range(20)]
    call = modern_call(app, listen(resourceSubscriptions=uris))
    gate = anyio.Event()
    original = call.send

    async def stalled(message: Any) -> None:
        if b"resources/updated" in message.get("body", b""):
            await gate.wait()  # the client does not read
        await original(message)

    call.send = stalled  # type: ignore[method-assign]
    async with running(call):
        await call.message_count(1)
        for uri in uris:
            steered.server.bus.publish(Event.resource_updated(uri))
            await anyio.lowlevel.checkpoint()
        gate.set()
        answer = await call.until(lambda a: a.complete)
    assert answer.messages[-1]["id"] == "sub"
    assert len(answer.messages) < 10


async def test_silent_streams_are_kept_alive_by_comments() -> None:
    """Proxies cut what is silent; clients ignore comments."""
    _, app = listening(keep_alive_s=0.02)
    call = modern_call(app, listen())
    async with running(call):
        await call.until(lambda a: a.body.count(b"\n:\n\n") >= 2)
    assert len(call.answer.messages) == 1
    with anyio.fail_after(30):
        while len(app.modern.keep_alive):
            await anyio.sleep(0.005)
    assert len(app.modern.keep_alive) == 0


async def test_options_are_checked() -> None:
    """A typing mistake fails where it stands."""
    for bad in ({"path": "mcp"}, {"response_mode": "xml"}, {"max_body_bytes": 0}):
        with pytest.raises(ValueError):
            HttpOptions(**bad)  # type: ignore[arg-type]


async def test_an_event_for_many_streams_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may listen, and their messages differ by the id of the subscription alone, whatever that looks like."""
    encoded: list[str] = []

    def encode(method: str, params: Any = None) -> bytes:
        encoded.append(method)
        return encode_notification(method, params)

    monkeypatch.setattr(standard_methods, "encode_notification", encode)
    steered = Steered(resource_updates=True)
    endpoint = steered.endpoint()
    ids: list[Any] = [1, "two", 'a "quoted" \\ one', "é"]
    wanted = {"notifications": {"resourceSubscriptions": ["r://a"]}}
    async with AsyncExitStack() as stack:
        calls = [
            await stack.enter_async_context(running(modern_call(endpoint, modern(id, "subscriptions/listen", wanted))))
            for id in ids
        ]
        for call in calls:
            await call.message_count(1)
        params = {"uri": "r://a", "_meta": {"x": 1}}
        steered.server.bus.publish(Event("notifications/resources/updated", "r://a", params))
        heard = [(await call.message_count(2))[1] for call in calls]
    assert heard == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "r://a", "_meta": {"x": 1, standard_methods.SUBSCRIPTION_ID_KEY: id}},
        }
        for id in ids
    ]
    assert encoded == ["notifications/resources/updated"]
