"""Sync functions never stop the loop: bounded threads, visible context variables, prompt pings."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import anyio
import pytest

from ferrule import Context, MCPServer, current_context
from ferrule.app.execution.threads import WorkerThreads, calling_loop
from tests.app.support import RecordingDispatch, ask, call

pytestmark = pytest.mark.anyio

mark: ContextVar[str] = ContextVar("mark")


@pytest.mark.usefixtures("any_backend")
async def test_results_and_exceptions_are_returned():
    """What the function returns or raises is what the caller gets."""
    threads = WorkerThreads()
    assert await threads.run(lambda a: a + 1, {"a": 1}) == 2

    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        await threads.run(fails, {})


async def test_stop_iteration_does_not_hang_the_caller():
    """A future refuses it; the caller would wait for ever."""

    def fails():
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await WorkerThreads().run(fails, {})


@pytest.mark.usefixtures("any_backend")
async def test_context_variables_are_visible_in_the_thread():
    """Request state lives in them."""
    mark.set("here")
    assert await WorkerThreads().run(lambda: mark.get(), {}) == "here"


async def test_no_more_threads_than_stated():
    """Two hundred calls at once use forty threads, and all of them are answered."""
    threads = WorkerThreads(max_threads=4)
    running, peak, lock = 0, 0, threading.Lock()
    gate = threading.Event()

    def work():
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        gate.wait(600)
        with lock:
            running -= 1
        return True

    async def release():
        while running < 4:
            await asyncio.sleep(0.001)
        gate.set()

    results = await asyncio.gather(*(threads.run(work, {}) for _ in range(200)), release())
    assert results[:-1] == [True] * 200
    assert (peak, threads.count) == (4, 4)


async def test_a_cancelled_call_is_abandoned_without_harm():
    """A thread cannot be ended; its late result must not surprise the loop."""
    threads = WorkerThreads(max_threads=1)
    started, gate = threading.Event(), threading.Event()

    def work():
        started.set()
        gate.wait(600)

    task = asyncio.ensure_future(threads.run(work, {}))
    queued = asyncio.ensure_future(threads.run(lambda: 1 / 0, {}))
    while not started.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert await threads.run(lambda: 5, {}) == 5


async def test_an_idle_thread_is_used_again():
    """One call after the other needs one thread."""
    threads = WorkerThreads()
    seen = {await threads.run(threading.get_ident, {}) for _ in range(20)}
    assert len(seen) <= 2
    assert threads.count <= 2


def test_the_same_pool_serves_one_loop_after_another():
    """Tests and serverless hosts start many loops in one process."""
    threads = WorkerThreads()
    for number in range(3):
        assert asyncio.run(threads.run(lambda number=number: number, {})) == number


async def test_a_thread_that_cannot_be_started_fails_one_call_and_not_those_after_it(monkeypatch: pytest.MonkeyPatch):
    """As in a container with a bound of threads; later calls waited for ever, and one of them ran the failed job."""
    pool = WorkerThreads(2)
    ran: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await pool.run(lambda: ran.append(1), {})
    assert pool.count == 0
    await asyncio.wait_for(pool.run(lambda: ran.append(2), {}), 30)
    assert (ran, pool.count) == ([2], 1)


async def test_without_a_further_thread_jobs_wait_for_one_that_runs(monkeypatch: pytest.MonkeyPatch):
    pool = WorkerThreads(2)
    go = threading.Event()
    first = asyncio.ensure_future(pool.run(go.wait, {}))
    while not pool.count:
        await asyncio.sleep(0)
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    second = asyncio.ensure_future(pool.run(lambda: 2, {}))
    await asyncio.sleep(0)
    go.set()
    async with asyncio.timeout(30):
        assert (await first, await second) == (True, 2)


def _no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_at_least_one_thread():
    """A pool of none would wait for ever."""
    with pytest.raises(ValueError, match="at least 1"):
        WorkerThreads(0)


async def test_two_hundred_sync_calls_leave_ping_and_initialize_prompt():
    """The loop is free while all threads are busy; order, not a clock, shows it."""
    app = MCPServer("x")
    gate = threading.Event()
    seen: list[str] = []

    @app.tool
    def slow(n: int, ctx: Context) -> int:
        assert current_context().request_id == ctx.request_id
        assert gate.wait(600)
        return n

    async def one(n: int):
        result = await call(app, "slow", {"n": n})
        seen.append("slow")
        assert result["structuredContent"] == n

    async with anyio.create_task_group() as group:
        for n in range(200):
            group.start_soon(one, n)
        while app.threads.count < app.threads.max_threads:
            await asyncio.sleep(0.001)
        assert await ask(app, "ping", version="2025-11-25") == {}
        assert "tools" in (await ask(app, "server/discover"))["capabilities"]
        seen.append("ping")
        gate.set()
    assert seen[0] == "ping"
    assert len(seen) == 201


@pytest.mark.usefixtures("any_backend")
async def test_a_sync_function_sends_messages_from_the_thread():
    """Progress and log are async; a sync tool reaches them through the loop that it works for."""
    app = MCPServer("x")

    @app.tool
    def work(ctx: Context) -> str:
        assert calling_loop() is not None
        ctx.from_thread(ctx.progress, 1, total=2)
        return "done"

    dispatch = RecordingDispatch()
    result = await call(app, "work", dispatch=dispatch)
    assert result["structuredContent"] == "done"
    assert dispatch.sent == [("progress", (1, 2, None))]


async def test_from_thread_refuses_to_block_the_loop():
    """On the loop it would wait for itself."""
    app = MCPServer("x")

    @app.tool
    async def work(ctx: Context) -> str:
        with pytest.raises(RuntimeError, match="worker thread"):
            ctx.from_thread(ctx.progress, 1)
        return "ok"

    assert (await call(app, "work"))["structuredContent"] == "ok"


@pytest.mark.anyio
async def test_jobs_that_block_all_run_at_the_same_time():
    """Each thread that takes a job wakes the next one, so that none waits behind another while threads are free."""
    threads = WorkerThreads(max_threads=8)
    together = threading.Barrier(8, timeout=10)
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(threads.run, together.wait, {})
    assert threads.count == 8


@pytest.mark.anyio
async def test_outcomes_that_arrive_together_wake_the_loop_once():
    """Not once for each: a wake-up is a system call."""
    threads = WorkerThreads(max_threads=1)
    loop = asyncio.get_running_loop()
    wakes = 0
    wake = loop.call_soon_threadsafe

    def counted(*args):
        nonlocal wakes
        wakes += 1
        return wake(*args)

    loop.call_soon_threadsafe = counted  # pyright: ignore[reportAttributeAccessIssue]
    try:
        done = threading.Event()
        jobs = [loop.create_task(threads.run(str, {})) for _ in range(50)]
        jobs.append(loop.create_task(threads.run(done.set, {})))
        await asyncio.sleep(0)
        assert done.wait(10)  # the one thread does them all while the loop stands still
        assert [await job for job in jobs] == [*[""] * 50, None]
    finally:
        del loop.call_soon_threadsafe
    assert 1 <= wakes < 10
