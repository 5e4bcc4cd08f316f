"""A stream pair as a dispatcher: requests that their peer cancels, and what runs after that."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from ferrule import Client, Context, MCPServer
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import DispatchContext
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.runner import serve_connection, serve_loop
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import (
    ClientNotAskable,
    InternalError,
)
from tests.kernel.duplex.support import Slow, asking, dispatching, echo
from tests.kernel.harness import handshake, note, request, result, serving, settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


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
    """A handler that was cancelled with an early answer sends nothing more."""
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


async def test_a_withdrawn_request_sends_no_requests() -> None:
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
async def test_the_thread_of_a_withdrawn_call_sends_no_requests(mode: str) -> None:
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


async def test_handlers_that_clean_up_and_those_that_run_are_bounded_together() -> None:
    """Their numbers are added; a withdrawn handler keeps its place until it ends."""
    go = anyio.Event()

    async def cleans_up(dctx: DispatchContext, params: Any) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await go.wait()

    async with dispatching({"m": cleans_up, "echo": echo}, max_in_flight=6) as (peer, _):
        peer.send(*(request(id, "m") for id in (1, 2, 3, 4, 5)))
        await settled()
        peer.send(cancel(1), cancel(2), cancel(3))
        await settled()
        peer.send(request(6, "m"), request(7, "echo"))
        assert [answer["error"]["message"] for answer in await peer.waiting()] == ["Too many requests are in flight"]
        peer.send(*(cancel(id) for id in (4, 5, 6)))
        go.set()
        await settled()
        assert await peer.result(request(8, "echo")) == {"params": None}
