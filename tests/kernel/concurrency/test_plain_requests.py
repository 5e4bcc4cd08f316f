"""Requests of one future each, and the timer that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.kernel.concurrency.plain_requests import Deadlines, PlainRequest

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


async def test_one_timer_serves_all_requests() -> None:
    """It is moved only for a deadline before all others."""
    clock: Any = Clock()
    requests = {id: PlainRequest(clock) for id in range(4)}
    deadlines = Deadlines(clock, requests)
    for id, wait_s in enumerate((10, 20, 5, 20)):
        deadlines.add(requests[id], wait_s)
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
    deadlines.add(PlainRequest(clock), 1)
    deadlines.close()
    assert clock.timers == []


async def test_only_the_first_settlement_counts() -> None:
    """An answer and the end of the channel may come in one pass of the loop."""
    request = PlainRequest(asyncio.get_running_loop())
    request.settle({"a": 1})
    request.settle(error=ValueError())
    assert (request.result, request.error, request.is_settled) == ({"a": 1}, None, True)
