"""Event loops under a seed: every await may be followed by a few turns of the loop, and asyncio's own has its own time.

Virtual time jumps to the next timer as soon as nothing can run and no descriptor is ready, so a minute of time-outs
costs nothing, and "it hangs" becomes a state that is seen at once: nothing to run, nothing to read and no timer.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import types
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

__all__ = ["BACKENDS", "Stuck", "run_seeded"]

T = TypeVar("T")

MAX_VIRTUAL_S: Final = 900.0
MAX_TURNS: Final = 400_000
REAL_TIME_S: Final = 90.0


class Stuck(Exception):
    """Nothing can ever run again, or the schedule took more turns or time than any schedule needs."""


class _Jumping(selectors.DefaultSelector):
    """Waits for no timer: the loop's clock jumps instead."""

    clock: _VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        """See the class."""
        self.clock.turns += 1
        if self.clock.turns > MAX_TURNS:
            raise Stuck(f"more than {MAX_TURNS} turns")
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        ready = super().select(0.0005 if timeout is not None else 5.0)
        if ready:
            return ready
        if timeout is None:
            raise Stuck("nothing to run, nothing to read, no timer")
        self.clock.now += timeout
        if self.clock.now > MAX_VIRTUAL_S:
            raise Stuck(f"more than {MAX_VIRTUAL_S:g} virtual seconds")
        return []


class _VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with a clock of its own, which also knows its connections.

    Attributes:
        now: the time.
        turns: how often it has looked for events.
        connections: the transports of its sockets, for code that cuts them.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0
        self.connections: weakref.WeakSet[Any] = weakref.WeakSet()
        selector = _Jumping()
        selector.clock = self
        super().__init__(selector)

    def time(self) -> float:
        """See the class."""
        return self.now

    def _make_socket_transport(self, *args: Any, **options: Any) -> Any:
        made = super()._make_socket_transport(*args, **options)  # type: ignore[misc]
        self.connections.add(made)
        return made


@types.coroutine
def _jittered(work: Coroutine[Any, Any, T], draw: Callable[[], int]) -> Generator[Any, Any, T]:
    """``work``, resumed a few turns later than it could be. A cancellation may come in between, as it really may."""
    try:
        pending = work.send(None)
        while True:
            error: BaseException | None = None
            value: Any = None
            try:
                value = yield pending
            except BaseException as raised:
                error = raised
            if error is None:
                for _ in range(draw()):
                    try:
                        yield None
                    except BaseException as raised:
                        error = raised
                        break
            pending = work.send(value) if error is None else work.throw(error)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def _delayed(work: Any, draw: Callable[[], int]) -> Any:
    return await _jittered(work, draw)


def _install(loop: asyncio.AbstractEventLoop, rng: random.Random) -> None:
    def draw() -> int:
        return rng.choice((0, 0, 0, 0, 1, 1, 2, 5))

    def make(loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(_delayed(work, draw), loop=loop, **options)
        task.add_done_callback(lambda _: work.close())  # of one that is cancelled before its first step
        return task

    loop.set_task_factory(make)  # type: ignore[arg-type]


def _run_asyncio(work: Callable[[], Awaitable[T]], seed: int) -> T:
    return _run_on(_VirtualLoop, work, seed)


def _run_uvloop(work: Callable[[], Awaitable[T]], seed: int) -> T:
    import uvloop

    return _run_on(uvloop.new_event_loop, work, seed)


def _run_on(make: Callable[[], asyncio.AbstractEventLoop], work: Callable[[], Awaitable[T]], seed: int) -> T:
    async def main() -> T:
        _install(asyncio.get_running_loop(), random.Random(f"delays {seed}"))
        return await asyncio.create_task(_awaited(work))

    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(main())


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


def _run_trio(work: Callable[[], Awaitable[T]], seed: int, *, has_processes: bool = False) -> T:
    import trio
    import trio.testing
    from trio._core import _run

    _run._r = random.Random(f"delays {seed}")  # trio runs what is ready in random order; this names the order
    clock = None if has_processes else trio.testing.MockClock(autojump_threshold=0)
    return trio.run(_awaited, work, clock=clock)


def _run_trio_in_real_time(work: Callable[[], Awaitable[T]], seed: int) -> T:
    return _run_trio(work, seed, has_processes=True)


BACKENDS: Final[dict[str, Callable[[Callable[[], Awaitable[Any]], int], Any]]] = {
    "asyncio": _run_asyncio,
    "uvloop": _run_uvloop,
    "trio": _run_trio,
    "trio-real": _run_trio_in_real_time,
}


def run_seeded(backend: str, work: Callable[[], Awaitable[T]], seed: int) -> T:
    """Run a coroutine function under the delays that a seed names.

    Raises:
        Stuck: on asyncio, where the loop sees it.
    """
    return BACKENDS[backend](work, seed)  # type: ignore[no-any-return]
