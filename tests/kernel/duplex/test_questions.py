"""A stream pair as a dispatcher: requests to the peer and progress."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import pytest

from ferrule.kernel.dispatch import DispatchContext, StreamMessage, TransportContext
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.runner import serve_loop
from ferrule.protocol.errors import (
    ConnectionClosed,
    InvalidParams,
    LocalError,
    NoBackChannel,
    RemoteError,
    RequestTimeout,
)
from ferrule.types import JsonRpcNotification
from tests.kernel.duplex.support import asking, dispatching, echo
from tests.kernel.harness import handshake, note, request, result, serving, settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_progress_is_sent_with_a_token_and_only_while_it_rises() -> None:
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
async def test_a_token_of_the_wrong_type_is_ignored(token: Any) -> None:
    """It could not be distinguished from another token in the notification."""

    async def work(dctx: DispatchContext, params: Any) -> Any:
        await dctx.progress(1)
        return {}

    async with dispatching({"work": work}) as (peer, _):
        peer.send(request(1, "work", {"_meta": {"progressToken": token}}))
        assert await peer.waiting() == [result(1, {})]


async def test_an_outbound_request_gets_its_response_among_other_messages() -> None:
    """Ids rise, requests of the peer under the same id are not answers, and order does not matter."""
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
    """A late one, or one with an unknown id or an id of another type; a null id is the peer's error about a message."""
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
    """The answer could not be read; the error names the reason."""
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
    """By the facts of the transport."""
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


async def test_a_given_up_request_is_cancelled_and_its_late_response_dropped() -> None:
    """Cancelling the awaiting task sends notifications/cancelled."""
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


async def test_a_given_up_initialize_is_not_cancelled() -> None:
    """It may not be cancelled. On a loaded machine the time may be over before it is sent."""
    async with dispatching({"echo": echo}) as (peer, dispatcher):
        with pytest.raises(RequestTimeout):
            await dispatcher.send_raw_request("initialize", None, {"timeout_s": 0.01})
        assert {message["method"] for message in await peer.waiting()} <= {"initialize"}


async def test_the_end_fails_questions_with_a_local_error() -> None:
    """At once, and later ones too; it carries no code."""
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


async def test_a_question_after_the_end_of_the_input_fails_at_once_and_the_answer_is_given() -> None:
    """No answer can arrive any more, but the peer may still read the response."""
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
