"""A stream pair as a dispatcher: requests, notifications, broken messages, batches and bounds."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import pytest

from ferrule.kernel.dispatch import DispatchContext, StreamMessage, TransportContext
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.protocol.errors import (
    InvalidParams,
    MCPError,
)
from ferrule.types import JsonRpcNotification, JsonRpcRequest
from ferrule.wire.codec import Encoded
from ferrule.wire.faults import DecodeError
from tests.kernel.duplex.support import Slow, dispatching, echo
from tests.kernel.harness import Peer, note, request, result, settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_requests_run_at_once_and_each_answer_has_its_id() -> None:
    """A slow request does not delay others; ids keep their type, text or number."""
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


async def test_an_mcp_error_is_sent_and_any_other_is_masked(caplog: pytest.LogCaptureFixture) -> None:
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
async def test_a_malformed_message_is_answered_without_an_id_and_the_next_is_served(bad: Any) -> None:
    """The error has a null id, so that the peer gets one at all."""
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
    """Bytes that are not JSON get -32700 with a null id; the loop continues."""
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


async def test_texts_of_a_peer_are_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A peer could write lines of its own otherwise, of any length."""
    forged = "x\nERROR forged" + "y" * 1000
    async with dispatching({"echo": echo}) as (peer, _):
        peer.send({"jsonrpc": "2.0", "error": {"code": 1, "message": forged}})
        assert await peer.result(request(2, "echo")) == {"params": None}
    (line,) = [record.message for record in caplog.records if "could not read a message" in record.message]
    assert "\n" not in line
    assert len(line) < 300
