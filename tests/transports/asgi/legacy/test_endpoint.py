"""ferrule.transports.asgi.legacy.endpoint, .session, .channel, .questions: the handshake revisions over HTTP."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from ferrule.kernel.server import Server
from ferrule.protocol.errors import ConnectionClosed
from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.channel import MemoryChannel
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.sessions import MemorySessions
from ferrule.stores.store import Store
from ferrule.transports.asgi import HttpContext, HttpEndpoint
from ferrule.transports.asgi.legacy import endpoint as legacy
from ferrule.transports.asgi.legacy import questions
from ferrule.transports.http.errors import HttpRemoteError
from tests.transports.asgi.support import (
    LEGACY,
    Call,
    Steered,
    cancelled,
    get_call,
    legacy_call,
    legacy_headers,
    open_session,
    request,
    running,
    tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_initialize_opens_a_session_and_delete_ends_it() -> None:
    """After the end 404, so that the client starts over."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    assert (await legacy_call(app, tool("echo", text="hi"), session).run()).json["result"]["content"][0]["text"] == "hi"
    assert (await Call(app, "DELETE", headers=legacy_headers(session)).run()).status in (200, 204)
    for call in (
        legacy_call(app, tool("echo"), session),
        get_call(app, session),
        Call(app, "DELETE", headers=legacy_headers(session)),
    ):
        assert (await call.run()).status == 404
    assert app.legacy is not None
    assert len(app.legacy.sessions) == 0


async def test_without_a_session_id_a_request_is_400_and_with_an_unknown_one_404() -> None:
    """A client starts over on 404 only; the error carries the id of the request."""
    app = Steered().endpoint()
    for session, status in ((None, 400), ("nonsense", 404)):
        answer = await legacy_call(app, tool("echo", id="x"), session).run()
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (status, -32600, "x")
        assert (await get_call(app, session).run()).status == status


async def test_a_session_of_another_process_is_explained_once(caplog: pytest.LogCaptureFixture) -> None:
    """Several processes without a shared store fail every legacy call; the log names the reason."""
    app, other = Steered().endpoint(), Steered().endpoint()
    session = await open_session(app)
    ended = await open_session(other)
    await Call(other, "DELETE", headers=legacy_headers(ended)).run()
    with caplog.at_level(logging.WARNING, "ferrule.http"):
        for unknown in (ended, "made-up", "x" * 32):
            assert (await legacy_call(other, request(1, "ping"), unknown).run()).status == 404
        assert caplog.messages == []
        for _ in range(2):
            assert (await legacy_call(other, request(1, "ping"), session).run()).status == 404
    assert len(caplog.messages) == 1
    assert "store=" in caplog.text


async def test_a_refused_initialize_leaves_no_session() -> None:
    """Nothing to forget where nothing began."""
    steered = Steered()
    app = steered.endpoint()
    answer = await legacy_call(app, request(1, "initialize", {"capabilities": {}}), version=None).run()
    assert answer.json["error"]["code"] == -32602
    assert "mcp-session-id" not in answer.headers
    assert app.legacy is not None
    assert len(app.legacy.sessions) == 0


async def test_a_session_is_initialized_once() -> None:
    """A second handshake on it is refused and does not disturb it."""
    app = Steered().endpoint()
    session = await open_session(app)
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    answer = await legacy_call(app, request(5, "initialize", params), session).run()
    assert answer.json["error"]["code"] == -32600
    assert (await legacy_call(app, tool("echo"), session).run()).status == 200


async def test_sessions_are_bounded_and_displaced_ones_are_404() -> None:
    """10,000 sessions opened and dropped must not stay."""
    app = Steered().endpoint(max_sessions=3)
    sessions = [await open_session(app) for _ in range(10)]
    assert app.legacy is not None
    assert len(app.legacy.sessions) == 3
    statuses = [(await legacy_call(app, tool("echo"), session).run()).status for session in sessions]
    assert statuses == [404] * 7 + [200] * 3


async def test_when_all_sessions_are_busy_a_new_one_is_503() -> None:
    """No session in use is ended for a new one."""
    steered = Steered()
    app = steered.endpoint(max_sessions=1)
    session = await open_session(app)
    call = legacy_call(app, tool("slow"), session)
    async with running(call):
        await steered.started.wait()
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        assert (await legacy_call(app, request(1, "initialize", params), version=None).run()).status == 503
        steered.release.set()
        assert (await call.until(lambda a: a.complete)).status == 200


async def test_idle_time_counts_from_the_end_of_the_last_request_in_flight() -> None:
    """A long call and an open GET stream keep their session alive."""
    now = 0.0
    steered = Steered()
    app = steered.endpoint(session_idle_s=10.0, clock=lambda: now)
    assert app.legacy is not None
    busy, streaming, idle = [await open_session(app) for _ in range(3)]
    call, stream = legacy_call(app, tool("slow"), busy), get_call(app, streaming)
    async with running(call), running(stream):
        await steered.started.wait()
        await stream.until(lambda a: a.status == 200)
        now = 1000.0
        app.legacy.sweep()
        assert len(app.legacy.sessions) == 2
        assert (await legacy_call(app, tool("echo"), idle).run()).status == 404
        steered.release.set()
        assert (await call.until(lambda a: a.complete)).messages[-1]["result"]["content"][0]["text"] == "slow"
    now = 1009.0
    app.legacy.sweep()
    assert len(app.legacy.sessions) == 2
    now = 1010.0
    app.legacy.sweep()
    assert len(app.legacy.sessions) == 0


async def test_the_sweep_runs_by_itself() -> None:
    """Memory is freed without another request for the session."""
    app = Steered().endpoint(session_idle_s=0.05)
    await open_session(app)
    assert app.legacy is not None
    with anyio.fail_after(30):
        while len(app.legacy.sessions):
            await anyio.sleep(0.01)


async def test_a_session_belongs_to_the_principal_that_opened_it(caplog: pytest.LogCaptureFixture) -> None:
    """For anyone else it does not exist, DELETE included; the log does not take it for a fault of the setup."""

    async def authenticate(context: HttpContext) -> str | None:
        return context.headers.get("authorization")

    app = Steered().endpoint(authenticate=authenticate)
    session = await open_session(app, authorization="alice")
    for stranger in ({"authorization": "bob"}, {}):
        assert (await legacy_call(app, tool("echo"), session, **stranger).run()).status == 404
        assert (await get_call(app, session, **stranger).run()).status == 404
        assert (await Call(app, "DELETE", headers=legacy_headers(session, **stranger)).run()).status == 404
    assert (await legacy_call(app, tool("echo"), session, authorization="alice").run()).status == 200
    assert "store=" not in caplog.text


async def test_a_handler_sees_the_headers_of_its_own_request() -> None:
    """Not those of the handshake: tokens are refreshed during a session."""
    app = Steered().endpoint()
    session = await open_session(app, authorization="Bearer A")
    answer = await legacy_call(app, tool("headers", header="authorization"), session, authorization="Bearer B").run()
    assert answer.json["result"]["content"][0]["text"] == "Bearer B"


async def test_the_version_header_may_be_absent_but_not_invalid() -> None:
    """Absent means what was negotiated; invalid is 400; the session survives."""
    app = Steered().endpoint()
    session = await open_session(app, version="2025-06-18")
    assert (await legacy_call(app, tool("echo"), session, version=None).run()).status == 200
    for version in ("2025-06-17", "", "latest"):
        assert (await legacy_call(app, tool("echo"), session, version=version).run()).status == 400
    assert (await legacy_call(app, tool("echo"), session, version="2025-06-18").run()).status == 200


async def test_ending_a_session_cancels_what_runs_on_it() -> None:
    """DELETE in mid-call: the handler stops, its request ends without an answer."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    call = legacy_call(app, tool("slow"), session)
    async with running(call):
        await steered.started.wait()
        assert (await Call(app, "DELETE", headers=legacy_headers(session)).run()).status == 204
        answer = await call.until(lambda a: a.complete)
    assert (answer.status, answer.body) == (200, b"")
    assert steered.log == ["cancelled", "finally"]


async def test_clean_up_that_a_handler_registered_runs_at_the_session_s_end() -> None:
    """The connection of a session is its session's."""
    closed = anyio.Event()
    server: Server[Any] = Server("x")

    async def register(ctx: Any) -> Any:
        ctx.session.connection.exit_stack.callback(closed.set)
        return {"content": []}

    server.add_request_handler("tools/call", register)
    app = HttpEndpoint(server)
    session = await open_session(app)
    await legacy_call(app, tool("x"), session).run()
    assert not closed.is_set()
    await Call(app, "DELETE", headers=legacy_headers(session)).run()
    with anyio.fail_after(30):
        await closed.wait()


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "json", "sse"])
async def test_an_id_in_flight_is_refused_and_free_again_afterwards(mode: str) -> None:
    """Answers are never delivered to the wrong request."""
    steered = Steered()
    app = steered.endpoint(response_mode=mode)
    session = await open_session(app)
    first = legacy_call(app, tool("slow", id=1, text="first"), session)
    async with running(first):
        await steered.started.wait()
        for _ in range(12):
            answer = await legacy_call(app, tool("echo", id=1, text="second"), session).run()
            assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (409, 1, -32600)
        other = await legacy_call(app, tool("echo", id="1", text="text id"), session).run()
        assert other.messages[-1]["result"]["content"][0]["text"] == "text id"
        steered.release.set()
        answer = await first.until(lambda a: a.complete)
    assert answer.messages[-1]["result"]["content"][0]["text"] == "first"
    again = await legacy_call(app, tool("echo", id=1, text="again"), session).run()
    assert again.messages[-1]["result"]["content"][0]["text"] == "again"


async def test_an_id_is_reserved_before_a_slow_event_store_is_asked() -> None:
    """Between the check and the reservation nothing may be awaited."""
    from ferrule.transports.asgi import MemoryEventStore

    class Slow(MemoryEventStore):
        async def append(self, session_id: str, stream_id: str, data: bytes) -> str:
            await anyio.sleep(0.01)
            return await super().append(session_id, stream_id, data)

    steered = Steered()
    app = steered.endpoint(response_mode="sse", event_store=Slow())
    session = await open_session(app)
    calls = [legacy_call(app, tool("echo", id=7, text=str(n)), session) for n in range(12)]
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call.run)
    statuses = sorted(call.answer.status for call in calls)
    assert statuses == [200] + [409] * 11
    winner = next(n for n, call in enumerate(calls) if call.answer.status == 200)
    assert calls[winner].answer.messages[-1]["result"]["content"][0]["text"] == str(winner)


async def test_a_json_rpc_error_is_200() -> None:
    """A legacy client reads 404 as a lost session."""
    app = Steered().endpoint()
    session = await open_session(app)
    for message, code in ((request(1, "nothing/such"), -32601), (request(1, "tools/call", {}), -32602)):
        answer = await legacy_call(app, message, session).run()
        assert (answer.status, answer.json["error"]["code"]) == (200, code)


async def test_response_modes() -> None:
    """auto: JSON until a handler sends a message. json: never a stream. sse: always one."""
    for mode, silent, speaking in (
        ("auto", "json", "event-stream"),
        ("json", "json", "json"),
        ("sse", "event", "event"),
    ):
        app = Steered().endpoint(response_mode=mode)
        session = await open_session(app)
        answer = await legacy_call(app, tool("echo", text="x"), session).run()
        assert silent in answer.headers["content-type"]
        assert answer.messages[-1]["result"]["content"][0]["text"] == "x"
        answer = await legacy_call(app, tool("progress", meta={"progressToken": 1}), session).run()
        assert speaking in answer.headers["content-type"]
        assert len(answer.messages) == (1 if mode == "json" else 4)


async def test_a_disconnect_is_not_a_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """The handler runs to its end."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    call = legacy_call(app, tool("slow"), session)
    async with running(call):
        await steered.started.wait()
        call.disconnect()
        await anyio.wait_all_tasks_blocked()
        assert steered.log == []
        steered.release.set()
    assert steered.log == ["finally"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_cancelled_request_gets_no_answer_and_unknown_ids_are_ignored() -> None:
    """Nothing more for it; ping is answered."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    call = legacy_call(app, tool("slow", id=7), session)
    async with running(call):
        await steered.started.wait()
        for id in ("7", 99, None, True, 7.0, {}):
            assert (await legacy_call(app, cancelled(id), session).run()).status == 202
        assert steered.log == []
        assert (await legacy_call(app, cancelled(7), session).run()).status == 202
        answer = await call.until(lambda a: a.complete)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-type"] == "text/event-stream"
        assert (await legacy_call(app, request(8, "ping"), session).run()).json["result"] == {}
        assert (await legacy_call(app, cancelled(7), session).run()).status == 202
    assert steered.log == ["cancelled", "finally"]
    assert (await legacy_call(app, tool("echo", id=7, text="x"), session).run()).json["id"] == 7


async def test_a_cancelled_stream_ends_without_an_answer() -> None:
    """Also when something has been said on it."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    call = legacy_call(app, tool("speak", id=7), session)
    async with running(call):
        await call.message_count(1)
        await legacy_call(app, cancelled(7), session).run()
        answer = await call.until(lambda a: a.complete)
    assert [message.get("method") for message in answer.messages] == ["notifications/message"]
    assert steered.log == ["finally"]


async def test_a_hundred_cancellations_at_once() -> None:
    """And the session serves on."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    calls = [legacy_call(app, tool("slow", id=number), session) for number in range(100)]
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call.run)
        while app.legacy is None or len(next(iter(app.legacy.sessions)).in_flight) < 100:
            await anyio.sleep(0.001)
        for number in range(100):
            group.start_soon(legacy_call(app, cancelled(number), session).run)
    assert steered.log.count("cancelled") == 100
    assert (await legacy_call(app, tool("echo", text="x"), session).run()).status == 200


async def test_notifications_and_stray_answers_are_202() -> None:
    """They get no answer, also if they belong to no request (2025-11-25, "Sending Messages to the Server")."""
    app = Steered().endpoint()
    session = await open_session(app)
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "method": "acme/unknown", "params": {"a": 1}},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}},
    ):
        answer = await legacy_call(app, message, session).run()
        assert (answer.status, answer.body) == (202, b"")


# --- questions to the client ----------------------------------------------------------------------------------------

ELICITATION = {"elicitation": {}}


async def test_a_question_goes_on_the_request_s_own_stream_and_its_answer_comes_by_post() -> None:
    """A future per id; the call stays open meanwhile."""
    app = Steered().endpoint()
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask"), session)
    async with running(call):
        question = (await call.message_count(1))[0]
        assert question["method"] == "elicitation/create"
        response = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
        assert (await legacy_call(app, response, session).run()).status == 202
        answer = await call.until(lambda a: a.complete)
    assert answer.messages[-1]["result"]["content"][0]["text"] == "accept"


async def test_an_error_as_an_answer_reaches_the_handler() -> None:
    """With its code (the handler lets it become its own)."""
    app = Steered().endpoint()
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask"), session)
    async with running(call):
        question = (await call.message_count(1))[0]
        response = {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}}
        await legacy_call(app, response, session).run()
        answer = await call.until(lambda a: a.complete)
    assert answer.messages[-1]["error"]["code"] == -1


async def test_another_session_cannot_answer() -> None:
    """Ids are counted per session; an answer is looked up in the session that brings it."""
    app = Steered().endpoint()
    session, stranger = [await open_session(app, capabilities=ELICITATION) for _ in range(2)]
    call = legacy_call(app, tool("ask"), session)
    async with running(call):
        question = (await call.message_count(1))[0]
        response = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}
        assert (await legacy_call(app, response, stranger).run()).status == 202
        await anyio.wait_all_tasks_blocked()
        assert not call.answer.complete
        await legacy_call(app, {**response, "result": {"action": "decline"}}, session).run()
        answer = await call.until(lambda a: a.complete)
    assert answer.messages[-1]["result"]["content"][0]["text"] == "decline"


@pytest.mark.parametrize("options", [{"stateless": True}, {"response_mode": "json"}])
async def test_a_question_that_cannot_be_answered_fails_at_once(options: dict[str, Any]) -> None:
    """It must not wait for ever."""
    app = Steered().endpoint(**options)
    session = None if "stateless" in options else await open_session(app, capabilities=ELICITATION)
    with anyio.fail_after(30):
        answer = await legacy_call(app, tool("ask"), session).run()
    assert answer.json["error"]["code"] == -32603


@pytest.mark.parametrize("options", [{"stateless": True}, {"response_mode": "json"}])
async def test_a_question_that_cannot_be_sent_fails_with_the_reason(options: dict[str, Any]) -> None:
    """A client that did declare must not read that it did not; ``except CapabilityNotDeclared`` does without both."""
    from ferrule import Context, MCPServer
    from ferrule.protocol.errors import CapabilityNotDeclared

    app = MCPServer("asks")

    @app.tool
    async def order(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", bool)).action

    @app.tool
    async def careful(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Sure?", bool)).action
        except CapabilityNotDeclared:
            return "did without"

    endpoint = app.asgi(**options)
    session = None if "stateless" in options else await open_session(endpoint, capabilities=ELICITATION)
    answers = [await legacy_call(endpoint, tool(name), session).run() for name in ("order", "careful")]
    said, done = (answer.json["result"]["content"][0]["text"] for answer in answers)
    assert "Tool `order` cannot be used" in said
    assert "session" in said
    assert "did not declare" not in said
    assert done == "did without"


async def test_a_question_to_a_client_that_does_not_reconnect_fails() -> None:
    """Without an event store it cannot come back for the question."""
    app = Steered().endpoint(event_store=None)
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask"), session)
    async with running(call):
        await call.message_count(1)
        call.disconnect()
    assert app.legacy is not None
    assert not next(iter(app.legacy.sessions)).in_flight


async def test_a_question_to_a_client_that_does_not_come_back_fails() -> None:
    """With an event store it could, but the handler, the session and the id must not wait for ever."""
    app = Steered().endpoint(resume_s=0.0, retry_ms=10)
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask"), session)
    async with running(call):
        await call.message_count(1)
        call.disconnect()
    assert app.legacy is not None
    found = next(iter(app.legacy.sessions))
    assert (len(found.in_flight), len(found.questions), found.in_use) == (0, 0, 0)
    assert (await legacy_call(app, tool("echo"), session).run()).status == 200


async def test_a_client_that_comes_back_in_time_answers() -> None:
    """The wait begins anew with each loss."""
    app = Steered().endpoint(resume_s=1.0, retry_ms=0)
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask"), session)
    async with anyio.create_task_group() as group:
        group.start_soon(call.run)
        question = (await call.message_count(1))[0]
        last = next(event.id for event in reversed(call.answer.events))
        call.disconnect()
        back = Call(app, "GET", headers={**legacy_headers(session), "last-event-id": str(last)})
        group.start_soon(back.run)
        await anyio.sleep(1.2)
        response = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
        assert (await legacy_call(app, response, session).run()).status == 202
        answer = await back.until(lambda a: a.complete)
    assert answer.messages[-1]["result"]["content"][0]["text"] == "accept"


async def test_a_question_asked_while_the_client_is_away_does_not_wait_for_ever() -> None:
    """It is kept for the client's return, and fails when that does not come."""
    app = Steered().endpoint(resume_s=0.0, retry_ms=10)
    session = await open_session(app, capabilities=ELICITATION)
    assert app.legacy is not None
    found = next(iter(app.legacy.sessions))
    channel = found.new_channel()
    with anyio.fail_after(30), pytest.raises(ConnectionClosed):
        await found.ask(channel, "elicitation/create", {}, None)
    assert session


async def test_questions_and_requests_of_one_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may outlive its connection, and the client chooses how many there are."""
    monkeypatch.setattr(legacy, "MAX_IN_FLIGHT", 2)
    monkeypatch.setattr(questions, "MAX_OPEN", 1)
    app = Steered().endpoint()
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask", id=1), session)
    async with running(call):
        await call.message_count(1)
        second = await legacy_call(app, tool("ask", id=2), session).run()
        assert second.messages[-1]["error"]["code"] == -32603
        waiting = legacy_call(app, tool("slow", id=3), session)
        async with running(waiting):
            await anyio.sleep(0.05)
            refused = await legacy_call(app, tool("echo", id=4), session).run()
            assert (refused.status, refused.json["error"]["code"], refused.json["id"]) == (429, -32603, 4)
            await Call(app, "DELETE", headers=legacy_headers(session)).run()


async def test_ending_the_session_fails_its_questions() -> None:
    """Handlers do not wait for a client that said goodbye."""
    app = Steered().endpoint()
    session = await open_session(app, capabilities=ELICITATION)
    call = legacy_call(app, tool("ask"), session)
    async with running(call):
        await call.message_count(1)
        await Call(app, "DELETE", headers=legacy_headers(session)).run()
        await call.until(lambda a: a.complete)


async def test_a_time_out_of_a_question_notifies_the_client() -> None:
    """``notifications/cancelled`` names the question."""
    server: Server[Any] = Server("x")

    async def ask(ctx: Any) -> Any:
        try:
            await ctx.session.send_request("ping", None, {"timeout_s": 0.01})
        except TimeoutError:
            return {"content": [{"type": "text", "text": "timed out"}]}

    server.add_request_handler("tools/call", ask)
    app = HttpEndpoint(server)
    session = await open_session(app)
    answer = await legacy_call(app, tool("x"), session).run()
    question, withdrawn, result = answer.messages
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    assert result["result"]["content"][0]["text"] == "timed out"


async def test_the_http_status_of_another_server_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway's server answered 404 with a JSON-RPC error; the gateway's client would take 404 for a lost session."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)

    async def fail(ctx: Any, arguments: Any) -> str:
        error = HttpRemoteError("no such method", code=-32601)
        error.http_status = 404
        raise error

    monkeypatch.setattr(steered, "tool_fail", fail)
    answer = await legacy_call(app, tool("fail"), session).run()
    assert (answer.status, answer.json["error"]["code"]) == (200, -32601)


async def test_an_answer_that_cannot_be_passed_on_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """After a 202 the client would never send it again, and the process that asked would wait for nothing."""

    class Away(MemoryChannel):
        async def send(self, message: bytes) -> None:
            if is_away:
                raise ConnectionError("locked")

    is_away = False
    store = Store(MemoryMarks(), MemoryBlobs(), is_shared=True, channel=Away(), sessions=MemorySessions())
    app = Steered().endpoint(shared=store)
    session = await open_session(app)
    answer = {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert (await legacy_call(app, answer, session).run()).status == 202
    is_away = True
    refused = await legacy_call(app, answer, session).run()
    assert (refused.status, refused.json["error"]["message"]) == (
        503,
        "The answer did not reach the process that asked; send it again",
    )
    assert "a message (answer) did not reach the other workers: locked" in caplog.text
    await app.aclose()
