"""Closing a client ends everything, also after cancellations: tasks, processes, sessions, calls in flight."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer, StdioServer
from ferrule.client.connection.channels import StdioChannel
from ferrule.client.sync import SyncClient
from ferrule.protocol.errors import ConnectionClosed, FerruleError, LocalError
from tests.client.server_program import make_app
from tests.peers.scripted_http import Exchange, ScriptedServer

pytestmark = pytest.mark.anyio

PROGRAM = str(Path(__file__).parents[1] / "server_program.py")
MODES = ["auto", "legacy"]


def program() -> StdioServer:
    return StdioServer(sys.executable, [PROGRAM], env={"PYTHONPATH": str(Path(__file__).parents[3])})


def left_of(client: Client) -> list[str]:
    """What of a client still lives."""
    left = [f"task {running.handle!r}" for running in client._sessions.background._running]
    if client._sessions.current is not None:
        left.append("session")
    if client._sessions.connector.life is not None:
        left.append("lifespan")
    return left


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("mode", MODES)
async def test_a_scope_around_the_client_that_ends_leaves_no_process(mode: str) -> None:
    """The scope that cancels the call also cancels every await of the exit that follows it."""
    client = Client(program(), mode=mode)
    processes: list[Any] = []
    called = anyio.Event()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await called.wait()
                scope.cancel()

            group.start_soon(cancel)
            async with client:
                link = client.session.channel
                assert isinstance(link, StdioChannel)
                processes.append(link.process)
                called.set()
                await client.call_tool("sleep", {"seconds": 60})
    assert scope.cancelled_caught
    assert [process.returncode is not None for process in processes] == [True]
    assert left_of(client) == []


@pytest.mark.usefixtures("any_backend")
async def test_a_connect_that_is_cancelled_leaves_nothing() -> None:
    """The program never answers; the scope ends while its answer is awaited."""
    started: list[Any] = []
    open_link = StdioChannel.open

    async def note(*args: Any, **options: Any) -> Any:
        started.append(await open_link(*args, **options))
        scope.cancel()
        return started[-1]

    client = Client(StdioServer(sys.executable, ["-c", "import sys\nfor line in sys.stdin: pass"]))
    with pytest.MonkeyPatch.context() as patch, anyio.CancelScope() as scope:
        patch.setattr(StdioChannel, "open", note)
        await client.connect()
    assert scope.cancelled_caught
    assert [link.process.returncode is not None for link in started] == [True]
    assert left_of(client) == []


@pytest.mark.usefixtures("any_backend")
async def test_closing_ends_a_connect_in_another_task() -> None:
    """It would otherwise wait for the time-out of the handshake before it could close."""
    client = Client(StdioServer(sys.executable, ["-c", "import sys\nfor line in sys.stdin: pass"]))
    raised: list[BaseException] = []

    async def connect() -> None:
        try:
            await client.connect()
        except LocalError as error:
            raised.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(connect)
        while not client._sessions.is_connecting:
            await anyio.lowlevel.checkpoint()
        await client.aclose()
    assert [type(error) for error in raised] == [ConnectionClosed]
    assert left_of(client) == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_close_cancelled_by_asyncio_itself_is_complete(mode: str) -> None:
    """``task.cancel()`` passes every scope; each step of the close follows all the same."""
    client = await Client(program(), mode=mode).connect()
    link = client.session.channel
    assert isinstance(link, StdioChannel)
    closing = asyncio.create_task(client.aclose())
    while not link.process.is_closing:
        await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert left_of(client) == []
    with anyio.fail_after(30):
        while link.process._process._popen.returncode is None:  # killed at once, reaped by a thread
            await anyio.sleep(0.01)


async def test_a_close_cancelled_while_another_task_connects_again_is_complete() -> None:
    """It waits for the lock that the other holds; being cancelled there is no reason to leave things open."""
    client = await Client(make_app(), mode="legacy").connect()
    lock = client._sessions.lock()
    await lock.acquire()
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    lock.release()
    assert left_of(client) == []


def slow_app(events: list[str], *, clean_up: Callable[[], Any] | None = None) -> MCPServer:
    @contextlib.asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        yield
        events.append("lifespan over")

    app = MCPServer("slow", lifespan=lifespan)

    @app.tool
    async def slow() -> str:
        events.append("began")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                events.append("call over")
        return ""

    @app.tool
    async def stubborn() -> str:
        events.append("began")
        with contextlib.suppress(BaseException):
            await anyio.sleep_forever()
        return "all the same"

    return app


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("mode", MODES)
async def test_a_call_under_way_ends_before_the_lifespan_of_its_server(mode: str) -> None:
    """The call fails with `ConnectionClosed`, and its clean-up still finds what the lifespan holds."""
    events: list[str] = []
    client = await Client(slow_app(events), mode=mode).connect()
    outcome: list[Any] = []

    async def call() -> None:
        try:
            outcome.append(await client.call_tool("slow"))
        except FerruleError as error:
            outcome.append(type(error))
        await anyio.lowlevel.checkpoint()  # the caller itself is not cancelled
        outcome.append("goes on")

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        while "began" not in events:
            await anyio.lowlevel.checkpoint()
        await client.aclose()
    assert outcome == [ConnectionClosed, "goes on"]
    assert events == ["began", "call over", "lifespan over"]
    assert left_of(client) == []


async def test_a_caller_that_is_cancelled_as_well_stays_cancelled() -> None:
    """Closing takes back its own cancellation and no other."""
    events: list[str] = []
    client = await Client(slow_app(events)).connect()
    calling = asyncio.create_task(client.call_tool("slow"))
    while "began" not in events:
        await asyncio.sleep(0)
    calling.cancel()
    await client.aclose()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_tool_that_swallows_its_end_leaves_the_caller_uncancelled() -> None:
    """The count of cancellations of the caller's task is what it was."""
    events: list[str] = []
    client = await Client(slow_app(events)).connect()

    async def call() -> int:
        with contextlib.suppress(FerruleError):
            await client.call_tool("stubborn")
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    calling = asyncio.create_task(call())
    while "began" not in events:
        await asyncio.sleep(0)
    await client.aclose()
    assert await calling == 0


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("mode", MODES)
async def test_a_handler_may_close_its_own_client(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """It runs in a task of the client and cannot wait for its own end: five seconds and a warning on trio, and on
    both loops for a handler of questions."""
    app = MCPServer("noisy", logging=True)

    @app.tool
    async def noise(ctx: Context) -> str:
        await ctx.info("boo")
        await anyio.sleep_forever()
        return ""

    closed = anyio.Event()

    async def on_log(params: Any) -> None:
        await client.aclose()
        closed.set()

    client = Client(app, mode=mode, log_handler=on_log)
    caplog.set_level(logging.WARNING, "ferrule")
    await client.connect()
    if mode == "auto":
        await client.set_log_level("info")
    async with anyio.create_task_group() as group:

        async def call() -> None:
            with contextlib.suppress(FerruleError):
                await client.call_tool("noise")

        group.start_soon(call)
        with anyio.fail_after(30):
            await closed.wait()
    assert [record.getMessage() for record in caplog.records if "did not end" in record.getMessage()] == []
    await client.aclose()
    assert left_of(client) == []


@pytest.mark.usefixtures("any_backend")
async def test_a_handler_of_questions_may_close_its_own_client(caplog: pytest.LogCaptureFixture) -> None:
    """It is a task of the client's reader."""
    closed = anyio.Event()

    async def on_elicit(params: Any, question: Any) -> None:
        try:
            await client.aclose()
        finally:
            closed.set()

    app = MCPServer("asks")

    @app.tool
    async def ask(ctx: Context) -> str:
        await ctx.elicit("Really?", bool)
        return ""

    client = await Client(app, mode="legacy", elicitation_handler=on_elicit).connect()
    with contextlib.suppress(FerruleError):
        await client.call_tool("ask")
    with anyio.fail_after(30):
        await closed.wait()
    await client.aclose()
    assert [record.getMessage() for record in caplog.records if "did not end" in record.getMessage()] == []
    assert left_of(client) == []


# -- subscriptions ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_backend")
async def test_a_subscription_cancelled_before_its_acknowledgement_ends() -> None:
    """``async with`` has no exit for what did not enter."""

    client = await Client(make_app()).connect()
    before = len(client._sessions.background._running)
    with anyio.CancelScope() as scope:

        async def never(*args: Any) -> None:
            scope.cancel()
            await anyio.sleep_forever()

        client._parts.send_listen = never  # type: ignore[method-assign]
        async with client.listen(tools=True):
            raise AssertionError("it was never acknowledged")
    assert scope.cancelled_caught
    assert client.subscriptions._open == []
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    assert len(client._sessions.background._running) == before
    await client.aclose()
    assert left_of(client) == []


def test_listening_inside_a_callback_is_refused_as_calls_are() -> None:
    """It would wait in the thread that has to do the work, for every client of the process."""
    raised: list[BaseException] = []

    def on_log(params: Any) -> None:
        try:
            next(client.listen(tools=True))
        except LocalError as error:
            raised.append(error)

    client = SyncClient(make_app(), log_handler=on_log)
    with client:
        client.set_log_level("debug")
        client.call_tool("chatter")
        assert len(raised) == 2
        assert "synchronously" in str(raised[0])


def test_a_listener_that_is_interrupted_before_the_acknowledgement_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes as an exception out of the wait."""
    wait = threading.Event.wait

    def interrupted(self: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread() and timeout is None:
            raise KeyboardInterrupt
        return wait(self, timeout)

    with SyncClient(make_app()) as client:
        listening = client.listen(tools=True)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(listening)
        client.ping()
        for _ in range(100):
            client.ping()
            if not client.client.subscriptions._open:
                break
        assert client.client.subscriptions._open == []


_FORKS = """
import os, signal, sys
from ferrule.client.sync import SyncClient
from ferrule import StdioServer
from tests.client.server_program import make_app

server = StdioServer(sys.executable, [{program!r}], env={{"PYTHONPATH": {path!r}}})
with SyncClient(server) as parents, SyncClient(make_app()) as inside:
    assert parents.call_tool("add", {{"a": 1}}).data == {{"sum": 3}}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with SyncClient(make_app(), mode="legacy") as new:
            said = [new.call_tool("echo", {{"text": "new"}}).text]
        said += [parents.call_tool("echo", {{"text": "old"}}).text, inside.call_tool("echo", {{"text": "in"}}).text]
        parents.close()
        os.write(writing, ",".join(said).encode())
        sys.exit(0)
    status = os.waitpid(child, 0)[1]
    print(os.read(reading, 100).decode(), status, parents.call_tool("echo", {{"text": "parent"}}).text)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
async def test_synchronous_clients_work_after_a_fork(project_root: Path) -> None:
    """The thread that serves them does not exist in the child; connections and processes stay the parent's."""
    source = _FORKS.format(program=PROGRAM, path=str(project_root))
    with anyio.fail_after(30):
        done = await anyio.run_process([sys.executable, "-c", source], cwd=project_root, check=False)
    assert done.stdout.decode().split() == ["new,old,in", "0", "parent"], done.stderr.decode()


async def test_nothing_is_left_of_a_connect_that_fails_after_the_handshake() -> None:
    """The requests that prepare a new session may fail too; then the channel is closed."""

    async def handler(exchange: Exchange) -> None:
        await exchange.result({"protocolVersion": "2025-06-18", "capabilities": {"logging": {}}, "serverInfo": {}})

    async with ScriptedServer(handler) as server:
        client = Client(server.url, mode="legacy")
        with pytest.raises(LocalError):
            await client.connect()
        assert left_of(client) == []
