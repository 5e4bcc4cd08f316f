"""ferrule.transports.asgi.lifecycle and .runtime: starting on first use, stopping, starting again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ferrule.kernel.server import Server
from ferrule.transports.asgi import HttpEndpoint, HttpOptions
from ferrule.transports.asgi.lifecycle import LifespanRunner
from ferrule.transports.asgi.runtime import current_runtime
from tests.transports.asgi.support import modern, modern_call, open_session

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

CALL = modern(1, "tools/call", {"name": "state", "arguments": {}})


class Recorded:
    """A server whose lifespan keeps a log and opens a task group, which only its own task may close."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.server: Server[Any] = Server("x", lifespan=self.lifespan)
        self.server.add_request_handler("tools/call", self.call)
        self.endpoint = HttpEndpoint(self.server, HttpOptions())

    @asynccontextmanager
    async def lifespan(self, server: Server[Any]) -> AsyncIterator[dict[str, int]]:
        self.log.append("enter")
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield {"number": self.log.count("enter")}
            group.cancel_scope.cancel()
        self.log.append("leave")

    async def call(self, ctx: Any) -> Any:
        return {"content": [{"type": "text", "text": str(ctx.lifespan_context["number"])}]}

    async def ask(self) -> str:
        answer = await modern_call(self.endpoint, CALL).run()
        return str(answer.json["result"]["content"][0]["text"])


async def lifespan_events(app: Any, until: anyio.Event, seen: list[str]) -> None:
    """A host that sends lifespan events."""
    queue = ["lifespan.startup"]

    async def receive() -> dict[str, Any]:
        if queue:
            return {"type": queue.pop()}
        await until.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: dict[str, Any]) -> None:
        seen.append(message["type"])

    await app({"type": "lifespan"}, receive, send)


async def test_the_first_request_starts_the_server_once() -> None:
    """Without any lifespan event, and also when many come at once."""
    recorded = Recorded()
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await recorded.ask())

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(ask)
    assert (answers, recorded.log) == (["1"] * 10, ["enter"])
    await recorded.endpoint.aclose()
    assert recorded.log == ["enter", "leave"]


async def test_it_can_start_again_after_a_shutdown() -> None:
    """As a warm serverless function does: startup and shutdown around each invocation."""
    recorded = Recorded()
    for number in (1, 2, 3):
        stop, seen = anyio.Event(), list[str]()
        async with anyio.create_task_group() as group:
            group.start_soon(lifespan_events, recorded.endpoint, stop, seen)
            while not seen:
                await anyio.sleep(0)
            assert await recorded.ask() == str(number)
            stop.set()
        assert seen == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert await recorded.ask() == "4"
    await recorded.endpoint.aclose()
    await recorded.endpoint.aclose()
    assert recorded.log == ["enter", "leave"] * 4


async def test_a_shutdown_forgets_the_sessions() -> None:
    """They belong to the run that is over."""
    recorded = Recorded()
    await open_session(recorded.endpoint)
    assert recorded.endpoint.legacy is not None
    assert len(recorded.endpoint.legacy.sessions) == 1
    await recorded.endpoint.aclose()
    assert len(recorded.endpoint.legacy.sessions) == 0


async def test_a_lifespan_that_fails_is_reported_to_the_host(caplog: pytest.LogCaptureFixture) -> None:
    """startup.failed, so that the host does not serve."""

    @asynccontextmanager
    async def broken(server: Any) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    seen: list[str] = []
    app = HttpEndpoint(Server("x", lifespan=broken))
    with caplog.at_level(logging.ERROR):
        await lifespan_events(app, anyio.Event(), seen)
    assert seen == ["lifespan.startup.failed"]
    assert "lifespan failed to start" in caplog.text


async def test_a_lifespan_that_is_left_by_a_cancellation_does_not_serve(
    any_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its state is not there; 503, and the reason in the log."""

    @asynccontextmanager
    async def broken(server: Any) -> AsyncIterator[dict[str, int]]:
        raise asyncio.CancelledError
        yield {}

    if any_backend == "trio":
        pytest.skip("a stray cancellation of asyncio ends a trio program")
    app = HttpEndpoint(Server("x", lifespan=broken))
    for _ in range(2):
        answer = await modern_call(app, CALL).run()
        assert answer.status == 503
    assert "CancelledError" in caplog.text


async def test_stopping_what_never_started_does_nothing() -> None:
    """A host that shuts down before the first request."""
    life = LifespanRunner(Server("x"))
    await life.stop()
    await life.start()
    await life.start()
    await life.stop()
    assert life.running_on is None


async def test_other_connection_types_are_refused() -> None:
    """A WebSocket is closed, not crashed on."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await HttpEndpoint(Server("x"))({"type": "websocket", "path": "/mcp", "headers": []}, receive, send)
    assert sent[0]["type"] == "websocket.close"


async def test_a_timer_fires_once_unless_called_off() -> None:
    """On either loop."""
    runtime = current_runtime()
    fired: list[str] = []
    runtime.call_later(0.01, lambda: fired.append("a"))
    called_off = runtime.call_later(0.01, lambda: fired.append("b"))
    called_off.cancel()
    called_off.cancel()
    with anyio.fail_after(30):
        while not fired:
            await anyio.sleep(0.005)
    await anyio.sleep(0.02)
    assert fired == ["a"]
    assert current_runtime() is runtime


async def test_a_bare_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """No task awaits it, and on trio it would end the program."""
    done = anyio.Event()

    async def fail() -> None:
        done.set()
        raise ValueError("x")

    with caplog.at_level(logging.ERROR, "ferrule.http"):
        current_runtime().spawn(fail)
        await done.wait()
        with anyio.fail_after(30):
            while not caplog.records:
                await anyio.sleep(0.001)


def test_a_new_event_loop_starts_it_anew(anyio_backend: str) -> None:
    """Serverless hosts and tests run one loop per call, without any shutdown between."""
    recorded = Recorded()
    assert [anyio.run(recorded.ask, backend=anyio_backend) for _ in range(3)] == ["1", "2", "3"]
    assert recorded.log.count("enter") == 3


def test_an_abandoned_loop_leaves_no_timer_behind() -> None:
    """Idle sessions of an old loop are swept on the new one, and keep-alive goes on."""
    recorded = Recorded()
    endpoint = HttpEndpoint(recorded.server, HttpOptions(session_idle_s=0.05))

    async def open_one() -> None:
        await open_session(endpoint)

    asyncio.run(open_one())

    async def wait_for_sweep() -> None:
        await open_session(endpoint)
        assert endpoint.legacy is not None
        async with asyncio.timeout(30):
            while len(endpoint.legacy.sessions):
                await asyncio.sleep(0.01)

    asyncio.run(wait_for_sweep())
