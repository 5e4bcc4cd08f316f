"""Requests of one future each, and the timer that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.kernel.concurrency.plain_requests import Deadlines, PlainRequest, PlainScope

pytestmark = pytest.mark.anyio


class Clock:
    """An event loop's clock that the test moves; everything else is the running loop's."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now

    def create_future(self) -> Any:
        return self._loop.create_future()

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        entry = when, callback
        self.timers.append(entry)
        clock = self

        class Handle:
            def cancel(self) -> None:
                clock.timers.remove(entry)

        return Handle()

    def advance(self, to: float) -> None:
        self.now = to
        for entry in [entry for entry in self.timers if entry[0] <= to]:
            self.timers.remove(entry)
            entry[1]()


def set_deadline(deadlines: Deadlines, request: PlainRequest, wait_s: float) -> None:
    request.deadline = deadlines.now() + wait_s
    deadlines.note(request.deadline)


async def test_one_timer_serves_all_requests() -> None:
    """It is moved only for a deadline before all others."""
    clock: Any = Clock()
    requests = {id: PlainRequest(clock) for id in range(4)}
    deadlines = Deadlines(clock, requests)
    for id, wait_s in enumerate((10, 20, 5, 20)):
        set_deadline(deadlines, requests[id], wait_s)
        assert len(clock.timers) == 1
    clock.advance(105)
    assert [request.future.done() for request in requests.values()] == [False, False, True, False]
    assert not requests[2].has_response
    requests[0].settle({"a": 1})
    assert requests[0].has_response
    clock.advance(110)
    assert [at for at, _ in clock.timers] == [120]
    clock.advance(120)
    assert requests[1].future.done()
    assert requests[3].future.done()
    assert clock.timers == []
    set_deadline(deadlines, PlainRequest(clock), 1)
    deadlines.close()
    assert clock.timers == []


async def test_only_the_first_settlement_counts() -> None:
    """An answer and the end of the channel may come in one pass of the loop."""
    request = PlainRequest(asyncio.get_running_loop())
    request.settle({"a": 1})
    request.settle(error=ValueError())
    assert (request.result, request.error, request.is_settled) == ({"a": 1}, None, True)


async def test_a_scope_ends_its_body_and_takes_the_cancellation_back() -> None:
    """The task continues as if it had not been cancelled."""
    scopes: dict[int, PlainScope] = {}
    deadlines = Deadlines(asyncio.get_running_loop(), scopes)
    scopes[1] = scope = PlainScope(deadlines)
    scope.deadline = deadlines.now() + 0.01
    with scope:
        await asyncio.sleep(1000)
    assert scope.cancel_called
    task: Any = asyncio.current_task()
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_scope_that_was_ended_before_it_began_runs_nothing() -> None:
    """A connection may close between the making of a call and its sending."""
    scope = PlainScope(Deadlines(asyncio.get_running_loop(), {}))
    scope.cancel()
    with scope:
        await asyncio.sleep(1000)
    assert scope.cancel_called


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_cancellation_by_another_task_continues(is_first: bool) -> None:
    """Also where both come before the task runs again."""
    scope = PlainScope(Deadlines(asyncio.get_running_loop(), {}))

    async def body() -> None:
        with scope:
            await asyncio.sleep(1000)
        raise AssertionError("the cancellation was lost")

    task = asyncio.ensure_future(body())
    await asyncio.sleep(0)
    for cancel in (task.cancel, scope.cancel) if is_first else (scope.cancel, task.cancel):
        cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_body_is_not_hidden_by_a_scope_that_ends() -> None:
    """A failure while the body ends is a failure."""
    scope = PlainScope(Deadlines(asyncio.get_running_loop(), {}))

    async def body() -> None:
        with scope:
            scope.cancel()
            try:
                await asyncio.sleep(1000)
            finally:
                raise ValueError("while ending")

    with pytest.raises(ValueError, match="while ending"):
        await body()


async def test_a_deadline_that_moves_is_kept() -> None:
    """Progress moves it later, and a sign-in stops it for a while."""
    clock: Any = Clock()
    scopes: dict[int, PlainScope] = {}
    deadlines = Deadlines(clock, scopes)
    scopes[1] = scope = PlainScope(deadlines)
    with scope:
        scope.deadline = 110
        scope.deadline = float("inf")
        clock.advance(110)
        assert not scope.cancel_called
        assert clock.timers == []
        scope.deadline = 130
        clock.advance(129)
        assert not scope.cancel_called
        clock.advance(130)
        assert scope.cancel_called
        await asyncio.sleep(1000)


async def test_progress_moves_the_deadline_of_a_request_that_allows_it() -> None:
    """To so many seconds after the progress; there is no callback to await."""
    loop = asyncio.get_running_loop()
    waiting, fixed = PlainRequest(loop, 500), PlainRequest(loop)
    for request in (waiting, fixed):
        request.deadline = 10
    before = loop.time()
    assert waiting.receive_progress({}) is None
    assert fixed.receive_progress({}) is None
    assert before + 500 <= waiting.due <= loop.time() + 500
    assert fixed.due == 10


async def test_each_deadline_is_its_own() -> None:
    """A timer may run a little early, but a request that has half a second left goes on."""
    clock: Any = Clock()
    first, second = PlainRequest(clock), PlainRequest(clock)
    deadlines = Deadlines(clock, {1: first, 2: second})
    set_deadline(deadlines, first, 10)
    set_deadline(deadlines, second, 10.5)
    clock.advance(110)
    assert (first.is_over, second.is_over) == (True, False)
    assert [at for at, _ in clock.timers] == [110.5]
    clock.advance(110.5)
    assert second.is_over
