"""A thread that waits for an event loop runs functions for it."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from ferrule.protocol.errors import LocalError
from ferrule.transports.loop_thread import HostThread, LoopThread, host_thread


class Job:
    """A function; its outcome is a future's."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.future: Future[Any] = Future()
        self._function = function

    def run(self) -> tuple[Any, BaseException | None]:
        try:
            return self._function(), None
        except BaseException as error:
            return None, error

    def deliver(self, result: Any, error: BaseException | None) -> None:
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


@pytest.fixture(scope="module")
def loop() -> LoopThread:
    """One for all tests: it ends with the process."""
    return LoopThread("test")


async def here(function: Callable[[], Any], *, may_wait: bool = False) -> Any:
    """Run a function in the thread that waits, or say that it is busy."""
    host = host_thread.get()
    assert host is not None
    job = Job(function)
    return await asyncio.wrap_future(job.future) if host.offer(job, may_wait=may_wait) else "busy"


def test_functions_run_in_the_waiting_thread_one_after_the_other(loop: LoopThread) -> None:
    async def use() -> list[Any]:
        return [await here(threading.current_thread) for _ in range(50)]

    assert HostThread().wait_for(loop, use()) == [threading.current_thread()] * 50


def test_a_busy_thread_takes_a_function_that_may_wait(loop: LoopThread) -> None:
    done = threading.Event()

    async def use() -> list[Any]:
        slow = asyncio.ensure_future(here(lambda: done.wait(60)))
        await asyncio.sleep(0)
        refused = await here(lambda: "not busy")
        waiting = asyncio.ensure_future(here(lambda: "later", may_wait=True))
        await asyncio.sleep(0)
        assert not waiting.done()
        done.set()
        return [refused, await slow, await waiting, await here(lambda: "free again")]

    assert HostThread().wait_for(loop, use()) == ["busy", True, "later", "free again"]


def test_a_function_that_was_accepted_at_the_end_still_runs(loop: LoopThread) -> None:
    """The coroutine returns while a task of its own waits for the thread."""
    tasks: list[asyncio.Task[Any]] = []

    async def use() -> str:
        tasks.append(asyncio.ensure_future(here(lambda: "ran")))
        await asyncio.sleep(0)
        return "returned"

    assert HostThread().wait_for(loop, use()) == "returned"

    async def late() -> Any:
        return await tasks[0]

    assert loop.run(late()) == "ran"


def test_a_thread_that_has_left_takes_nothing(loop: LoopThread) -> None:
    hosts: list[HostThread | None] = []

    async def use() -> None:
        hosts.append(host_thread.get())

    host = HostThread()
    host.wait_for(loop, use())
    assert hosts == [host]
    assert not host.offer(Job(lambda: None))
    assert not host.offer(Job(lambda: None), may_wait=True)
    assert host_thread.get() is None


def test_what_is_left_fails_when_the_thread_is_interrupted(loop: LoopThread) -> None:
    """As the handler of a signal does, which ends a server's worker: no caller may wait for ever."""
    left = Job(lambda: "never")
    host = HostThread()

    class Interrupts(Job):
        def deliver(self, result: Any, error: BaseException | None) -> None:
            assert host.offer(left, may_wait=True)
            raise KeyboardInterrupt

    ended: Future[str] = Future()

    async def use() -> None:
        assert host.offer(Interrupts(lambda: None))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set_result("cancelled")
            raise

    with pytest.raises(KeyboardInterrupt):
        host.wait_for(loop, use())
    assert ended.result(60) == "cancelled"
    with pytest.raises(LocalError, match="has ended"):
        left.future.result(0)


def test_a_coroutine_that_cannot_start_leaves_no_open_thread(loop: LoopThread) -> None:
    host = HostThread()

    async def nothing() -> None: ...

    async def use() -> None:
        with pytest.raises(LocalError):
            host.wait_for(loop, nothing())

    loop.run(use())
    assert not host.offer(Job(lambda: None))


def test_an_exception_of_the_coroutine_is_raised(loop: LoopThread) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def cancel() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ValueError, match="no"):
        HostThread().wait_for(loop, fail())
    with pytest.raises(CancelledError):
        HostThread().wait_for(loop, cancel())


def test_a_thread_may_wait_within_a_function_that_it_runs(loop: LoopThread) -> None:
    """A function waits for the loop again, as one that asks a question; what that needs runs in the same thread."""

    async def inner(depth: int) -> Any:
        def wait() -> Any:
            return HostThread().wait_for(loop, inner(depth - 1)) if depth else threading.current_thread()

        return await here(wait)

    assert HostThread().wait_for(loop, inner(10)) is threading.current_thread()


@pytest.mark.parametrize("seed", range(60))
def test_each_function_runs_once_or_is_refused(loop: LoopThread, seed: int) -> None:
    """Random schedules: tasks that offer, wait, are cancelled, or outlive the coroutine; all of them end."""
    chance = random.Random(seed)
    ran: list[int] = []
    accepted: set[int] = set()
    tasks: list[asyncio.Task[Any]] = []

    def function(number: int) -> Any:
        ran.append(number)
        if chance.random() < 0.2:
            raise ValueError(number)
        if chance.random() < 0.2:
            return HostThread().wait_for(loop, one(1000 + number))
        return number

    async def one(number: int) -> Any:
        host = host_thread.get()
        assert host is not None
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        job = Job(lambda: function(number) if number < 1000 else ran.append(number))
        if not host.offer(job, may_wait=chance.random() < 0.5):
            return "refused"
        accepted.add(number)
        return await asyncio.wrap_future(job.future)

    async def body() -> None:
        tasks.extend(asyncio.ensure_future(one(number)) for number in range(20))
        await asyncio.wait(tasks[: chance.randrange(1, 20)])

    async def rest() -> list[Any]:
        return await asyncio.gather(*tasks, return_exceptions=True)

    HostThread().wait_for(loop, body())
    assert len(loop.run(rest())) == 20
    assert sorted(ran) == sorted(accepted)
    assert len(ran) == len(set(ran))


def test_a_spawned_coroutine_is_cancelled_by_what_spawn_returns(loop: LoopThread) -> None:
    """Its caller has no future: a signal's handler that raises in the waiting thread must end it all the same."""
    started, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    cancel = loop.spawn(wait())
    assert started.wait(60)
    cancel()
    assert ended.wait(60)
    cancel()  # nothing is left


ENDS = """
import asyncio
from ferrule.transports.loop_thread import LoopThread

loop = LoopThread("ends")
both = asyncio.Barrier(2)

class Fails:
    async def aclose(self):
        raise ValueError

class Slow:
    async def aclose(self):
        await both.wait()
        print("closed")

async def nothing():
    pass

loop.run(nothing())
loop.open.update([Fails(), Slow(), Fails(), Slow()])
"""


def test_what_is_open_is_closed_together_at_the_end_of_the_process() -> None:
    """One server that is slow to end, or a close that fails, leaves no other process behind."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\nclosed\n", "")
