"""A stream pair as a dispatcher: order, cancellation, time-outs, drains, and every kind of broken peer."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from ferrule import Client, Context, MCPServer
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import DispatchContext, StreamMessage, TransportContext
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.runner import serve_connection, serve_loop
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import (
    ClientNotAskable,
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalError,
    MCPError,
    NoBackChannel,
    RemoteError,
    RequestTimeout,
)
from ferrule.types import JsonRpcNotification, JsonRpcRequest
from ferrule.wire.codec import Encoded
from ferrule.wire.faults import DecodeError
from tests.kernel.harness import Peer, handshake, note, request, result, serving, settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Handlers = Mapping[str, Callable[..., Any]]


@asynccontextmanager
async def dispatching(
    handlers: Handlers | None = None, notes: Handlers | None = None, *, buffer: float = 1000, **options: Any
) -> AsyncIterator[tuple[Peer, JSONRPCDispatcher]]:
    """A running dispatcher over memory object streams; leaving hangs up and waits for its end."""
    to_us, reads = anyio.create_memory_object_stream[Any](1000)
    writes, from_us = anyio.create_memory_object_stream[Any](buffer)
    dispatcher = JSONRPCDispatcher(reads, writes, **options)
    peer = Peer(to_us, from_us)

    async def on_request(dctx: DispatchContext, method: str, params: Any) -> Any:
        return await (handlers or {})[method](dctx, params)

    async def on_notify(dctx: DispatchContext, method: str, params: Any) -> None:
        if notes is not None and method in notes:
            await notes[method](dctx, params)

    async def run() -> None:
        try:
            await dispatcher.run(on_request, on_notify)
        except Exception as error:
            peer.error = error
        finally:
            peer.ended.set()

    with to_us, reads, writes, from_us:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield peer, dispatcher
            await peer.finish()


async def echo(_: DispatchContext, params: Any) -> Any:
    return {"params": params}


class Slow:
    """A handler that waits until it is let go, and remembers what happened to it."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.go = anyio.Event()
        self.cancelled = False
        self.ended = anyio.Event()
        self.contexts: list[DispatchContext] = []

    async def __call__(self, dctx: DispatchContext, params: Any) -> Any:
        self.contexts.append(dctx)
        self.begun.set()
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return {"slow": True}


# -- answering --------------------------------------------------------------------------------------------------------


async def test_requests_run_at_once_and_each_answer_has_its_id() -> None:
    """A slow request holds up nobody; ids keep their type, text beside numbers."""
    slow = Slow()
    async with dispatching({"slow": slow, "echo": echo}) as (peer, _):
        peer.send(request(1, "slow"), request("1", "echo", {"a": 1}), request(2, "echo"))
        first, second = await peer.waiting()
        assert first == result("1", {"params": {"a": 1}})
        assert second == result(2, {"params": None})
        slow.go.set()
        assert await peer.receive() == result(1, {"slow": True})


async def test_sixty_requests_are_served_while_they_all_wait() -> None:
    """None of them needs another's task."""
    slow = Slow()
    async with dispatching({"slow": slow}) as (peer, dispatcher):
        peer.send(*(request(id, "slow") for id in range(60)))
        await settled()
        assert dispatcher.in_flight == len(slow.contexts) == 60
        slow.go.set()
        assert sorted(answer["id"] for answer in await peer.waiting()) == list(range(60))
        assert dispatcher.in_flight == 0


async def test_an_error_of_the_family_is_told_and_any_other_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """The peer learns what was meant for it; the log has the rest."""

    async def refuse(dctx: DispatchContext, params: Any) -> Any:
        raise InvalidParams("No", data={"why": 1})

    async def crash(dctx: DispatchContext, params: Any) -> Any:
        raise ValueError("secret")

    async with dispatching({"refuse": refuse, "crash": crash}) as (peer, _):
        assert await peer.error_of(request(1, "refuse")) == {"code": -32602, "message": "No", "data": {"why": 1}}
        assert await peer.error_of(request(2, "crash")) == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text


@pytest.mark.parametrize("value", [object(), {"a": {1, object()}}, {(1,): 1}])
async def test_a_result_without_a_json_form_is_an_internal_error(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    """And the id is free again."""

    async def bad(dctx: DispatchContext, params: Any) -> Any:
        return value

    async with dispatching({"bad": bad, "echo": echo}) as (peer, dispatcher):
        assert (await peer.error_of(request(1, "bad")))["code"] == -32603
        assert dispatcher.in_flight == 0
        assert await peer.result(request(1, "echo")) == {"params": None}
    assert "cannot be written as JSON" in caplog.text


async def test_error_data_without_a_json_form_is_left_out() -> None:
    """The code and the message still reach the peer."""

    class Encoding:
        encodes = True

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def send(self, item: Any) -> None:
            from ferrule.wire.codec import encode

            encode(item.message)
            await self.inner.send(item)

        async def aclose(self) -> None:
            await self.inner.aclose()

    async def on_request(dctx: Any, method: str, params: Any) -> Any:
        raise MCPError("No", code=7, data=object())

    async def on_notify(dctx: Any, method: str, params: Any) -> None:
        return

    to_us, reads = anyio.create_memory_object_stream[Any](10)
    writes, from_us = anyio.create_memory_object_stream[Any](10)
    with to_us, reads, writes, from_us:
        peer = Peer(to_us, from_us)
        peer.send(request(1, "x"))
        peer.hang_up()
        await JSONRPCDispatcher(reads, Encoding(writes)).run(on_request, on_notify)
        assert (await peer.receive())["error"] == {"code": 7, "message": "No"}


async def test_streams_that_encode_get_ready_made_bytes_and_others_builtins() -> None:
    """A list that is cached as bytes must not be decoded on its way to a pipe."""

    async def ready(dctx: DispatchContext, params: Any) -> Any:
        return Encoded(b'{"a":1}')

    async with dispatching({"ready": ready}) as (peer, _):
        assert await peer.result(request(1, "ready")) == {"a": 1}


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [request(1, "echo")],
        None,
        5,
        "text",
        {},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "method": "", "id": None},
        request(None, "echo"),
        request(1.5, "echo"),
        request(True, "echo"),
        request({}, "echo"),
    ],
)
async def test_a_message_that_is_none_is_answered_without_an_id_and_the_next_is_served(bad: Any) -> None:
    """Nobody can be told by id, but somebody should be told."""
    async with dispatching({"echo": echo}) as (peer, _):
        peer.send(bad, request(2, "echo"))
        first, second = await peer.waiting()
        assert (first["id"], first["error"]["code"]) == (None, -32600)
        assert second["id"] == 2


async def test_a_broken_request_is_answered_under_its_id() -> None:
    """Its sender waits for it."""
    async with dispatching({"echo": echo}) as (peer, _):
        peer.send({"id": 99, "method": "echo"}, request("a", ""), request(7, "echo", [1]), request(2, "echo"))
        answers = await peer.waiting()
        told = [(answer["id"], answer["error"]["code"]) for answer in answers[:3]]
        assert told == [(99, -32600), ("a", -32600), (7, -32602)]
        assert answers[3]["id"] == 2


async def test_broken_notifications_and_responses_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """An error under the id of a response would pass for the answer to the peer's own request of that id."""
    async with dispatching({"echo": echo}) as (peer, _):
        peer.send(
            note("x", [1]),
            {"method": "x"},
            {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "m"}},
            {"jsonrpc": "2.0", "id": 1, "error": "text"},
            {"id": 1, "result": {}},
        )
        assert await peer.waiting() == []
        assert await peer.result(request(2, "echo")) == {"params": None}
    assert caplog.text.count("Dropped a malformed message") == 5


async def test_what_reading_produced_instead_of_a_message_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that are no JSON are -32700 with a null id; the loop goes on."""
    async with dispatching({"echo": echo}) as (peer, _):
        peer.send(DecodeError("Not JSON"), RuntimeError("secret"))
        assert await peer.receive() == {
            "jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Not JSON"},
        }  # fmt: skip
        assert (await peer.receive())["error"] == {"code": -32603, "message": "Internal error"}
        assert await peer.result(request(2, "echo")) == {"params": None}
    assert "secret" in caplog.text


async def test_typed_messages_and_bare_ones_are_taken_too() -> None:
    """Two dispatchers may be joined by plain memory object streams, without bytes between."""
    seen: list[Any] = []

    async def hear(dctx: DispatchContext, params: Any) -> None:
        seen.append(params)

    async with dispatching({"echo": echo}, {"n": hear}) as (peer, _):
        peer.to_server.send_nowait(StreamMessage(JsonRpcRequest(1, "echo", {"a": 1})))
        peer.to_server.send_nowait(JsonRpcNotification("n", {"b": 1}))
        peer.to_server.send_nowait(request(2, "echo"))
        assert [answer["id"] for answer in await peer.waiting()] == [1, 2]
        assert seen == [{"b": 1}]


async def test_each_message_brings_its_transport_facts() -> None:
    """The dispatcher's own stand in where a message brings none."""
    seen: list[TransportContext] = []

    async def look(dctx: DispatchContext, params: Any) -> Any:
        seen.append(dctx.transport)
        return {}

    async with dispatching({"look": look}, transport=TransportContext("ours")) as (peer, _):
        await peer.result(request(1, "look"))
        peer.transport = TransportContext("theirs", can_send_request=False)
        await peer.result(request(2, "look"))
    assert [(found.kind, found.can_send_request) for found in seen] == [("ours", True), ("theirs", False)]


# -- ids in flight ----------------------------------------------------------------------------------------------------


async def test_an_id_that_is_in_flight_is_refused_and_the_first_left_alone() -> None:
    """Two under one id would swap their answers; the id is free once the first has its answer."""
    slow = Slow()
    async with dispatching({"slow": slow, "echo": echo}) as (peer, _):
        peer.send(request(1, "slow"), request(1, "echo"))
        assert (await peer.receive())["error"]["code"] == -32600
        assert len(slow.contexts) == 1
        slow.go.set()
        assert await peer.receive() == result(1, {"slow": True})
        assert await peer.result(request(1, "echo")) == {"params": None}


async def test_requests_in_flight_are_bounded() -> None:
    """A peer can not grow this process without end; room that is freed can be used again."""
    slow = Slow()
    async with dispatching({"slow": slow, "echo": echo}, max_in_flight=2) as (peer, _):
        peer.send(request(1, "slow"), request(2, "slow"), request(3, "echo"))
        assert (await peer.receive())["error"]["code"] == -32603
        slow.go.set()
        assert len(await peer.waiting()) == 2
        assert await peer.result(request(3, "echo")) == {"params": None}


async def test_notifications_being_handled_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """They are not answered, so nothing else would slow the peer down."""
    slow = Slow()
    async with dispatching(notes={"n": slow}, max_in_flight=3) as (peer, _):
        peer.send(*(note("n") for _ in range(5)))
        await settled()
        assert len(slow.contexts) == 3
        slow.go.set()
        await settled()
        peer.send(note("n"))
        await settled()
        assert len(slow.contexts) == 4
    assert caplog.text.count("too many notifications") == 2


# -- cancellation -----------------------------------------------------------------------------------------------------


def cancel(id: Any) -> dict[str, Any]:
    return note("notifications/cancelled", {"requestId": id})


async def test_a_cancelled_request_ends_without_an_answer() -> None:
    """Its clean-up runs, nothing more is said of it, the next request works and may have its id."""
    slow = Slow()
    async with dispatching({"slow": slow, "echo": echo}) as (peer, dispatcher):
        peer.send(request(7, "slow"))
        await slow.begun.wait()
        peer.send(cancel(7))
        await slow.ended.wait()
        assert slow.cancelled
        assert slow.contexts[0].cancel_requested
        assert await peer.waiting() == []
        assert dispatcher.in_flight == 0
        assert await peer.result(request(7, "echo")) == {"params": None}


async def test_a_request_cancelled_before_it_began_leaves_nothing() -> None:
    """Both arrive in one go; a coroutine that never ran must not leave a warning."""

    async def run(dctx: DispatchContext, params: Any) -> Any:
        await anyio.sleep_forever()

    async with dispatching({"run": run, "echo": echo}) as (peer, dispatcher):
        for id in range(50):
            peer.send(request(id, "run"), cancel(id))
        assert await peer.waiting() == []
        assert dispatcher.in_flight == 0
        assert await peer.result(request(1, "echo")) == {"params": None}


async def test_a_cancellation_of_nothing_is_ignored() -> None:
    """Unknown, finished, malformed; and what only equals an id in Python."""
    slow = Slow()
    async with dispatching({"slow": slow, "echo": echo}) as (peer, _):
        await peer.result(request(5, "echo"))
        peer.send(request(1, "slow"))
        await slow.begun.wait()
        peer.send(cancel(5), cancel(99), cancel("1"), cancel(True), cancel(1.0), cancel(None), cancel([1]), cancel({}))
        peer.send(note("notifications/cancelled"), note("notifications/cancelled", {}))
        assert await peer.waiting() == []
        assert not slow.cancelled
        slow.go.set()
        assert await peer.receive() == result(1, {"slow": True})


@pytest.mark.parametrize(("kept", "withdrawn"), [(1, "1"), ("1", 1)])
async def test_text_and_number_are_different_ids_to_cancel(kept: Any, withdrawn: Any) -> None:
    """Both in flight; one is withdrawn."""
    first, second = Slow(), Slow()
    async with dispatching({"first": first, "second": second}) as (peer, _):
        peer.send(request(kept, "first"), request(withdrawn, "second"))
        await settled()
        peer.send(cancel(withdrawn))
        await second.ended.wait()
        assert second.cancelled
        first.go.set()
        assert await peer.receive() == result(kept, {"slow": True})


@pytest.mark.parametrize("ends", ["returning", "failing", "cancelled"])
async def test_a_handler_that_delays_its_cancellation_is_not_answered_for(ends: str) -> None:
    """Nor can it speak any more; and its late end must not free the id of its successor."""
    begun, again, stop = anyio.Event(), anyio.Event(), anyio.Event()

    async def stubborn(dctx: DispatchContext, params: Any) -> Any:
        begun.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await dctx.notify("x")
                await dctx.progress(1)
                again.set()
                await stop.wait()
            if ends == "failing":
                raise ValueError("late") from None
            if ends == "cancelled":
                raise
        return {"late": True}

    slow = Slow()
    async with dispatching({"stubborn": stubborn, "slow": slow}) as (peer, dispatcher):
        peer.send(request(1, "stubborn", {"_meta": {"progressToken": "t"}}))
        await begun.wait()
        peer.send(cancel(1))
        await again.wait()
        peer.send(request(1, "slow"))
        await slow.begun.wait()
        stop.set()
        assert await peer.waiting() == []
        assert dispatcher.in_flight == 1
        peer.send(cancel(1))
        await slow.ended.wait()
        assert slow.cancelled


async def test_a_cancellation_that_crosses_the_answer_does_not_cut_it() -> None:
    """The answer is being written: half of it on a pipe would break every message behind it."""
    async with dispatching({"echo": echo}, buffer=0) as (peer, dispatcher):
        peer.send(request(1, "echo"))
        await settled()
        assert dispatcher.in_flight == 1
        peer.send(cancel(1), request(1, "echo"))
        await settled()
        answers = [await peer.receive(), await peer.receive()]
        assert result(1, {"params": None}) in answers
        assert {"error", "result"} == {key for answer in answers for key in ("error", "result") if key in answer}


async def test_an_inline_request_cannot_be_cancelled() -> None:
    """`initialize` may not be (2025-11-25, "Cancellation"), and it holds the reading anyway."""
    async with dispatching({"initialize": echo}) as (peer, _):
        peer.send(request(1, "initialize"), cancel(1))
        assert await peer.waiting() == [result(1, {"params": None})]


async def test_cancelled_is_applied_and_then_forwarded() -> None:
    """A server may want to know."""
    heard: list[Any] = []

    async def hear(dctx: DispatchContext, params: Any) -> None:
        heard.append(params)

    slow = Slow()
    async with dispatching({"slow": slow}, {"notifications/cancelled": hear}) as (peer, _):
        peer.send(request(1, "slow"))
        await slow.begun.wait()
        peer.send(cancel(1), cancel("nothing"))
        await settled()
        assert slow.cancelled
    assert sorted(str(params["requestId"]) for params in heard) == ["1", "nothing"]


async def test_an_early_answer_is_the_only_one() -> None:
    """A handler that is being abandoned answers and is heard no more."""
    go = anyio.Event()

    async def early(dctx: Any, params: Any) -> Any:
        await dctx.answer({"early": True})
        await dctx.answer({"twice": True})
        await dctx.notify("x")
        await go.wait()
        raise ValueError("late")

    async def early_error(dctx: Any, params: Any) -> Any:
        await dctx.answer(error=InternalError())
        return {"late": True}

    async with dispatching({"early": early, "early_error": early_error, "echo": echo}) as (peer, _):
        peer.send(request(1, "early"), request(2, "early_error"))
        answers = {answer["id"]: answer for answer in await peer.waiting()}
        assert answers[1] == result(1, {"early": True})
        assert answers[2]["error"]["code"] == -32603
        assert await peer.result(request(1, "echo")) == {"params": None}
        go.set()
        assert await peer.waiting() == []


# -- progress we report -----------------------------------------------------------------------------------------------


async def test_progress_is_sent_if_asked_for_and_only_while_it_rises() -> None:
    """Under the caller's token, whose type is kept; NaN and falls are dropped; nothing after the answer."""
    contexts: list[DispatchContext] = []

    async def work(dctx: DispatchContext, params: Any) -> Any:
        contexts.append(dctx)
        for value in (0, 1, 1, 0.5, float("nan"), 2.5):
            await dctx.progress(value, 10, "m")
        return {}

    async with dispatching({"work": work}) as (peer, _):
        peer.send(
            request(1, "work", {"_meta": {"progressToken": 1}}), request(2, "work", {"_meta": {"progressToken": "1"}})
        )
        found = await peer.waiting()
        for id, token in ((1, 1), (2, "1")):
            sent = [m["params"] for m in found if m.get("method") and type(m["params"]["progressToken"]) is type(token)]
            assert [params["progress"] for params in sent] == [0, 1, 2.5]
            assert sent[0] == {"progressToken": token, "progress": 0, "total": 10, "message": "m"}
            assert result(id, {}) in found
        for dctx in contexts:
            await dctx.progress(99)
        assert await peer.result(request(3, "work")) == {}
        await contexts[-1].progress(1)
        assert await peer.waiting() == []


@pytest.mark.parametrize("token", [None, True, 1.0, [], {}])
async def test_a_token_of_the_wrong_kind_asks_for_nothing(token: Any) -> None:
    """It could not be told apart from another on the way back."""

    async def work(dctx: DispatchContext, params: Any) -> Any:
        await dctx.progress(1)
        return {}

    async with dispatching({"work": work}) as (peer, _):
        peer.send(request(1, "work", {"_meta": {"progressToken": token}}))
        assert await peer.waiting() == [result(1, {})]


# -- questions to the peer --------------------------------------------------------------------------------------------


async def test_a_question_gets_its_answer_whatever_comes_between() -> None:
    """Ids rise, requests of the peer under the same id are no answers, and order does not matter."""
    async with dispatching({"echo": echo}) as (peer, dispatcher), anyio.create_task_group() as tasks:
        found: dict[str, Any] = {}

        async def ask(name: str) -> None:
            found[name] = await dispatcher.send_raw_request(name, {"n": name})

        tasks.start_soon(ask, "a")
        first = await peer.receive()
        tasks.start_soon(ask, "b")
        second = await peer.receive()
        assert first == request(1, "a", {"n": "a"})
        assert second == request(2, "b", {"n": "b"})
        peer.send(request(1, "echo"), result(2, {"of": "b"}), result(1, {"of": "a"}))
        assert await peer.receive() == result(1, {"params": None})
        await settled()
    assert found == {"a": {"of": "a"}, "b": {"of": "b"}}


@pytest.mark.parametrize("echo_id", [str, float])
async def test_a_peer_may_echo_our_id_and_token_as_text_or_float(echo_id: Any) -> None:
    """Ours are integers, so nothing else can be meant; some peers keep all ids as text, some have no integers."""
    heard: list[float] = []
    async with dispatching() as (peer, dispatcher), anyio.create_task_group() as tasks:

        async def reply() -> None:
            asked = await peer.receive()
            params = {"progressToken": echo_id(asked["id"]), "progress": 1}
            peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            peer.send(result(echo_id(asked["id"]), {"of": "a"}))

        tasks.start_soon(reply)
        with anyio.fail_after(30):
            on_progress = {"on_progress": lambda progress, total, message: heard.append(progress)}
            assert await dispatcher.send_raw_request("a", None, on_progress) == {"of": "a"}  # type: ignore[arg-type]
    assert heard == [1]


async def test_a_message_that_the_transport_refuses_fails_alone() -> None:
    """Over HTTP one POST may fail while the pair goes on; there is nothing to withdraw, and the next one works."""
    async with dispatching({"echo": echo}) as (peer, dispatcher), anyio.create_task_group() as tasks:
        send = dispatcher._write.send

        async def refuse(item: Any) -> None:
            raise LocalError("HTTP 503")

        dispatcher._write.send = refuse  # type: ignore[method-assign]
        with pytest.raises(LocalError, match="HTTP 503"):
            await dispatcher.send_raw_request("a", None)
        await dispatcher.notify("n")
        peer.send(request(1, "echo"))
        await settled()
        dispatcher._write.send = send  # type: ignore[method-assign]
        assert not dispatcher.is_closed
        assert await peer.waiting() == []

        async def reply() -> None:
            asked = await peer.receive()
            peer.send(result(asked["id"], {}))

        tasks.start_soon(reply)
        assert await dispatcher.send_raw_request("b", None) == {}


async def test_an_error_answer_raises_with_code_message_and_data() -> None:
    """As the peer said it; data absent and data null are different."""
    async with dispatching() as (peer, dispatcher):
        for data in ({"data": None}, {"data": [1]}, {}):
            async with anyio.create_task_group() as tasks:

                async def answer(data: Any = data) -> None:
                    asked = await peer.receive()
                    error = {"code": -1, "message": "No", **data}
                    peer.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})

                tasks.start_soon(answer)
                with pytest.raises(RemoteError) as caught:
                    await dispatcher.send_raw_request("a", None)
            assert caught.value.to_error().code == -1
            assert caught.value.message == "No"
            assert ({"data": caught.value.data} if "data" in data else {}) == data


async def test_an_answer_to_nothing_is_dropped() -> None:
    """Late, unknown, or under an id of another kind; and a null id is somebody's trouble with our message."""
    async with dispatching({"echo": echo}) as (peer, _):
        peer.send(result(1, {}), result("1", {}), {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}})
        assert await peer.waiting() == []
        assert await peer.result(request(2, "echo")) == {"params": None}


@pytest.mark.parametrize(
    "answer",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "m"}},
        {"jsonrpc": "2.0", "id": 1, "error": "text"},
        {"id": 1, "result": {}},
        result(1, None),
        result(1, [1]),
        result(1, "text"),
    ],
)
async def test_a_malformed_answer_fails_the_question_at_once(answer: dict[str, Any]) -> None:
    """Waiting for ever would be worse; it is a fault of this conversation, not an error of the peer's choice."""
    async with dispatching() as (peer, dispatcher), anyio.create_task_group() as tasks:

        async def reply() -> None:
            await peer.receive()
            peer.send(answer)

        tasks.start_soon(reply)
        with pytest.raises(LocalError, match="malformed"), anyio.fail_after(30):
            await dispatcher.send_raw_request("a", None)


async def test_a_question_from_a_handler_does_not_hold_up_the_reading() -> None:
    """Requests and notifications alike: their tasks wait, the loop reads on."""
    answers: list[Any] = []

    async def curious(dctx: DispatchContext, params: Any) -> Any:
        answers.append(await dctx.send_raw_request("q", None))
        return {}

    async with dispatching({"r": curious}, {"n": curious}) as (peer, _):
        for message in (note("n"), request(1, "r")):
            peer.send(message)
            asked = await peer.receive()
            assert asked["method"] == "q"
            peer.send(result(asked["id"], {"a": asked["id"]}))
            await settled()
        assert await peer.receive() == result(1, {})
    assert answers == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_a_question_while_serving_inline_raises_at_once(method: str) -> None:
    """Nobody would read the answer; the message says so."""
    caught: list[Exception] = []

    async def curious(dctx: DispatchContext, params: Any) -> Any:
        for ask in (dctx.send_raw_request, dispatcher.send_raw_request):
            try:
                await ask("q", None)
            except LocalError as error:
                caught.append(error)
        return {}

    async with dispatching({method: curious, "echo": echo}) as (peer, dispatcher):
        peer.send(request(1, method), request(2, "echo"))
        assert await peer.waiting() == [result(1, {}), result(2, {"params": None})]
    assert len(caught) == 2
    assert all(method in str(error) for error in caught)


async def test_a_transport_that_carries_no_questions_refuses_them() -> None:
    """The transport says so in its facts."""
    caught: list[Exception] = []

    async def curious(dctx: DispatchContext, params: Any) -> Any:
        assert not dctx.can_send_request
        try:
            await dctx.send_raw_request("q", None)
        except NoBackChannel as error:
            caught.append(error)
        return {}

    async with dispatching({"r": curious}, transport=TransportContext("x", can_send_request=False)) as (peer, _):
        assert await peer.result(request(1, "r")) == {}
    assert len(caught) == 1


async def test_giving_up_tells_the_peer_and_drops_the_late_answer() -> None:
    """Case 31: cancelling the awaiting task sends notifications/cancelled."""
    async with dispatching({"echo": echo}) as (peer, dispatcher), anyio.create_task_group() as tasks:

        async def ask() -> None:
            await dispatcher.send_raw_request("q", None)

        tasks.start_soon(ask)
        asked = await peer.receive()
        tasks.cancel_scope.cancel()
        told = await peer.receive()
        assert told["method"] == "notifications/cancelled"
        assert told["params"]["requestId"] == asked["id"]
        peer.send(result(asked["id"], {}))
        assert await peer.result(request(1, "echo")) == {"params": None}


async def test_giving_up_initialize_is_not_told() -> None:
    """It may not be cancelled. On a loaded machine the time may be over before it is sent."""
    async with dispatching({"echo": echo}) as (peer, dispatcher):
        with pytest.raises(RequestTimeout):
            await dispatcher.send_raw_request("initialize", None, {"timeout_s": 0.01})
        assert {message["method"] for message in await peer.waiting()} <= {"initialize"}


async def test_the_end_fails_questions_with_a_local_error() -> None:
    """Case 15: at once, and later ones too; it carries no code."""
    async with dispatching() as (peer, dispatcher), anyio.create_task_group() as tasks:
        caught: list[LocalError] = []

        async def ask() -> None:
            try:
                await dispatcher.send_raw_request("q", None)
            except ConnectionClosed as error:
                caught.append(error)

        tasks.start_soon(ask)
        await peer.receive()
        await peer.finish()
        await ask()
        await dispatcher.notify("x")
        assert len(caught) == 2
        assert not any(hasattr(error, "code") for error in caught)


# -- drain, broken streams, ends --------------------------------------------------------------------------------------


async def test_accepted_requests_are_answered_after_the_end_of_input() -> None:
    """Case 12: a file as input; the answers come, then the dispatcher ends."""
    slow = Slow()
    async with dispatching({"slow": slow}) as (peer, _):
        peer.send(*(request(id, "slow") for id in range(3)))
        peer.hang_up()
        await settled()
        assert not peer.ended.is_set()
        slow.go.set()
        await peer.ended.wait()
        assert len(await peer.waiting()) == 3


async def test_the_drain_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """A handler that never ends is cancelled, its clean-up runs, and the end comes."""
    slow = Slow()
    async with dispatching({"slow": slow}, drain_s=0.02) as (peer, _):
        peer.send(request(1, "slow"))
        peer.hang_up()
        await peer.ended.wait()
        assert slow.cancelled
        assert await peer.waiting() == []
    assert "Abandoned 1 requests" in caplog.text


async def test_a_question_in_the_drain_fails_at_once() -> None:
    """No answer can come any more, so the handler must not wait for it to the end of the bound."""
    caught: list[Exception] = []

    async def curious(dctx: DispatchContext, params: Any) -> Any:
        try:
            await dctx.send_raw_request("q", None)
        except ConnectionClosed as error:
            caught.append(error)
        return {"asked": True}

    async with dispatching({"r": curious}) as (peer, _):
        peer.send(request(1, "r"))
        await peer.receive()
        peer.hang_up()
        assert await peer.receive() == result(1, {"asked": True})
    assert len(caught) == 1


async def test_the_owner_is_told_of_the_end_before_the_drain() -> None:
    """Subscriptions end there, or the drain would wait for them."""
    slow = Slow()
    async with dispatching({"slow": slow}) as (peer, dispatcher):
        dispatcher.on_closing = slow.go.set
        peer.send(request(1, "slow"))
        await slow.begun.wait()
        peer.hang_up()
        assert await peer.receive() == result(1, {"slow": True})


async def test_a_peer_that_stops_reading_ends_the_loop_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """No answer can reach it; what still runs is cancelled."""
    slow = Slow()
    async with dispatching({"slow": slow, "echo": echo}) as (peer, dispatcher):
        peer.send(request(1, "slow"))
        await slow.begun.wait()
        peer.from_server.close()
        peer.send(request(2, "echo"))
        await settled()
        peer.send(request(3, "echo"))
        with anyio.fail_after(30):
            await peer.ended.wait()
        assert peer.error is None
        assert slow.cancelled
        with pytest.raises(ConnectionClosed):
            await dispatcher.send_raw_request("q", None)
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


async def test_an_os_error_while_writing_is_a_closed_peer() -> None:
    """A pipe says EPIPE its own way."""

    class Broken:
        async def send(self, item: Any) -> None:
            raise BrokenPipeError

        async def aclose(self) -> None:
            return

    async def on_request(dctx: Any, method: str, params: Any) -> Any:
        return {}

    async def on_notify(dctx: Any, method: str, params: Any) -> None:
        return

    to_us, reads = anyio.create_memory_object_stream[Any](10)
    with to_us, reads:
        to_us.send_nowait(request(1, "x"))
        to_us.send_nowait(request(2, "x"))
        to_us.close()
        with anyio.fail_after(30):
            await JSONRPCDispatcher(reads, Broken()).run(on_request, on_notify)


async def test_a_run_that_ends_before_its_requests_began_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """No coroutine that was never awaited, and no word of tasks that did not end; what `receive` raised comes out."""

    async def on_request(dctx: Any, method: str, params: Any) -> Any:
        await anyio.sleep_forever()

    async def on_notify(dctx: Any, method: str, params: Any) -> None:
        await anyio.sleep_forever()

    class Rude:
        """Hands over everything without ever giving way, then fails."""

        def __init__(self) -> None:
            self.left = [message for id in range(5) for message in (request(id, "x"), note("n"))]

        async def receive(self) -> Any:
            if self.left:
                return self.left.pop()
            raise ZeroDivisionError

        async def aclose(self) -> None:
            return

    writes, from_us = anyio.create_memory_object_stream[Any](100)
    with writes, from_us, pytest.raises(ZeroDivisionError):
        await JSONRPCDispatcher(Rude(), writes).run(on_request, on_notify)
    assert caplog.text == ""


async def test_cancelling_the_run_waits_for_the_clean_up_of_its_requests() -> None:
    """Handlers must not outlive the server that they belong to."""
    ended: list[str] = []
    begun = anyio.Event()

    async def careful(dctx: DispatchContext, params: Any) -> Any:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
                await anyio.sleep(0.01)
                ended.append("handler")

    to_us, reads = anyio.create_memory_object_stream[Any](10)
    writes, from_us = anyio.create_memory_object_stream[Any](10)
    with to_us, reads, writes, from_us:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                try:
                    await JSONRPCDispatcher(reads, writes).run(lambda d, m, p: careful(d, p), on_notify)
                finally:
                    ended.append("run")

            async def on_notify(dctx: Any, method: str, params: Any) -> None:
                return

            tasks.start_soon(run)
            to_us.send_nowait(StreamMessage(request(1, "x")))
            to_us.send_nowait(StreamMessage(request(2, "x")))
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert ended == ["handler", "handler", "run"]


async def test_raise_exceptions_ends_the_loop_even_while_it_waits_for_input() -> None:
    """For tests of servers: the handler's own exception comes out of `run`."""

    async def crash(dctx: DispatchContext, params: Any) -> Any:
        raise ZeroDivisionError("mine")

    async def refuse(dctx: DispatchContext, params: Any) -> Any:
        raise InvalidParams("No")

    async with dispatching({"crash": crash, "refuse": refuse}, raise_exceptions=True) as (peer, _):
        assert (await peer.error_of(request(1, "refuse")))["code"] == -32602
        peer.send(request(2, "crash"))
        with anyio.fail_after(30):
            await peer.ended.wait()
        assert isinstance(peer.error, ZeroDivisionError)
        assert await peer.waiting() == []


async def test_run_says_when_it_serves() -> None:
    """`task_status` is started before the first message is read."""
    to_us, reads = anyio.create_memory_object_stream[Any](10)
    writes, from_us = anyio.create_memory_object_stream[Any](10)

    async def nothing(dctx: Any, method: str, params: Any) -> Any:
        return {}

    with to_us, reads, writes, from_us:
        async with anyio.create_task_group() as tasks:
            dispatcher = JSONRPCDispatcher(reads, writes)

            async def run(*, task_status: Any) -> None:
                await dispatcher.run(nothing, nothing, task_status=task_status)

            with anyio.fail_after(30):
                await tasks.start(run)
            to_us.close()


# -- batches (2025-03-26) ---------------------------------------------------------------------------------------------


async def test_a_batch_is_taken_only_where_the_revision_has_them() -> None:
    """Each message as if it had come alone; `initialize` may not be among them, nor a batch, and it is not empty."""
    heard: list[Any] = []

    async def hear(dctx: DispatchContext, params: Any) -> None:
        heard.append(params)

    async with dispatching({"echo": echo}, {"n": hear}) as (peer, dispatcher):
        peer.send([request(1, "echo")])
        assert (await peer.receive())["error"]["code"] == -32600
        dispatcher.accepts_batches = lambda: True
        peer.send([request(1, "echo"), note("n", {"a": 1}), request(2, "initialize"), [request(3, "echo")], 5])
        answers = await peer.waiting()
        assert {answer["id"]: "result" if "result" in answer else answer["error"]["code"] for answer in answers} == {
            1: "result", 2: -32600, None: -32600,
        }  # fmt: skip
        assert len(answers) == 4
        assert heard == [{"a": 1}]
        peer.send([])
        assert (await peer.receive())["error"]["code"] == -32600
        peer.send([request(number, "echo") for number in range(1001)])
        assert (await peer.receive())["error"]["code"] == -32600
        assert await peer.waiting() == []


async def test_a_batch_of_answers_settles_its_questions() -> None:
    """JSON-RPC lets a peer answer several at once."""
    async with dispatching() as (peer, dispatcher), anyio.create_task_group() as tasks:
        dispatcher.accepts_batches = lambda: True
        found: list[Any] = []

        async def ask() -> None:
            found.append(await dispatcher.send_raw_request("q", None))

        tasks.start_soon(ask)
        tasks.start_soon(ask)
        await peer.receive()
        await peer.receive()
        peer.send([result(2, {"a": 2}), result(1, {"a": 1})])
        await settled()
        assert sorted(answer["a"] for answer in found) == [1, 2]


class DelayingWriter:
    """A write stream that records what is sent and when an answer was held back."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.events: list[str] = []

    async def send(self, item: StreamMessage) -> None:
        message: Any = item.message
        self.events.append(message.method if isinstance(message, JsonRpcNotification) else f"answer {message.id}")
        await self.inner.send(item)

    async def wait_until_read(self) -> None:
        self.events.append("wait until read")

    async def aclose(self) -> None:
        await self.inner.aclose()


@pytest.mark.parametrize("outcome", ["result", "error", "answered early"])
async def test_an_answer_waits_until_the_progress_before_it_was_read(outcome: str) -> None:
    """A client that drops a call's progress handler with its answer would lose what comes out of the same read."""

    async def work(dctx: DispatchContext, _: Any) -> Any:
        await dctx.progress(1)
        if outcome == "error":
            raise InvalidParams("no")
        if outcome == "answered early":
            await dctx.answer({})  # type: ignore[attr-defined]
        return {}

    async def quiet(_: DispatchContext, __: Any) -> Any:
        return {}

    async def on_request(dctx: DispatchContext, method: str, params: Any) -> Any:
        return await {"work": work, "quiet": quiet}[method](dctx, params)

    async def on_notify(_: DispatchContext, __: str, ___: Any) -> None: ...

    to_us, reads = anyio.create_memory_object_stream[Any](10)
    writes, from_us = anyio.create_memory_object_stream[Any](10)
    writer = DelayingWriter(writes)
    with to_us, reads, writes, from_us:
        await to_us.send(request(1, "work", {"_meta": {"progressToken": "t"}}))
        await to_us.send(request(2, "work"))  # wants no progress
        await to_us.send(request(3, "quiet", {"_meta": {"progressToken": "t"}}))
        await to_us.aclose()
        await JSONRPCDispatcher(reads, writer).run(on_request, on_notify)
    answered = writer.events.index("answer 1")
    assert writer.events.index("notifications/progress") < writer.events.index("wait until read") < answered
    assert writer.events.count("wait until read") == 1
    assert {"answer 2", "answer 3"} <= set(writer.events)


# -- questions nobody can answer, and what still runs -------------------------------------------------------------


def asking(started: anyio.Event, go: anyio.Event, told: list[Any]) -> Server[Any]:
    """A handler that waits in spite of its cancellation, and then asks."""
    server: Server[Any] = Server("asks")

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        started.set()
        with anyio.CancelScope(shield=True):
            while not go.is_set():
                with contextlib.suppress(anyio.get_cancelled_exc_class()):  # a bare task's goes through the shield
                    await go.wait()
            try:
                told.append(await ctx.session.send_request("roots/list"))
            except Exception as error:
                told.append(error)
        return {"content": []}

    server.add_request_handler("tools/call", call)
    return server


async def test_a_question_after_the_end_of_the_input_fails_at_once_and_the_answer_is_given() -> None:
    """Nobody can answer it any more, but the peer may still read what it has asked for."""
    started, go, told = anyio.Event(), anyio.Event(), list[Any]()
    async with serving(asking(started, go, told), serve_loop) as peer:
        await handshake(peer, roots={})
        peer.send(request(1, "tools/call", {"name": "x"}))
        await started.wait()
        peer.hang_up()
        await settled()
        go.set()
        assert (await peer.receive())["result"] == {"content": []}
    assert isinstance(told[0], ConnectionClosed)


async def test_a_withdrawn_request_asks_nothing() -> None:
    """Neither its handler nor a thread that it left behind."""
    started, go, told = anyio.Event(), anyio.Event(), list[Any]()
    async with serving(asking(started, go, told), serve_loop) as peer:
        await handshake(peer, roots={})
        peer.send(request(1, "tools/call", {"name": "x"}))
        await started.wait()
        peer.send(note("notifications/cancelled", {"requestId": 1}))
        await settled()
        go.set()
        while not told:
            await checkpoint()
        assert await peer.waiting() == []
    assert isinstance(told[0], ClientNotAskable)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_thread_of_a_withdrawn_call_asks_nothing(mode: str) -> None:
    """A sync tool runs on although its call is over; its question would come out of nowhere."""
    app: MCPServer[Any] = MCPServer("threads")
    started, go = threading.Event(), threading.Event()
    asked: list[Any] = []
    ended: list[Any] = []

    @app.tool
    def ask(ctx: Context) -> str:
        started.set()
        go.wait(30)
        try:
            ended.append(ctx.from_thread(ctx.elicit, "Sure?", bool))
        except BaseException as error:
            ended.append(error)
            raise
        return "no"

    @app.tool
    def step(ctx: Context) -> str:
        started.set()
        go.wait(30)
        try:
            ended.append(ctx.from_thread(ctx.step, "effect", lambda: asked.append("step")))
        except BaseException as error:
            ended.append(error)
            raise
        return "no"

    async with Client(app, mode=mode, elicitation_handler=asked.append) as client:
        for name in ("ask", "step"):
            started.clear()
            go.clear()
            ended.clear()
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, name)
                await anyio.to_thread.run_sync(started.wait)
                group.cancel_scope.cancel()
            go.set()
            with anyio.fail_after(30):
                while not ended:
                    await anyio.sleep(0.001)
            assert isinstance(ended[0], BaseException), ended
    assert asked == []


async def test_what_runs_is_bounded_not_what_has_an_id() -> None:
    """A peer that withdraws gets its id back at once, but not the place of what cleans up behind it."""
    running = 0
    most = 0
    go = anyio.Event()
    server: Server[Any] = Server("cleans up")

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await go.wait()
            running -= 1

    server.add_request_handler("tools/call", call)

    async def drive(server: Any, reads: Any, writes: Any, *, lifespan_state: Any) -> None:
        dispatcher = JSONRPCDispatcher(reads, writes, max_in_flight=5)
        connection = Connection.for_loop(dispatcher)
        await serve_connection(server, dispatcher, connection=connection, lifespan_state=lifespan_state)

    async with serving(server, drive) as peer:
        await handshake(peer)
        refused = 0
        for _ in range(20):
            peer.send(request(1, "tools/call", {"name": "x"}))
            await settled()
            peer.send(note("notifications/cancelled", {"requestId": 1}))
            for answer in await peer.waiting():
                assert answer["error"]["message"] == "Too many requests are in flight"
                refused += 1
        assert (most, refused) == (5, 15)
        go.set()
        await settled()
        assert running == 0
        peer.send(request(2, "tools/call", {"name": "x"}))
        await settled()
        assert running == 1
        peer.send(note("notifications/cancelled", {"requestId": 2}))
