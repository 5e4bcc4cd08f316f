"""Time-outs and progress of one question, in virtual time where time decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from ferrule.kernel.dispatch import CallOptions
from ferrule.kernel.outbound_request import MAX_PROGRESS_BACKLOG, OutboundRequest, pause_timeout_during_progress
from ferrule.protocol.errors import RequestTimeout
from tests.kernel.duplex.support import dispatching, echo
from tests.kernel.harness import request, result, settled

both_loops = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


def in_virtual_time(test: Callable[[], Awaitable[None]]) -> None:
    """Run on a clock that jumps to the next deadline whenever nothing else can happen."""
    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))


async def waited(options: CallOptions, *, progress_at: list[float] = [], answer_at: float | None = None) -> Any:  # noqa: B006
    """How a question ended and when: (time, result or the error)."""
    question = OutboundRequest(None)
    started = trio.current_time()
    ended: list[Any] = []
    async with trio.open_nursery() as nursery:

        async def feed() -> None:
            times: list[float] = [*progress_at, *([] if answer_at is None else [answer_at])]
            for at in sorted(times):
                await trio.sleep_until(started + at)
                if at == answer_at:
                    question.settle({"a": 1})
                else:
                    question.receive_progress({"progress": at})

        nursery.start_soon(feed)
        try:
            await question.wait("q", options)
            ended.append((trio.current_time() - started, question.result))
        except RequestTimeout as error:
            ended.append((trio.current_time() - started, error.timeout_s))
        nursery.cancel_scope.cancel()
    return ended[0]


@pytest.mark.parametrize(
    ("options", "progress_at", "answer_at", "expected"),
    [
        # Without options a question waits for ever.
        ({}, [], 1e6, (1e6, {"a": 1})),
        ({"timeout_s": None}, [1, 2], 1e6, (1e6, {"a": 1})),
        ({"timeout_s": 10}, [], 9, (9, {"a": 1})),
        ({"timeout_s": 10}, [], 11, (10, 10)),
        ({"timeout_s": 0}, [], 1, (0, 0)),
        # Progress that does not reset changes nothing, however much of it comes.
        ({"timeout_s": 10}, [2, 4, 6, 8], 20, (10, 10)),
        ({"timeout_s": 10}, [2, 4, 6, 8], 9, (9, {"a": 1})),
        ({"timeout_s": 10, "reset_on_progress": False}, [9], 11, (10, 10)),
        # Progress that resets starts the time again from itself.
        ({"timeout_s": 10, "reset_on_progress": True}, [9, 18, 27], 36, (36, {"a": 1})),
        ({"timeout_s": 10, "reset_on_progress": True}, [9, 18], 30, (28, 10)),
        ({"timeout_s": 10, "reset_on_progress": True}, [], 30, (10, 10)),
        # The cap is absolute, and says so.
        ({"timeout_s": 10, "reset_on_progress": True, "max_total_s": 25}, [9, 18, 27], 30, (25, 25)),
        ({"timeout_s": 10, "reset_on_progress": True, "max_total_s": 25}, [9, 18], 24, (24, {"a": 1})),
        ({"timeout_s": 10, "max_total_s": 25}, [], 30, (10, 10)),
        ({"max_total_s": 25}, [1, 2], 30, (25, 25)),
        ({"timeout_s": 30, "max_total_s": 25}, [], 30, (25, 25)),
    ],
)
def test_when_a_question_ends(options: CallOptions, progress_at: list[float], answer_at: float, expected: Any) -> None:
    """Every combination of time-out, reset and cap."""

    async def test() -> None:
        assert await waited(options, progress_at=progress_at, answer_at=answer_at) == expected

    in_virtual_time(test)


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
class TestOverAStreamPair:
    """The same through the dispatcher, on both event loops."""

    async def test_a_timeout_is_a_local_error_and_cancels_the_request(self) -> None:
        """Notifications/cancelled with the request's id; a late answer is dropped."""
        async with dispatching({"echo": echo}) as (peer, dispatcher):
            with pytest.raises(RequestTimeout) as caught:
                await dispatcher.send_raw_request("q", None, {"timeout_s": 0.01})
            assert (caught.value.method, caught.value.timeout_s) == ("q", 0.01)
            asked, told = await peer.waiting()
            assert told["method"] == "notifications/cancelled"
            assert told["params"]["requestId"] == asked["id"]
            peer.send(result(asked["id"], {}))
            assert await peer.result(request(1, "echo")) == {"params": None}

    @pytest.mark.parametrize("kind", ["plain", "async"])
    async def test_progress_reaches_the_caller_in_order_and_before_the_response(self, kind: str) -> None:
        """Under a token of ours; the caller's own `_meta` is kept; a callback may be a coroutine function or not."""
        seen: list[Any] = []

        def plain(*progress: Any) -> None:
            seen.append(progress)

        async def slow(*progress: Any) -> None:
            await anyio.sleep(0.01)
            seen.append(progress)

        async with dispatching() as (peer, dispatcher), anyio.create_task_group() as tasks:

            async def answer() -> None:
                asked = await peer.receive()
                assert asked["params"] == {"a": 1, "_meta": {"k": 2, "progressToken": asked["id"]}}
                for value in (1, 2, 3):
                    params = {"progressToken": asked["id"], "progress": value, "total": 3, "message": "m"}
                    peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                peer.send(result(asked["id"], {}))

            tasks.start_soon(answer)
            options: CallOptions = {"on_progress": plain if kind == "plain" else slow}
            await dispatcher.send_raw_request("q", {"a": 1, "_meta": {"k": 2}}, options)
            assert seen == [(1, 3, "m"), (2, 3, "m"), (3, 3, "m")]

    async def test_a_progress_callback_may_send_a_request(self) -> None:
        """It must not hold up the reading, where the answer to its own question would come."""
        async with dispatching() as (peer, dispatcher), anyio.create_task_group() as tasks:
            inner: list[Any] = []

            async def curious(*progress: Any) -> None:
                inner.append(await dispatcher.send_raw_request("inner", None))

            async def answer() -> None:
                asked = await peer.receive()
                params = {"progressToken": asked["id"], "progress": 1}
                peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                also = await peer.receive()
                peer.send(result(also["id"], {"of": also["method"]}), result(asked["id"], {"of": asked["method"]}))

            tasks.start_soon(answer)
            with anyio.fail_after(30):
                found = await dispatcher.send_raw_request("outer", None, {"on_progress": curious})
            assert (found, inner) == ({"of": "outer"}, [{"of": "inner"}])

    async def test_a_crashing_progress_callback_costs_nothing_but_a_log_line(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Neither the answer nor the callbacks after it."""
        seen: list[float] = []

        def plain(progress: float, *_: Any) -> None:
            seen.append(progress)
            raise ValueError

        async def waits(progress: float, *_: Any) -> None:
            await anyio.lowlevel.checkpoint()
            plain(progress)

        async with dispatching() as (peer, dispatcher):
            for callback in (plain, waits):
                async with anyio.create_task_group() as tasks:

                    async def answer() -> None:
                        asked = await peer.receive()
                        for value in (1, 2):
                            params = {"progressToken": asked["id"], "progress": value}
                            peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                        peer.send(result(asked["id"], {}))

                    tasks.start_soon(answer)
                    await dispatcher.send_raw_request("q", None, {"on_progress": callback})
        assert seen == [1, 2, 1, 2]
        assert caplog.text.count("A progress callback failed") == 4

    async def test_progress_of_no_open_request_is_an_ordinary_notification(self) -> None:
        """A legacy client reports progress on a task of its own, or under a token that ended."""
        heard: list[Any] = []

        async def hear(dctx: Any, params: Any) -> None:
            heard.append(params["progressToken"])

        async with dispatching(notes={"notifications/progress": hear}) as (peer, dispatcher):
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    await dispatcher.send_raw_request("q", None, {"reset_on_progress": True, "timeout_s": 5})

                tasks.start_soon(ask)
                asked = await peer.receive()
                assert asked["params"]["_meta"] == {"progressToken": asked["id"]}
                for token in (asked["id"], 99, True, None):
                    params = {"progressToken": token, "progress": 1}
                    peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                peer.send({"jsonrpc": "2.0", "method": "notifications/progress"} | {"params": {"progressToken": "x"}})
                await settled()
                peer.send(result(asked["id"], {}))
        assert sorted(map(str, heard)) == sorted(["99", "True", "None", "x"])


def test_a_slow_callback_does_not_make_the_backlog_grow() -> None:
    """A peer that floods is answered with the newest values; each replaces the last."""

    async def test() -> None:
        seen: list[float] = []

        async def slow(progress: float, *_: Any) -> None:
            await trio.sleep(1)
            seen.append(progress)

        question = OutboundRequest(slow)
        running = question.receive_progress({"progress": 0})
        assert running is not None
        flood = MAX_PROGRESS_BACKLOG * 3
        for value in range(1, flood + 1):
            assert question.receive_progress({"progress": value}) is None
        question.settle({})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: running)
            await question.wait("q", {})
        assert len(seen) == MAX_PROGRESS_BACKLOG + 1
        assert seen[0] == 0
        assert seen[-1] == flood

    in_virtual_time(test)


def test_no_progress_is_reported_after_giving_up() -> None:
    """The callback that runs ends; those that wait are dropped."""

    async def test() -> None:
        seen: list[float] = []

        async def slow(progress: float, *_: Any) -> None:
            await trio.sleep(1)
            seen.append(progress)

        question = OutboundRequest(slow)
        running = question.receive_progress({"progress": 1})
        question.receive_progress({"progress": 2})
        question.drop_progress()
        question.receive_progress({"progress": 3})
        assert running is not None
        await running
        assert seen == [1]

    in_virtual_time(test)


@pytest.mark.parametrize(
    ("resets", "cap_s", "ends_at"),
    [(False, 1000, 110), (True, 1000, 114), (False, 50, 50), (True, 50, 50), (False, 105, 105)],
)
def test_the_time_of_a_progress_callback_does_not_count(resets: bool, cap_s: float, ends_at: float) -> None:
    """A call of 10 s meets a callback of 100 s after 4 s: 6 s are left after it, or 10 where progress restarts the
    clock; the cap holds in any case."""

    async def test() -> None:
        started = trio.current_time()

        async def slow(*_: Any) -> None:
            await trio.sleep(100)

        with anyio.CancelScope(deadline=started + 10) as scope:
            told = pause_timeout_during_progress(scope, 10, started + cap_s, resets, slow)
            await trio.sleep(4)
            waiting = told(1, None, None)
            assert waiting is not None
            await waiting
            await trio.sleep_forever()
        assert trio.current_time() - started == ends_at

    in_virtual_time(test)


@pytest.mark.parametrize(("resets", "ends_at"), [(False, 10), (True, 14)])
@pytest.mark.parametrize("told", [None, lambda *_: None])
def test_progress_without_a_slow_callback_only_restarts_the_clock(resets: bool, ends_at: float, told: Any) -> None:
    """If it may."""

    async def test() -> None:
        started = trio.current_time()
        with anyio.CancelScope(deadline=started + 10) as scope:
            on_progress = pause_timeout_during_progress(scope, 10, started + 1000, resets, told)
            await trio.sleep(4)
            assert on_progress(1, None, None) is None
            await trio.sleep_forever()
        assert trio.current_time() - started == ends_at

    in_virtual_time(test)
