"""A stream pair as a dispatcher: the end of the input, broken streams, draining."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from ferrule.kernel.dispatch import DispatchContext, StreamMessage
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.protocol.errors import (
    ConnectionClosed,
    InvalidParams,
)
from tests.kernel.duplex.support import Slow, dispatching, echo
from tests.kernel.harness import note, request, result, settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_accepted_requests_are_answered_after_the_end_of_input() -> None:
    """A file as input; the answers come, then the dispatcher ends."""
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


async def test_on_closing_is_called_before_the_drain() -> None:
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
    assert "Abandoned" not in caplog.text  # nothing is waited for


async def test_a_failure_that_is_raised_ends_the_loop_without_a_drain(caplog: pytest.LogCaptureFixture) -> None:
    """A test wants to see the failure, and not to wait for requests that never end."""
    slow = Slow()

    async def fails(dctx: DispatchContext, params: Any) -> Any:
        raise ValueError("broken")

    async with dispatching({"slow": slow, "fails": fails}, raise_exceptions=True, drain_s=1000) as (peer, _):
        peer.send(request(1, "slow"))
        await slow.begun.wait()
        peer.send(request(2, "fails"))
        with anyio.fail_after(30):
            await peer.ended.wait()
        assert slow.cancelled
    assert isinstance(peer.error, ValueError)
    assert "Abandoned" not in caplog.text


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


async def test_run_reports_when_it_serves() -> None:
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
