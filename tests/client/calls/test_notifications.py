"""Notifications on their way to handlers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import anyio
import pytest

from ferrule.client.calls.notifications import MAX_WAITING, MAX_WAITING_BYTES, NotificationQueue


class _Tasks:
    """Keeps what is to run, for the test to run it."""

    def __init__(self) -> None:
        self.started: list[Coroutine[Any, Any, None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.started.append(work)


def test_a_sync_handler_is_called_at_once_and_without_a_task() -> None:
    """What a server sends during a call reaches it before the call returns."""
    tasks, seen = _Tasks(), list[int]()
    NotificationQueue(tasks.start).put(seen.append, 1)
    assert (seen, tasks.started) == ([1], [])


@pytest.mark.anyio
async def test_handlers_run_in_order_also_when_one_of_them_waits() -> None:
    """A sync handler after an async one waits for it."""
    tasks, seen = _Tasks(), list[str]()

    async def slow(value: str) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(value)

    queue = NotificationQueue(tasks.start)
    queue.put(slow, "first")
    queue.put(seen.append, "second")
    queue.put(slow, "third")
    assert (seen, len(tasks.started)) == ([], 1)
    await tasks.started.pop()
    assert seen == ["first", "second", "third"]
    queue.put(seen.append, "fourth")
    assert seen[3:] == ["fourth"]


@pytest.mark.anyio
async def test_a_handler_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is in the log; the connection and the next handlers go on."""
    tasks, seen = _Tasks(), list[str]()

    def fails() -> None:
        raise RuntimeError("sync")

    async def fails_later() -> None:
        raise RuntimeError("async")

    queue = NotificationQueue(tasks.start)
    queue.put(fails)
    queue.put(fails_later)
    queue.put(seen.append, "next")
    await tasks.started.pop()
    assert seen == ["next"]
    assert caplog.text.count("A handler of notifications failed") == 2


@pytest.mark.anyio
async def test_beyond_the_bound_the_oldest_are_dropped() -> None:
    """A server must not fill the memory of a client whose handler is slow."""
    tasks, seen = _Tasks(), list[int]()

    async def slow() -> None:
        pass

    queue = NotificationQueue(tasks.start)
    queue.put(slow)
    for number in range(MAX_WAITING + 10):
        queue.put(seen.append, number)
    await tasks.started.pop()
    assert seen == list(range(10, MAX_WAITING + 10))


@pytest.mark.anyio
async def test_beyond_the_bound_of_bytes_the_oldest_are_dropped() -> None:
    """Few large notifications fill the memory as well as many small ones; the newest is kept, however large."""
    tasks, seen = _Tasks(), list[Any]()

    async def slow() -> None:
        pass

    def put(queue: NotificationQueue, number: int, size: int) -> None:
        queue.put(lambda method, params: seen.append(params["number"]), "x", {"number": number, "data": "x" * size})

    queue = NotificationQueue(tasks.start)
    for _ in range(2):  # what was handled no longer counts
        queue.put(slow)
        for number in range(10):
            put(queue, number, MAX_WAITING_BYTES // 4)
        await tasks.started.pop()
        assert seen == [7, 8, 9]
        seen.clear()
    queue.put(slow)
    put(queue, 1, 1)
    put(queue, 2, MAX_WAITING_BYTES)
    await tasks.started.pop()
    assert seen == [2]
