"""The thread of a request serves it itself, and an event loop goes on where something waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import Any

import pytest

from ferrule.app.execution.threads import WorkerThreads, calling_loop, run_on_loop
from ferrule.kernel.concurrency.yielding import move_to_loop, request_thread, stepping_thread
from ferrule.transports.loop_thread import LoopThread, host_thread
from ferrule.transports.request_thread import SteppingThread


@pytest.fixture(scope="module")
def loop() -> LoopThread:
    """One for all tests: it ends with the process."""
    made = LoopThread("test")
    made.run(asyncio.sleep(0))
    return made


def thread_at(loop: LoopThread) -> SteppingThread:
    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    return SteppingThread(loop, loop.run(running()))


@pytest.fixture
def thread(loop: LoopThread) -> SteppingThread:
    return thread_at(loop)


def offered(job: Any) -> bool:
    """Run a function in the thread of its request, as the servers of Django do."""
    host = host_thread.get()
    return host is not None and host.offer(job)


@pytest.fixture
def pool() -> WorkerThreads:
    made = WorkerThreads(2)
    made.host = offered
    return made


def has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_what_waits_for_nothing_has_no_event_loop(
    thread: SteppingThread, loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "spawn", None)

    async def work() -> tuple[Any, ...]:
        return threading.current_thread(), has_loop(), stepping_thread(), host_thread.get()

    assert thread.serve(work()) == (threading.current_thread(), False, thread, thread)


def test_functions_run_in_the_thread_between_the_steps(
    thread: SteppingThread, pool: WorkerThreads, loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "spawn", None)
    found: list[Any] = []

    def function(number: int) -> int:
        found.append((number, threading.current_thread(), has_loop(), stepping_thread()))
        return number

    async def work() -> int:
        return await pool.run(function, {"number": 1}) + await pool.run(function, {"number": 2})

    assert thread.serve(work()) == 3
    assert found == [(number, threading.current_thread(), False, None) for number in (1, 2)]
    assert pool.count == 0


def test_exceptions_arrive(thread: SteppingThread, pool: WorkerThreads, loop: LoopThread) -> None:
    def fail() -> None:
        raise KeyError("function")

    async def work() -> None:
        with pytest.raises(KeyError, match="function"):
            await pool.run(fail, {})
        raise ValueError("coroutine")

    with pytest.raises(ValueError, match="coroutine"):
        thread.serve(work())


def test_variables_of_the_request_do_not_stay_in_the_thread(thread: SteppingThread, pool: WorkerThreads) -> None:
    """It serves other requests afterwards."""
    variable: ContextVar[str] = ContextVar("variable", default="none")

    def function() -> str:
        before = variable.get()
        variable.set("of the function")
        return before

    async def work() -> list[str]:
        variable.set("of the request")
        return [await pool.run(function, {}), variable.get()]

    assert thread.serve(work()) == ["of the request", "of the request"]
    assert (variable.get(), request_thread.get(), host_thread.get()) == ("none", None, None)


def test_the_event_loop_goes_on_where_it_is_asked_for(thread: SteppingThread, pool: WorkerThreads) -> None:
    """With the same context variables, and the thread still runs functions for it."""
    variable: ContextVar[str] = ContextVar("variable")

    async def work() -> list[Any]:
        token = variable.set("of the request")
        first = await pool.run(threading.current_thread, {})
        await move_to_loop()
        await asyncio.sleep(0)
        second = threading.current_thread(), has_loop(), stepping_thread()
        variable.reset(token)  # which must be in the same context
        await move_to_loop()
        return [first, *second]

    first, second, *rest = thread.serve(work())
    assert first is threading.current_thread()
    assert (second.name, rest) == ("test", [True, None])


def test_a_function_may_call_the_event_loop(thread: SteppingThread, pool: WorkerThreads) -> None:
    """As by ``ctx.from_thread``: the request then is a task of the event loop, which waits for the function."""
    seen: list[Any] = []

    async def on_loop(number: int) -> int:
        seen.append((number, threading.current_thread().name))
        await asyncio.sleep(0)
        return number

    def function() -> int:
        loop = calling_loop()
        assert loop is thread.loop
        return run_on_loop(on_loop(1), loop) + run_on_loop(on_loop(2), loop)

    async def work() -> tuple[int, str, bool]:
        result = await pool.run(function, {})
        await asyncio.sleep(0)
        return result, threading.current_thread().name, asyncio.current_task() is not None

    assert thread.serve(work()) == (3, "test", True)
    assert seen == [(1, "test"), (2, "test")]


def test_a_function_that_called_the_event_loop_may_fail(thread: SteppingThread, pool: WorkerThreads) -> None:
    async def nothing() -> None:
        return None

    def function() -> None:
        run_on_loop(nothing(), thread.loop)
        raise KeyError("function")

    async def work() -> None:
        await pool.run(function, {})

    with pytest.raises(KeyError, match="function"):
        thread.serve(work())


def test_a_request_that_has_moved_can_be_cancelled_while_its_function_waits(
    thread: SteppingThread, pool: WorkerThreads
) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def cancel() -> None:
        tasks[0].cancel()

    async def find() -> None:
        tasks.extend(task for task in asyncio.all_tasks() if "go_on" in repr(task.get_coro()))

    def function() -> None:
        run_on_loop(find(), thread.loop)
        run_on_loop(cancel(), thread.loop)

    async def work() -> None:
        await pool.run(function, {})

    with pytest.raises(CancelledError):
        thread.serve(work())
    assert len(tasks) == 1


def test_what_waits_without_asking_is_an_error(thread: SteppingThread) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append("ended")

    with pytest.raises(RuntimeError, match="waits for NoneType"):
        thread.serve(work())
    assert ended == ["ended"]


def test_an_exit_of_the_process_ends_the_request(thread: SteppingThread) -> None:
    """As gunicorn raises it in a worker whose time is over."""

    async def work() -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        thread.serve(work())
    with pytest.raises(RuntimeError, match="has ended"):
        thread.move()


def test_many_threads_serve_at_once(loop: LoopThread, pool: WorkerThreads) -> None:
    """Each with functions, some of which call the event loop."""
    threads, rounds = 8, 50
    found: list[list[int]] = [[] for _ in range(threads)]
    start = threading.Barrier(threads)

    async def twice(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    def function(number: int, here: threading.Thread) -> int:
        assert threading.current_thread() is here
        return run_on_loop(twice(number), calling_loop()) if number % 3 == 0 else 2 * number

    async def work(number: int, here: threading.Thread) -> int:
        first = await pool.run(function, {"number": number, "here": here})
        if number % 5 == 0:
            await move_to_loop()
        return first + int(await pool.run(function, {"number": number + 1, "here": here}))

    def serve(index: int) -> None:
        start.wait(60)
        for number in range(rounds):
            found[index].append(thread_at(loop).serve(work(number, threading.current_thread())))

    workers = [threading.Thread(target=serve, args=(index,)) for index in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
    assert found == [[4 * number + 2 for number in range(rounds)]] * threads
