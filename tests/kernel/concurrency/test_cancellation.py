"""What ended a request: the decision by itself, and `run_interruptible` on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import signal
import subprocess
import sys
import traceback
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.kernel.concurrency.cancellation import (
    BodyExit,
    Interruptible,
    _is_interrupted,
    ends_request,
    failure_of,
    is_cancellation,
    run_interruptible,
    take_back_left_over,
)
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.kernel.server import CallNext, ServerRequestContext
from ferrule.types import ToolResult
from tests.kernel.harness import modern, note, serving, settled

pytestmark = pytest.mark.anyio

CANCELLED = asyncio.CancelledError


def decide(error: BaseException, **facts: Any) -> bool:
    given = {"asked": False, "scope_is_cancelled": False, "interruption": None, **facts}
    return ends_request(error, cancelled=CANCELLED, **given)


async def test_only_a_requested_cancellation_ends_the_request() -> None:
    """By the peer or a shutdown (a fact of the carrier), an outer scope, or a ``cancel()`` from outside."""
    error = CANCELLED()
    assert not decide(error)
    assert decide(error, asked=True)
    assert decide(error, scope_is_cancelled=True)
    assert decide(error, interruption=error)
    assert not decide(error, interruption=CANCELLED())


async def test_what_is_raised_while_a_cancellation_is_handled_is_that_cancellation() -> None:
    """``finally`` and ``except`` clauses of a body may replace the exception."""
    first = CANCELLED()

    def replaced(by: BaseException) -> BaseException:
        try:
            try:
                raise first
            except CANCELLED:
                raise by  # noqa: B904 - as it happens in a `finally`
        except CANCELLED as error:
            return error

    assert decide(replaced(CANCELLED()), interruption=first)
    loop = CANCELLED()
    loop.__context__, first.__context__ = first, loop
    assert not decide(loop, interruption=CANCELLED())


@pytest.mark.parametrize("error", [ValueError(), ExceptionGroup("x", [ValueError()]), BodyExit(SystemExit(2))])
async def test_an_exception_never_ends_a_request(error: Exception) -> None:
    """The request gets a response, or is dropped because its sender cancelled it."""
    assert not decide(error, asked=True, scope_is_cancelled=True, interruption=error)


async def test_a_generator_exit_counts_where_the_coroutine_is_closed() -> None:
    """The interpreter closes a coroutine that will not be resumed."""
    assert not decide(GeneratorExit(), asked=True)
    assert decide(GeneratorExit(), interruption=GeneratorExit())


async def test_an_exit_in_a_body_does_not_end_the_process() -> None:
    """argparse calls ``sys.exit``; a `KeyboardInterrupt` may be raised by hand."""

    def raised(error: BaseException) -> BaseException:
        try:
            raise error
        except BaseException as found:
            return found

    for error in (SystemExit(2), KeyboardInterrupt(), BaseException("odd")):
        assert not decide(raised(error), asked=True, scope_is_cancelled=True)
        assert not decide(error)


def interrupted(handler: Any) -> BaseException:
    """What a handler of signals raises into running code."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        try:
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                pass
        except BaseException as error:
            return error
        return decide_in(handler)
    finally:
        signal.signal(signal.SIGINT, before)


def decide_in(handler: Any) -> BaseException:
    raise AssertionError(f"{handler} raised nothing")


class Stopper:
    def stop(self, *_: object, how: type[BaseException] = SystemExit) -> None:
        raise how


@pytest.mark.parametrize(
    "handler",
    [
        signal.default_int_handler,
        Stopper().stop,
        functools.partial(Stopper().stop, how=KeyboardInterrupt),
        lambda *_: sys.exit(0),
    ],
    ids=["the interpreter's", "a method", "a partial", "a function"],
)
async def test_an_exit_from_a_signal_stops_the_process(handler: Any) -> None:
    """Ctrl-C at the terminal, or a stop that a process manager sent, wherever the body was."""
    before = signal.getsignal(signal.SIGINT)
    try:
        error = interrupted(handler)
        signal.signal(signal.SIGINT, handler)  # as it is while the question is asked
        assert decide(error)
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_group_is_judged_by_what_is_in_it() -> None:
    """A nursery raises its parent's cancellation together with what its tasks raised."""
    error = CANCELLED()
    assert decide(BaseExceptionGroup("x", [ValueError(), error]), interruption=error)
    assert not decide(BaseExceptionGroup("x", [ValueError(), error]))
    assert not decide(BaseExceptionGroup("x", [SystemExit(2)]), asked=True)


async def test_a_context_without_proof_is_judged_by_the_task() -> None:
    """In another library's carrier only one fact is known: whether its task is being cancelled."""

    class Foreign:
        cancel_requested = False

    assert not is_cancellation(CANCELLED(), Foreign())
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with pytest.raises(CANCELLED):
        await asyncio.sleep(0)
    assert is_cancellation(CANCELLED(), Foreign())
    task.uncancel()


# -- run_interruptible -----------------------------------------------------------------------------------------------


class Noted(Interruptible):
    """Counts how often the body was suspended for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.suspensions = 0

    def suspended(self) -> None:
        self.suspensions += 1


async def test_a_body_is_driven_like_any_awaitable(any_backend: str) -> None:
    """With results, errors and cancellations of scopes; the callback for waiting is called once, if it waits."""
    noted = Noted()

    async def at_once() -> int:
        return 1

    async def later(fails: bool) -> int:
        await anyio.sleep(0)
        await anyio.sleep(0)
        if fails:
            raise ValueError("late")
        return 2

    assert await run_interruptible(at_once(), noted) == 1
    assert noted.suspensions == 0
    assert await run_interruptible(later(False), noted) == 2
    with pytest.raises(ValueError, match="late"):
        await run_interruptible(later(True), noted)
    assert noted.suspensions == 2
    with anyio.move_on_after(0) as scope:
        await run_interruptible(anyio.sleep_forever(), noted)
    assert scope.cancelled_caught
    with pytest.raises(ZeroDivisionError):
        await run_interruptible(Failing(), noted)


class Failing:
    """An awaitable that is not a coroutine."""

    def __await__(self) -> Any:
        return self.run().__await__()

    async def run(self) -> None:
        await anyio.sleep(0)
        _ = 1 / 0


async def test_what_the_body_raises_has_no_context_of_ours() -> None:
    """Its traceback has nothing of a cancellation that the body has handled."""

    async def body() -> None:
        try:
            await asyncio.sleep(10)
        except CANCELLED:
            pass
        raise ValueError("x")

    task = asyncio.ensure_future(run_interruptible(body(), Noted()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(ValueError) as raised:
        await task
    assert "CancelledError" not in "".join(traceback.format_exception(raised.value))


async def judged(body: Any, *, cancels: bool) -> tuple[bool, int]:
    """Whether what a body raised is a cancellation, and the count of its task afterwards."""
    noted = Noted()
    found: list[bool] = []

    async def run() -> int:
        try:
            await run_interruptible(body(), noted)
        except BaseException as error:
            found.append(is_cancellation(error, noted))
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    task = asyncio.ensure_future(run())
    await asyncio.sleep(0)
    if cancels:
        task.cancel()
    return (await task), found  # type: ignore[return-value]


async def cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.cancel)
    await future


async def failed_group() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("x")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    except* ValueError:
        pass


async def test_a_cancelled_future_of_the_body_is_no_cancellation() -> None:
    """It reaches the task exactly as ``cancel()`` from outside does, but for the count."""
    assert await judged(cancelled_future, cancels=False) == (0, [False])


async def test_a_group_that_failed_before_it_changes_nothing() -> None:
    """Until Python 3.12 the count is raised from then on; it is taken back at the end of the body."""

    async def body() -> None:
        await failed_group()
        await cancelled_future()

    assert await judged(body, cancels=False) == (0, [False])

    async def raises() -> None:
        await failed_group()
        raise CANCELLED

    assert await judged(raises, cancels=False) == (0, [False])

    async def returns() -> None:
        await failed_group()

    assert await judged(returns, cancels=False) == (0, [])


async def test_a_cancellation_after_such_a_group_is_one() -> None:
    """And the count at the end is what the cancellation alone would have left."""

    async def body() -> None:
        await failed_group()
        await anyio.sleep(0)
        ready.set()
        await asyncio.sleep(10)

    noted = Noted()
    ready = asyncio.Event()
    found: list[Any] = []

    async def run() -> None:
        try:
            await run_interruptible(body(), noted)
        except CANCELLED as error:
            task = asyncio.current_task()
            assert task is not None
            found.extend([is_cancellation(error, noted), task.cancelling()])

    task = asyncio.ensure_future(run())
    await ready.wait()
    task.cancel()
    await task
    assert found == [True, 1]


async def test_a_body_that_cancels_its_own_task_fails() -> None:
    """Whatever it hoped for: a peer that waits gets an answer."""

    async def body() -> None:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)

    assert (await judged(body, cancels=False))[1] == [False]


async def test_a_timeout_of_the_body_is_its_own_affair() -> None:
    """It cancels the task from outside and takes that back."""

    async def body() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.sleep(10)
        await cancelled_future()

    assert await judged(body, cancels=False) == (0, [False])


async def test_a_generator_exit_of_a_task_that_the_body_awaits_is_a_failure() -> None:
    """Python closes the frames below the awaiting one; the task itself continues."""

    async def other() -> None:
        await asyncio.sleep(0)
        raise GeneratorExit

    async def body() -> None:
        await asyncio.ensure_future(other())

    assert await judged(body, cancels=False) == (0, [False])


async def test_a_body_that_is_closed_is_left_alone(any_backend: str) -> None:
    """At the end of a program coroutines are closed; nothing may be awaited then."""
    noted = Noted()
    found: list[bool] = []

    async def body() -> None:
        try:
            await anyio.sleep_forever()
        except GeneratorExit as error:
            found.append(is_cancellation(error, noted))
            raise

    work: Any = run_interruptible(body(), noted)
    work.send(None)
    work.close()
    assert found == [True]


async def test_a_failure_has_what_was_raised_as_its_cause() -> None:
    """For the log; its text names the exception."""
    raised = SystemExit(2)
    failure = failure_of(raised, Interruptible())
    assert isinstance(failure, BodyExit)
    assert str(failure) == "SystemExit: 2"
    assert failure.__cause__ is failure.raised is raised
    assert str(failure_of(CANCELLED(), Interruptible())) == "CancelledError"
    error = ValueError()
    assert failure_of(error, Interruptible()) is error


# -- with servers -------------------------------------------------------------------------------------------------


def waiting(**options: Any) -> tuple[MCPServer[Any], list[str]]:
    app: MCPServer[Any] = MCPServer("waiting", **options)
    ended: list[str] = []

    @app.tool
    async def wait() -> str:
        try:
            await anyio.sleep(100)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        return "no"

    @app.tool
    async def group_then_wait() -> str:
        await failed_group()
        await anyio.sleep(100)
        return "no"

    @app.tool(timeout_s=0.3)
    async def group_within_a_timeout() -> str:
        await failed_group()
        await anyio.sleep(100)
        return "no"

    return app, ended


async def within_asyncio(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
    try:
        async with asyncio.timeout(0.3):
            return await call_next(ctx)
    except TimeoutError:
        return ToolResult(content=[], structured_content={"late": True})


async def within_anyio(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
    with anyio.move_on_after(0.3):
        return await call_next(ctx)
    return ToolResult(content=[], structured_content={"late": True})


@pytest.mark.parametrize("within", [within_asyncio, within_anyio])
@pytest.mark.parametrize("tool", ["wait", "group_then_wait"])
async def test_a_time_out_in_middleware_ends_the_body(within: Any, tool: str) -> None:
    """It cancels the task of the request although no peer has asked for it."""

    async def only_calls(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        return await (within(ctx, call_next) if ctx.method == "tools/call" else call_next(ctx))

    app, _ = waiting(middleware=[only_calls])
    async with serving(app.lowlevel, serve_dual_era_loop) as peer:
        result = await peer.result(modern(1, "tools/call", {"name": tool, "arguments": {}}))
    assert result["structuredContent"] == {"late": True}


async def test_a_components_time_out_holds_after_a_group_that_failed() -> None:
    """The count that the group left is not a second cancellation."""
    app, _ = waiting()
    async with Client(app) as client:
        result = await client.call_tool("group_within_a_timeout")
    assert result.is_error
    assert "did not finish within 0.3 s" in result.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("tool", ["wait", "group_then_wait"])
async def test_a_caller_in_the_same_process_may_stop_waiting(tool: str, mode: str) -> None:
    """With asyncio's means and with anyio's; the scope and the time-out get what they asked for."""
    app, _ = waiting()
    task = asyncio.current_task()
    assert task is not None
    async with Client(app, mode=mode) as client:
        with anyio.move_on_after(0.3) as scope:
            await client.call_tool(tool)
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.call_tool(tool)
        assert task.cancelling() == 0


async def test_a_withdrawn_request_gets_no_response_for_any_exception() -> None:
    """The outcome of its clean-up is only logged."""
    app: MCPServer[Any] = MCPServer("x")
    ended = anyio.Event()

    @app.tool
    async def leave() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
            sys.exit(3)
        return "no"

    async with serving(app.lowlevel, serve_dual_era_loop) as peer:
        peer.send(modern(1, "tools/call", {"name": "leave", "arguments": {}}))
        await settled()
        peer.send(note("notifications/cancelled", {"requestId": 1}))
        await ended.wait()
        assert await peer.waiting() == []


async def test_the_end_of_the_connection_cancels_what_runs() -> None:
    """A shutdown is not a failure, so nothing is logged as one."""
    app, ended = waiting()
    async with serving(app.lowlevel, serve_dual_era_loop, drain_s=0) as peer:
        peer.send(modern(1, "tools/call", {"name": "wait", "arguments": {}}))
        await settled()
    assert ended == ["CancelledError"]
    assert peer.error is None


async def test_a_handler_of_a_client_fails_in_the_same_way() -> None:
    """A question is a request in the other direction."""

    async def leave(*_: Any) -> Any:
        raise CANCELLED

    app: MCPServer[Any] = MCPServer("asks", mask_errors=False)

    @app.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Name?", str))

    async with Client(app, mode="legacy", elicitation_handler=leave) as client:
        with anyio.fail_after(30), pytest.raises(MCPError, match="Internal error"):
            await client.call_tool("ask")


# -- processes ----------------------------------------------------------------------------------------------------

IN_PROCESS = """
import asyncio, sys
import anyio
from ferrule import Client, MCPServer

app = MCPServer("busy")
told = []

@app.tool
async def busy() -> str:
    print("busy", flush=True)
    while True:
        if {spins}:
            sum(range(1000))
            if sys.argv[1] == "asyncio" and asyncio.current_task().cancelling() and not told:
                told.append(print("cancelled", flush=True))
        else:
            await anyio.sleep(0.001)

async def main():
    async with Client(app) as client:
        print(await client.call_tool("busy"), flush=True)

try:
    anyio.run(main, backend=sys.argv[1])
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("spins", [False, True])
async def test_ctrl_c_stops_a_program_whose_body_runs(spins: bool, any_backend: str) -> None:
    """Whether it waits or computes. (asyncio cancels its main task at the first Ctrl-C and raises at the second.)"""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_PROCESS.replace("{spins}", str(spins)), any_backend],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        process.send_signal(signal.SIGINT)
        if spins and any_backend == "asyncio":
            assert process.stdout.readline() == "cancelled\n"
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "stopped\n"
    finally:
        process.kill()
        process.communicate()


EXITING = """
import asyncio, sys
from ferrule import MCPServer

app = MCPServer("exits")

@app.tool
def sync() -> str:
    sys.exit(2)

@app.tool
async def on_the_loop() -> str:
    raise KeyboardInterrupt

@app.tool
async def cancelled() -> str:
    raise asyncio.CancelledError

@app.tool
async def slow() -> str:
    await asyncio.sleep(0.2)
    return "slow"

app.run("stdio")
"""


async def test_a_process_outlives_what_its_tools_raise() -> None:
    """Over a real pipe, and another call that runs at the same time is answered too."""
    calls = ["slow", "sync", "on_the_loop", "cancelled"]
    lines = [json.dumps(modern(id, "tools/call", {"name": name, "arguments": {}})) for id, name in enumerate(calls)]
    found = subprocess.run(
        [sys.executable, "-c", EXITING], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60
    )
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, found.stdout.splitlines())}
    failed = {id for id, answer in answers.items() if answer.get("isError")}
    assert (answers.keys(), failed) == ({0, 1, 2, 3}, {1, 2, 3})
    assert found.returncode == 0
    assert all(word in found.stderr for word in ("SystemExit", "KeyboardInterrupt", "CancelledError"))


def test_only_the_main_task_of_a_runner_is_interrupted_by_ctrl_c() -> None:
    """And only once the signal has come; other tasks that are cancelled are cancelled by the program."""
    before = signal.getsignal(signal.SIGINT)

    async def main() -> list[bool]:
        task = asyncio.current_task()
        assert task is not None
        other = asyncio.ensure_future(asyncio.sleep(0))
        found = [_is_interrupted(task)]
        signal.raise_signal(signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task.uncancel()
        found += [_is_interrupted(task), _is_interrupted(other), _is_interrupted(None)]
        await other
        return found

    try:
        # What `asyncio.Runner` looks for; a background process ignores the signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert asyncio.run(main()) == [False, True, False, False]

        async def current() -> bool:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return _is_interrupted(asyncio.current_task())

        assert asyncio.run(current()) is False
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("left_over", [2, 1, 0, -1])
async def test_a_count_that_was_taken_back_is_not_taken_back_again(left_over: int) -> None:
    """Each scope of a body asks for it when it ends."""
    request = Interruptible()
    request.left_over = left_over
    take_back_left_over(request)
    assert request.left_over == 0
    take_back_left_over(None)


def test_what_failed_groups_of_a_body_leave_is_taken_back_and_nothing_else() -> None:
    """A cancellation that the task had before the body is not the body's."""

    async def fails() -> None:
        raise ValueError

    async def body() -> str:
        await asyncio.sleep(0)
        for _ in range(2):
            with contextlib.suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(fails())  # while the group waits for its end
        return "done"

    async def main(before: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        for _ in range(before):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        assert await run_interruptible(body(), Interruptible()) == "done"
        found = task.cancelling()
        for _ in range(before):
            task.uncancel()
        return found

    assert [asyncio.run(main(before)) for before in range(3)] == [0, 1, 2]
