"""Work that another thread lets the event loop do."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ferrule.kernel.concurrency import from_thread as module
from ferrule.kernel.concurrency.from_thread import from_thread, runs_in


def test_the_loop_does_the_work_of_a_thread() -> None:
    """The thread gets the value, or the exception."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        assert runs_in(loop)
        assert not await asyncio.to_thread(runs_in, loop)
        assert await asyncio.to_thread(from_thread, loop, threading.get_ident) == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(from_thread, loop, lambda: 1 // 0)
        with pytest.raises(TimeoutError, match="of the work"):
            await asyncio.to_thread(from_thread, loop, times_out)

    asyncio.run(test())


def times_out() -> None:
    raise TimeoutError("of the work")


def test_another_loop_in_the_thread_is_not_the_loop() -> None:
    """A sync tool may run a loop of its own."""

    async def other(loop: asyncio.AbstractEventLoop) -> bool:
        return runs_in(loop)

    async def test() -> None:
        loop = asyncio.get_running_loop()
        assert not await asyncio.to_thread(lambda: asyncio.run(other(loop)))

    asyncio.run(test())


def test_a_thread_does_not_wait_for_a_loop_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for ever."""
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    loop = asyncio.new_event_loop()
    threading.Timer(0.05, loop.close).start()
    with pytest.raises(RuntimeError, match="closed"):
        from_thread(loop, threading.get_ident)
