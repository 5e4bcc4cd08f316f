"""ferrule.transports.asgi.legacy.session, .exchange and .stream: event streams, batches and the stateless option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.kernel.changes.bus import DEFAULT_BUFFER_SIZE, Event
from ferrule.middleware import Policy
from ferrule.stores.store import open_store
from ferrule.transports.asgi import HttpEndpoint, HttpOptions, MemoryEventStore
from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive
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


# --- streams --------------------------------------------------------------------------------------------------------


def listening(**options: Any) -> tuple[Steered, HttpEndpoint]:
    steered = Steered(list_changed=["tools"], resource_updates=True)
    return steered, steered.endpoint(**options)


async def test_changes_reach_the_get_stream() -> None:
    """List changes unasked, resources after ``resources/subscribe`` (legacy form of the same bus)."""
    steered, app = listening()
    steered.server.add_request_handler("resources/read", steered.list_tools)
    session = await open_session(app)
    stream = get_call(app, session)
    async with running(stream):
        await stream.until(lambda a: a.status == 200)
        steered.server.bus.publish(Event.list_changed("tools"))
        steered.server.bus.publish(Event.resource_updated("a://b"))
        await stream.message_count(1)
        answer = await legacy_call(app, request(1, "resources/subscribe", {"uri": "a://b"}), session).run()
        assert answer.json["result"] == {}
        steered.server.bus.publish(Event.resource_updated("a://b"))
        messages = await stream.message_count(2)
    assert [message["method"] for message in messages] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]


async def test_a_change_between_the_handshake_and_the_stream_is_not_lost() -> None:
    """Clients open their stream a moment after the handshake."""
    steered, app = listening()
    session = await open_session(app)
    steered.server.bus.publish(Event.list_changed("tools"))
    stream = get_call(app, session)
    async with running(stream):
        assert (await stream.message_count(1))[0]["method"] == "notifications/tools/list_changed"


async def test_a_message_goes_on_one_stream_only() -> None:
    """The newest; when that is gone, the one before it."""
    steered, app = listening(event_store=None)
    session = await open_session(app)
    one, two = get_call(app, session), get_call(app, session)
    async with running(one):
        await one.until(lambda a: a.status == 200)
        async with running(two):
            await two.until(lambda a: a.status == 200)
            steered.server.bus.publish(Event.list_changed("tools"))
            await two.message_count(1)
        steered.server.bus.publish(Event.list_changed("tools"))
        await one.message_count(1)
    assert len(two.answer.messages) == 1


async def test_a_client_that_lost_its_get_stream_gets_the_rest() -> None:
    """Replayed after Last-Event-ID, then live."""
    steered, app = listening()
    session = await open_session(app)
    first = get_call(app, session)
    async with running(first):
        await first.until(lambda a: a.status == 200)
        steered.server.bus.publish(Event.list_changed("tools"))
        await first.message_count(1)
    last = first.answer.events[-1].id
    assert last is not None
    steered.server.bus.publish(Event.list_changed("tools"))
    await anyio.wait_all_tasks_blocked()
    second = get_call(app, session, last_event_id=last)
    async with running(second):
        await second.message_count(1)
        steered.server.bus.publish(Event.list_changed("tools"))
        await second.message_count(2)
    ids = [event.id for event in first.answer.events + second.answer.events]
    assert len(ids) == len(set(ids))


async def test_a_call_whose_stream_was_lost_is_finished_on_another() -> None:
    """Disconnect is not cancellation; the answer comes by GET with Last-Event-ID."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    call = legacy_call(app, tool("speak", id=5), session)
    async with running(call):
        await call.message_count(1)
        last = call.answer.events[-1].id
        assert last is not None
        call.disconnect()
        stream = get_call(app, session, last_event_id=last)
        async with running(stream):
            await stream.until(lambda a: a.status == 200)
            steered.release.set()
            answer = await stream.until(lambda a: a.complete)
    assert [message.get("id") for message in answer.messages] == [None, 5]
    late = await get_call(app, session, last_event_id=last).run()  # again, after the end: the same, and the end
    assert late.messages == answer.messages


async def test_a_stream_can_be_closed_for_polling() -> None:
    """SEP-1699: priming event, ``retry``, close; the result comes by GET."""
    steered = Steered()
    app = steered.endpoint(retry_ms=77)
    session = await open_session(app)
    call = legacy_call(app, tool("close", id=5), session)
    async with running(call):
        answer = await call.until(lambda a: a.complete)
        assert answer.messages == []
        priming = answer.events[0]
        assert (priming.data, priming.retry_ms) == (b"", 77)
        assert answer.body.endswith(b"retry: 77\n\n")
        assert priming.id is not None
        stream = get_call(app, session, last_event_id=priming.id)
        async with running(stream):
            await stream.until(lambda a: a.status == 200)
            steered.release.set()
            await stream.until(lambda a: a.complete)
    assert stream.answer.messages[-1]["result"]["content"][0]["text"] == "after the close"


async def test_older_revisions_get_no_priming_event_and_no_polling() -> None:
    """Their clients try to read the empty event as JSON."""
    app = Steered().endpoint()
    session = await open_session(app, version="2025-06-18")
    message = tool("progress", meta={"progressToken": 1})
    answer = await legacy_call(app, message, session, version="2025-06-18").run()
    assert all(event.data for event in answer.events)
    assert all(event.id for event in answer.events)
    answer = await legacy_call(app, tool("close"), session, version="2025-06-18").run()
    assert answer.json["error"]["code"] == -32603


async def test_an_unknown_last_event_id_is_400() -> None:
    """Also one of another session; and the session lives on."""
    steered = Steered()
    app = steered.endpoint()
    one, two = await open_session(app), await open_session(app)
    answer = await legacy_call(app, tool("progress", meta={"progressToken": 1}), one).run()
    id = answer.events[0].id
    assert id is not None
    assert (await get_call(app, two, last_event_id=id).run()).status == 400
    assert (await get_call(app, one, last_event_id="nonsense").run()).status == 400
    assert len((await get_call(app, one, last_event_id=id).run()).messages) == 4


async def test_an_idle_stream_that_the_store_displaced_goes_on() -> None:
    """Without a later event nothing is lost; with one, the client gets 400 and starts a new stream."""
    steered, app = listening(event_store=MemoryEventStore(max_session_streams=1))
    steered.release.set()
    session = await open_session(app)
    stream = get_call(app, session)
    async with running(stream):
        await stream.until(lambda a: a.events)
        last = str(stream.answer.events[-1].id)
    assert (await legacy_call(app, tool("speak"), session).run()).headers["content-type"] == "text/event-stream"
    back = get_call(app, session, **{"last-event-id": last})
    async with running(back):
        assert (await back.until(lambda a: a.status)).status == 200
        steered.server.bus.publish(Event.list_changed("tools"))
        assert (await back.message_count(1))[0]["method"] == "notifications/tools/list_changed"
    await legacy_call(app, tool("speak"), session).run()
    assert (await get_call(app, session, **{"last-event-id": last}).run()).status == 400


async def test_a_get_must_accept_event_streams() -> None:
    """There is nothing else to give."""
    app = Steered().endpoint()
    session = await open_session(app)
    assert (await get_call(app, session, accept="application/json").run()).status == 406


async def test_a_shutdown_ends_get_streams_and_lets_calls_finish() -> None:
    """Graceful drain."""
    steered = Steered()
    app = steered.endpoint()
    session = await open_session(app)
    stream, call = get_call(app, session), legacy_call(app, tool("slow"), session)
    async with running(stream), running(call):
        await stream.until(lambda a: a.status == 200)
        await steered.started.wait()
        await app.drain()
        await stream.until(lambda a: a.complete)
        assert not call.answer.complete
        steered.release.set()
        assert (await call.until(lambda a: a.complete)).json["result"]["content"][0]["text"] == "slow"


async def test_a_get_stream_does_not_outlive_its_session() -> None:
    """A DELETE may come while the GET waits for a store."""
    app = Steered().endpoint()
    await open_session(app)
    assert app.legacy is not None
    session = next(iter(app.legacy.sessions))
    call = Call(app, "GET")
    app.legacy.sessions.remove(session.session_id)
    reply = EventStreamReply(call.send, KeepAlive(None))
    await session.open_get_stream(reply)
    assert reply.is_over
    assert call.answer.complete


async def test_an_id_of_nought_is_an_id() -> None:
    """It is in use, cancelled and free again like any other, and so is an empty text."""
    app = Steered().endpoint()
    session = await open_session(app)
    for id in (0, ""):
        call = legacy_call(app, tool("slow", id=id), session)
        async with running(call):
            await anyio.wait_all_tasks_blocked()
            assert (await legacy_call(app, tool("echo", id=id), session).run()).status == 409
            await legacy_call(app, cancelled(id), session).run()
            await call.until(lambda a: a.complete)
        assert call.answer.messages == []


# --- batches (2025-03-26) -------------------------------------------------------------------------------------------


async def batch(app: Any, messages: Any, session: str, version: str = "2025-03-26") -> Any:
    return await legacy_call(app, messages, session, version=version).run()


async def test_batches_exist_in_one_revision() -> None:
    """2025-03-26 only; notifications alone are 202, and ids of another type are other ids."""
    app = Steered().endpoint()
    session = await open_session(app, version="2025-03-26")
    messages = [
        tool("echo", id=1, text="a"),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        tool("echo", id="1", text="b"),
        request(3, "nothing/such"),
    ]
    answer = await batch(app, messages, session)
    assert {message["id"] for message in answer.json} == {1, "1", 3}
    assert (await batch(app, messages[1:2], session)).status == 202
    for version in ("2025-06-18", LEGACY):
        newer = await open_session(app, version=version)
        answer = await batch(app, messages, newer, version)
        assert (answer.status, answer.json["error"]["code"]) == (400, -32600)


async def test_a_batch_with_a_message_before_an_answer_is_a_stream() -> None:
    """Each answer an event."""
    app = Steered().endpoint()
    session = await open_session(app, version="2025-03-26")
    messages = [tool("progress", id=1, meta={"progressToken": 1}), tool("echo", id=2)]
    answer = await batch(app, messages, session)
    assert answer.headers["content-type"] == "text/event-stream"
    assert {message["id"] for message in answer.messages if "id" in message} == {1, 2}


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], 400),
        ([5], 400),
        ([[]], 400),
        ([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}], 400),
        ([tool("echo", id=1), tool("echo", id=1)], 409),
        ([request(number, "ping") for number in range(1001)], 400),
        ([{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}] * 1001, 400),
    ],
)
async def test_a_bad_batch_is_refused_whole(messages: Any, status: int) -> None:
    """``initialize`` may not be in one; ids are unique in it; it is bounded, as its requests run at once."""
    app = Steered().endpoint()
    session = await open_session(app, version="2025-03-26")
    answer = await batch(app, messages, session)
    assert (answer.status, answer.json["error"]["code"]) == (status, -32600)
    assert (await legacy_call(app, tool("echo", id=1), session, version="2025-03-26").run()).status == 200


# --- stateless ------------------------------------------------------------------------------------------------------


async def test_stateless_serves_without_sessions() -> None:
    """No id is minted, streams are 405 at once, nothing is kept."""
    app = Steered().endpoint(stateless=True)
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    answer = await legacy_call(app, request(1, "initialize", params), version=None).run()
    assert answer.json["result"]["protocolVersion"] == LEGACY
    assert "mcp-session-id" not in answer.headers
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await legacy_call(app, initialized).run()).status == 202
    assert (await legacy_call(app, tool("echo", text="x")).run()).json["result"]["content"][0]["text"] == "x"
    assert (await legacy_call(app, tool("echo", text="x"), version=None).run()).status == 200
    assert (await legacy_call(app, tool("echo", text="x"), "left over from before").run()).status == 200
    assert (await legacy_call(app, tool("echo"), version="nonsense", mcp_session_id="x").run()).status == 400
    answer = await legacy_call(app, tool("progress", meta={"progressToken": 1})).run()
    assert len(answer.messages) == 4
    assert all(event.id is None for event in answer.events)
    for verb in ("GET", "DELETE"):
        answer = await Call(app, verb, headers=legacy_headers("x", accept="text/event-stream")).run()
        assert (answer.status, "GET" in answer.headers["allow"]) == (405, False)
    assert app.legacy is not None
    assert len(app.legacy.sessions) == 0


async def test_stateless_batches_follow_the_version_header() -> None:
    """Absent, it means 2025-03-26, which has them."""
    app = Steered().endpoint(stateless=True)
    messages = [tool("echo", id=1), tool("echo", id=2)]
    assert len((await legacy_call(app, messages, version=None).run()).json) == 2
    assert (await legacy_call(app, messages, version=LEGACY).run()).status == 400
    assert json.loads(json.dumps(HttpOptions().path)) == "/mcp"


@pytest.mark.parametrize("moves", [False, True])
async def test_a_policy_holds_for_the_changes_of_a_session_whose_buffer_was_full(moves: bool, tmp_path: Path) -> None:
    """It holds too in another process, which serves the stream of the session and none of its subscriptions."""
    store = f"sqlite:///{tmp_path / 'store.sqlite3'}"

    def worker() -> tuple[Steered, HttpEndpoint]:
        policy = Policy(lambda request: not request.name.endswith("secret"))
        steered = Steered(resource_updates=True, middleware=[policy])
        if not moves:
            return steered, steered.endpoint()
        shared = open_store(store)
        return steered, steered.endpoint(shared=shared, event_store=shared.events)

    steered, app = worker()
    session = await open_session(app)
    assert (await legacy_call(app, request(1, "resources/subscribe", {"uri": "a://b"}), session).run()).status == 200
    if moves:
        steered, app = worker()
        # Any request: from now on this process has the session.
        assert (await legacy_call(app, request(2, "ping"), session).run()).status == 200
    else:
        for number in range(DEFAULT_BUFFER_SIZE + 1):
            steered.server.bus.publish(Event.resource_updated(f"a://b/{number}"))
    stream = get_call(app, session)
    async with running(stream):
        await stream.until(lambda a: a.status == 200)
        before = len(stream.answer.messages)
        await anyio.wait_all_tasks_blocked()
        for uri in ("a://b/secret", "a://b"):
            steered.server.bus.publish(Event.resource_updated(uri))
        await stream.until(lambda a: len(a.messages) > before and a.messages[-1]["params"]["uri"] == "a://b")
    uris = [message["params"]["uri"] for message in stream.answer.messages]
    assert uris[-1] == "a://b"
    assert "a://b/secret" not in uris


async def test_a_stream_that_another_process_had_begins_with_all_changes(tmp_path: Path) -> None:
    """That process may have ended with changes that it had not sent; a stream that is opened first has none."""
    endpoints: list[HttpEndpoint] = []
    for _ in range(2):
        shared = open_store(f"sqlite:///{tmp_path / 'store.sqlite3'}")
        steered = Steered(list_changed=["tools"], resource_updates=True)
        endpoints.append(steered.endpoint(shared=shared, event_store=shared.events))
    session = await open_session(endpoints[0])
    subscribe = request(1, "resources/subscribe", {"uri": "a://b"})
    assert (await legacy_call(endpoints[0], subscribe, session).run()).status == 200
    first = get_call(endpoints[0], session)
    async with running(first):
        await first.until(lambda a: a.events)
        await anyio.wait_all_tasks_blocked()
    last = first.answer.events[-1].id
    assert last is not None
    assert [event.data for event in first.answer.events] == [b""]
    second = get_call(endpoints[1], session, last_event_id=last)
    async with running(second):
        messages = await second.message_count(2)
    assert [message["method"] for message in messages] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
