"""Opening several connections: with what answers, and without waiting for a server that hangs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import anyio

from ferrule.client.concurrent import gather
from ferrule.client.supervision.supervisor import ConnectionSupervisor

__all__ = ["in_time", "wait_opened"]

_SLICES: Final = 8


async def wait_opened(supervisors: Iterable[ConnectionSupervisor], open_s: float) -> None:
    """Wait until every first attempt has ended; after ``open_s`` seconds, only until one server is connected.

    Args:
        supervisors: the servers, started.
        open_s: seconds that all of them have.
    """
    waiting = list(supervisors)
    if not waiting or await in_time(lambda: _all_tried(waiting), open_s):
        return
    if any(each.is_up for each in waiting):
        return
    async with anyio.create_task_group() as group:

        async def first(each: ConnectionSupervisor) -> None:
            await each.first_attempt()
            if each.is_up:
                group.cancel_scope.cancel()

        for each in waiting:
            group.start_soon(first, each)


async def in_time(work: Callable[[], Awaitable[object]], seconds: float) -> bool:
    """Wait for something that may be waited for repeatedly; return whether it ended in so many seconds.

    The time is divided into parts, of which a process that was not given the processor for long loses only one.
    """
    for _ in range(_SLICES):
        with anyio.move_on_after(seconds / _SLICES):
            await work()
            return True
    return False


async def _all_tried(supervisors: Sequence[ConnectionSupervisor]) -> None:
    await gather([each.first_attempt() for each in supervisors])
