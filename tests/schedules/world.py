"""One server, some clients and a seed: calls, cancellations, closes, lost connections and kills in random order.

What must hold whatever happens: every operation ends, with its own answer or an error of ours; every call runs once at
most; what was answered has run; a listener that was acknowledged hears of a change or of a gap; and at the end no task,
descriptor, process, session or entry is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import anyio

from ferrule import Client, Context, MCPServer, StdioServer
from ferrule.errors import FerruleError
from ferrule.transports.http import client as http_client
from ferrule.transports.watch import runs_on_trio

__all__ = ["TRANSPORTS", "make_app", "play"]

OPERATION_S: Final = 60.0
"""Seconds, of whatever clock, in which an operation that ends at all has ended."""
LOOKS: Final = 300
"""How often, every 0.1 s, is looked whether something has gone before it counts as left."""
PROGRAM: Final = str(Path(__file__).with_name("program.py"))


def make_app(
    started: Counter[str] | None = None, ended: Counter[str] | None = None, late: list[str] | None = None
) -> MCPServer:
    """The server. Each call has a key.

    Args:
        started, ended: count the calls when they begin and when they have their answer.
        late: the keys of calls that outlived the lifespan of the server.
    """
    begun, done = Counter[str]() if started is None else started, Counter[str]() if ended is None else ended
    alive = 0

    @contextlib.asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        nonlocal alive
        alive += 1
        try:
            await anyio.sleep(0)
            yield
        finally:
            alive -= 1

    app = MCPServer("schedules", lifespan=lifespan)

    @app.tool
    async def work(key: str, pauses: list[float]) -> str:
        begun[key] += 1
        try:
            for pause_s in pauses:
                await anyio.sleep(pause_s)
        finally:
            if not alive and late is not None:
                late.append(key)
        done[key] += 1
        return key

    @app.tool
    async def report(key: str, ctx: Context, count: int) -> str:
        begun[key] += 1
        for number in range(count):
            await ctx.progress(number + 1, count, key)
        done[key] += 1
        return key

    @app.tool
    async def ask(key: str, ctx: Context) -> str:
        await ctx.elicit(key, bool)
        done[key] += 1
        return key

    @app.tool
    async def announce(key: str) -> str:
        begun[key] += 1
        app.add_tool(nothing, name=f"new_{key}")
        app.remove_tool(f"new_{key}")
        return key

    async def nothing() -> None:
        return None

    @app.tool
    async def fail(key: str) -> str:
        begun[key] += 1
        raise ValueError(key)

    return app


class World:
    """What one schedule plays with; see the module."""

    def __init__(self, transport: str, seed: int) -> None:
        self.transport = transport
        self.rng = random.Random(f"{transport} {seed}")
        self.started: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.late: list[str] = []
        self.app = make_app(self.started, self.ended, self.late)
        self.closed_early: set[int] = set()
        self.wrong: list[str] = []
        self.clients: list[Any] = []
        self.links: list[Any] = []
        self.is_troubled = False
        self.endpoint: Any = None
        self._keys = 0

    # -- the server -------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Callable[[], Any]]:
        """A function that makes a client of the server."""
        if self.transport.startswith("memory"):
            mode = "auto" if self.transport == "memory" else "legacy"
            yield lambda: Client(self.app, mode=mode, **self.options())
        elif self.transport == "stdio":
            server = StdioServer(
                sys.executable, [PROGRAM], env={"PYTHONPATH": str(Path(__file__).parents[2])}, close_s=1, terminate_s=1
            )
            yield lambda: Client(server, mode=self.rng.choice(("auto", "legacy")), **self.options())
        else:
            async with self._serving_http() as url:
                mode = {"http": "2026-07-28", "http-legacy": "legacy", "sse": "legacy"}[self.transport]
                yield lambda: Client(url, mode=mode, **self.options())

    @contextlib.asynccontextmanager
    async def _serving_http(self) -> AsyncIterator[str]:
        from ferrule.transports.hosting.uvicorn_server import HttpLimits, serve_http
        from ferrule.transports.sse.server import SseEndpoint

        is_sse = self.transport == "sse"
        self.endpoint = endpoint = SseEndpoint(self.app.lowlevel) if is_sse else self.app.asgi(loopback=True)
        bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(
            serve_http(
                endpoint,
                port=0,
                limits=HttpLimits(drain_s=2),
                on_drain=endpoint.drain,
                on_started=lambda host, port: bound.set_result(port),
            )
        )
        try:
            yield f"http://127.0.0.1:{await bound}/{'sse' if is_sse else 'mcp'}"
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def options(self) -> dict[str, Any]:
        """Of a client."""
        return {"elicitation_handler": self._on_elicit, "timeout_s": self.rng.choice((None, 20.0)), "cache": False}

    async def _on_elicit(self, params: Any, question: Any) -> Any:
        await anyio.sleep(0)
        return {"value": True}

    # -- what clients do --------------------------------------------------------------------------------------------

    def key(self) -> str:
        """A name that no other call has."""
        self._keys += 1
        return f"k{self._keys}"

    async def client_life(self, make: Callable[[], Any]) -> None:
        """Connect, do some things, and close, or be cancelled in the middle."""
        rng = self.rng
        for _ in range(rng.randint(1, 2)):
            client = make()
            self.clients.append(client)
            with anyio.move_on_after(rng.uniform(0.0, 1.0) if rng.random() < 0.3 else None):
                try:
                    async with client, anyio.create_task_group() as group:
                        for _ in range(rng.randint(1, 6)):
                            group.start_soon(self.guarded, client)
                        if rng.random() < 0.3:
                            group.start_soon(self.close_in_a_while, client)
                except FerruleError as error:
                    self.note_error("connecting", client, error)
            self.wrong += [f"left of a client: {left}" for left in left_of(client)]

    async def close_in_a_while(self, client: Any) -> None:
        """Another task closes the client."""
        await anyio.sleep(self.rng.uniform(0, 0.5))
        self.closed_early.add(id(client))
        await client.aclose()

    def note_error(self, what: str, client: Any, error: Exception) -> None:
        """An error without a reason is wrong."""
        if not self.is_troubled and id(client) not in self.closed_early:
            self.wrong.append(f"{what} failed for no reason: {error!r}")

    async def guarded(self, client: Any) -> None:
        """Run one operation: it must end in time, with its answer or an error of Ferrule."""
        began = anyio.current_time()
        what = self.rng.choice((self.call, self.call, self.call, self.reported, self.asked, self.failed, self.listened))
        if client._sessions.current is not None:
            self.links.append(client._sessions.current.channel)
        try:
            if self.rng.random() < 0.3:
                with anyio.move_on_after(self.rng.choice((0, 0.001, 0.05, 0.3))):
                    await what(client)
            else:
                with anyio.fail_after(OPERATION_S):
                    await what(client)
        except FerruleError as error:
            self.note_error(what.__name__, client, error)
        except TimeoutError:
            self.wrong.append(f"{what.__name__} did not end within {OPERATION_S:g} s")
        if anyio.current_time() - began > OPERATION_S:
            self.wrong.append(f"{what.__name__} took {anyio.current_time() - began:g} s")

    async def call(self, client: Any) -> None:
        """A tool that waits now and then."""
        key = self.key()
        pauses = [self.rng.choice((0, 0.001, 0.1)) for _ in range(self.rng.randint(0, 3))]
        self.check(key, await client.call_tool("work", {"key": key, "pauses": pauses}))

    async def reported(self, client: Any) -> None:
        """A tool that reports progress, to a callback that may wait."""
        key = self.key()
        seen: list[float] = []

        async def slow(progress: float, total: float | None, message: str | None) -> None:
            await anyio.sleep(self.rng.choice((0, 0.01)))
            seen.append(progress)
            if message != key:
                self.wrong.append(f"progress of {message} came to {key}")

        count = self.rng.randint(1, 5)
        self.check(key, await client.call_tool("report", {"key": key, "count": count}, on_progress=slow))
        if seen != sorted(set(seen)):
            self.wrong.append(f"progress of {key} came as {seen}")

    async def asked(self, client: Any) -> None:
        """A tool that asks its user a question."""
        if runs_on_trio() and client.session.is_modern:
            return  # rounds need asyncio
        key = self.key()
        self.check(key, await client.call_tool("ask", {"key": key}), runs_again=True)

    async def failed(self, client: Any) -> None:
        """A tool that fails."""
        key = self.key()
        result = await client.call_tool("fail", {"key": key})
        if not result.is_error:
            self.wrong.append(f"{key} did not fail")

    async def listened(self, client: Any) -> None:
        """A listener: after the acknowledgement it gets each change, or a gap, or its end."""
        async with client.listen(tools=True) as changes:
            await anyio.sleep(self.rng.choice((0, 0.01)))
            name = self.key()
            await client.call_tool("announce", {"key": name})
            with anyio.move_on_after(OPERATION_S / 2) as waiting, contextlib.suppress(StopAsyncIteration):
                await anext(changes)
            if waiting.cancelled_caught:
                self.wrong.append(f"the listener did not hear of {name}")

    def check(self, key: str, result: Any, *, runs_again: bool = False) -> None:
        """An answer is that of its own call, which has run."""
        if result.is_error or result.text != key:
            self.wrong.append(f"{key} was answered with {result!r}")
        elif self.transport != "stdio" and self.ended[key] != 1 and not runs_again:
            self.wrong.append(f"{key} was answered and has ended {self.ended[key]} times")

    # -- what happens to them ---------------------------------------------------------------------------------------

    async def trouble(self) -> None:
        """Cuts connections and kills processes now and then."""
        for _ in range(self.rng.randint(0, 3)):
            await anyio.sleep(self.rng.uniform(0.0, 0.6))
            self.is_troubled = True
            if self.transport == "stdio":
                self.kill_one()
            else:
                self.cut_one()

    def cut_one(self) -> None:
        """One connection is lost, at either end."""
        connections: Any = [] if runs_on_trio() else getattr(asyncio.get_running_loop(), "connections", ())
        alive = [each for each in connections if not each.is_closing()]
        if alive:
            alive.sort(key=lambda each: str(each.get_extra_info("sockname")) + str(each.get_extra_info("peername")))
            self.rng.choice(alive).abort()

    def kill_one(self) -> None:
        """One process is killed."""
        processes = [
            client._sessions.current.channel.process
            for client in self.clients
            if client._sessions.current is not None and hasattr(client._sessions.current.channel, "process")
        ]
        alive = [process for process in processes if process.returncode is None and not process.is_closing]
        if alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(alive).pid, signal.SIGKILL)

    # -- the whole --------------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Play the schedule, then look at what is left."""
        tasks = _tasks()
        with anyio.fail_after(10 * OPERATION_S):
            async with self.serving() as make:
                async with anyio.create_task_group() as group:
                    for _ in range(self.rng.randint(1, 3)):
                        group.start_soon(self.client_life, make)
                    group.start_soon(self.trouble)
                if self.endpoint is not None and not self.is_troubled:
                    sessions = self.endpoint if self.transport == "sse" else self.endpoint.legacy.sessions
                    for _ in range(LOOKS):
                        if not len(sessions):
                            break
                        await anyio.sleep(0.1)
                    else:
                        self.wrong.append(f"{len(sessions)} sessions of the server are left")
        self.wrong += [f"{key} outlived the lifespan of its server" for key in self.late]
        for key, times in self.started.items():
            if times > 1:
                self.wrong.append(f"{key} ran {times} times")
        for client in self.clients:
            self.wrong += [f"left of a client: {left}" for left in left_of(client)]
        self.wrong += [f"left of a link: {left}" for link in self.links for left in entries_of(link)]
        for _ in range(LOOKS):
            if not _tasks() - tasks:
                break
            await anyio.sleep(0.1)
        self.wrong += [f"left: {task!r}" for task in _tasks() - tasks]


def left_of(client: Any) -> list[str]:
    """What of a client still lives."""
    left = [f"task {running.handle!r}" for running in client._sessions.background._running]
    if client._sessions.current is not None:
        left.append("session")
    if client._sessions.connector.life is not None:
        left.append("lifespan")
    left += [f"subscription {each!r}" for each in client.subscriptions._open]
    return left


def entries_of(link: Any) -> list[str]:
    """What a closed link still remembers of requests."""
    dispatcher = getattr(link, "_dispatcher", None)
    maps = {
        "questions": getattr(dispatcher, "_outbound", None),
        "requests": getattr(dispatcher, "_in_flight", None),
        "flights": getattr(link, "_flights", None),
        "calls": getattr(link, "_calls", None),
    }
    return [f"{len(held)} {name}" for name, held in maps.items() if held]


def _tasks() -> set[Any]:
    return set() if runs_on_trio() else set(asyncio.all_tasks())


def _descriptors() -> set[str]:
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError):
            found.add(f"{name}={os.readlink(f'/proc/self/fd/{name}')}")
    return found


def _children() -> set[str]:
    try:
        return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
    except OSError:
        return set()


TRANSPORTS: Final = {
    "asyncio": ("memory", "memory-legacy", "http", "http-legacy", "sse"),
    "uvloop": ("memory", "memory-legacy", "http", "http-legacy", "sse", "stdio"),
    "trio": ("memory", "memory-legacy"),
    "trio-real": ("stdio",),
}
"""By event loop. A child process lives in real time, so not on the loops whose time is virtual."""


_warm: set[str] = set()


async def _nothing() -> None:
    await anyio.sleep(0)


def play(backend: str, transport: str, seed: int) -> list[str]:
    """Play one schedule; what is wrong afterwards."""
    from tests.schedules.loops import Stuck, run_seeded

    if backend not in _warm:  # what a loop makes once per process
        _warm.add(backend)
        run_seeded(backend, _nothing, 0)
    descriptors, children = _descriptors(), _children()
    world = World(transport, seed)
    with contextlib.ExitStack() as patches, warnings.catch_warnings(record=True) as warned:
        if backend == "uvloop":  # in real time a busy machine could make a client give up ending its session
            patches.enter_context(mock.patch.object(http_client, "_GOODBYE_S", 30.0))
        warnings.simplefilter("always")
        try:
            run_seeded(backend, world.play, seed)
        except Stuck as error:
            world.wrong.append(f"stuck: {error}")
        except BaseExceptionGroup as error:
            world.wrong.append(f"raised: {error!r} {[repr(each) for each in error.exceptions]}")
        except (Exception, asyncio.CancelledError) as error:
            world.wrong.append(f"raised: {error!r}")
        world.clients.clear()
        world.links.clear()
        gc.collect()
    world.wrong += [f"warned: {each.message}" for each in warned if each.category in (ResourceWarning, RuntimeWarning)]
    world.wrong += [f"descriptor left: {each}" for each in sorted(_descriptors() - descriptors)]
    world.wrong += [f"process left: {each}" for each in sorted(_children() - children)]
    return world.wrong
