"""ferrule.transports.asgi.signals: streams end when another server is stopped, because it waits for them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.transports.asgi.runtime import current_runtime
from ferrule.transports.asgi.signals import ShutdownSignals
from tests.transports.asgi.support import Call, Steered, get_call, legacy_headers, modern, modern_call, running
from tests.transports.asgi.support import open_session as open_session_in_process
from tests.transports.http_support import Client, http, open_session, post

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")]

DIRECT = """
from ferrule import MCPServer
app = MCPServer("p", version="1").asgi()
"""
MOUNTED = """
from ferrule import MCPServer
endpoint = MCPServer("p", version="1").asgi()

async def app(scope, receive, send):
    "A host that keeps its lifespan to itself."
    if scope["type"] == "http":
        await endpoint(scope, receive, send)
"""
LISTEN = modern("sub", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})


@asynccontextmanager
async def hosted(program: str, tmp_path: Path, *options: str) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """``uvicorn hostapp:app`` on a free port."""
    (tmp_path / "hostapp.py").write_text(program)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "hostapp:app", "--port", str(port), *options]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    reading: asyncio.Task[Any] | None = None
    try:
        async with asyncio.timeout(60):
            while b"Uvicorn running" not in await process.stderr.readline():
                pass
        reading = asyncio.ensure_future(process.stderr.read())
        yield port, process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the child of a reloader too
        await process.wait()
        if reading is not None:
            await reading
        for client in Client.opened:
            client.abort()
        Client.opened.clear()


async def session_once_it_serves(port: int) -> str:
    """A reloader says that it runs before its child listens."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await open_session(port)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("program", [DIRECT, MOUNTED], ids=["lifespan", "no lifespan"])
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_uvicorn_ends_although_streams_are_open(program: str, sign: signal.Signals, tmp_path: Path) -> None:
    """As the page on serving shows it, without any option: a GET stream and a subscription end, then the process."""
    async with hosted(program, tmp_path) as (port, process):
        session = await open_session(port)
        stream, listener = await Client.connect(port), await Client.connect(port)
        await stream.send(http({**legacy_headers(session), "accept": "text/event-stream"}, b"", "GET"))
        await listener.send(post(LISTEN))
        assert (await stream.head())[0] == (await listener.head())[0] == 200
        assert b"acknowledged" in await listener.chunk()
        process.send_signal(sign)
        assert (await stream.ended()).endswith(b"0\r\n\r\n")
        assert b'"resultType":"complete"' in await listener.ended()
        async with asyncio.timeout(60):
            await process.wait()


async def test_uvicorn_reloads_although_a_stream_is_open(tmp_path: Path) -> None:
    """It stops its child process and waits for it."""
    pytest.importorskip("uvicorn.supervisors")
    async with hosted(DIRECT, tmp_path, "--reload", "--reload-delay", "0.05") as (port, _):
        session = await session_once_it_serves(port)
        stream = await Client.connect(port)
        await stream.send(http({**legacy_headers(session), "accept": "text/event-stream"}, b"", "GET"))
        assert (await stream.head())[0] == 200
        (tmp_path / "hostapp.py").write_text(DIRECT + "\n# changed\n")
        async with asyncio.timeout(60):
            assert (await stream.reader.read()).endswith(b"0\r\n\r\n")
        await session_once_it_serves(port)


class Host:
    """A server that handles SIGTERM, in this process."""

    ends_streams = False

    def __init__(self) -> None:
        self.told: list[int] = []

    def handle(self, number: int, frame: Any) -> None:
        self.told.append(number)


@pytest.fixture
def host() -> Any:
    """Its handlers, and afterwards those that were there before."""
    host = Host()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, host.handle)
    yield host
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_the_server_s_own_handler_is_called_and_comes_back(host: Host) -> None:
    """Two endpoints of one host both get the signal, and may end in any order."""
    heard: list[str] = []
    one, other = ShutdownSignals(lambda: heard.append("one")), ShutdownSignals(lambda: heard.append("other"))
    one.follow(current_runtime())
    other.follow(current_runtime())
    one.follow(current_runtime())
    signal.raise_signal(signal.SIGTERM)
    await anyio.wait_all_tasks_blocked()
    assert (host.told, sorted(heard)) == ([signal.SIGTERM], ["one", "other"])
    one.leave()
    signal.raise_signal(signal.SIGTERM)
    await anyio.wait_all_tasks_blocked()
    assert (host.told, heard[2:]) == ([signal.SIGTERM] * 2, ["other"])
    other.leave()
    signal.raise_signal(signal.SIGTERM)
    await anyio.wait_all_tasks_blocked()
    assert (len(host.told), len(heard)) == (3, 3)


async def test_a_server_that_ends_the_streams_itself_is_left_alone(host: Host) -> None:
    """Ferrule's server changes the probes first and ends the streams later; without a server there is nothing to do."""
    host.ends_streams = True
    signals = ShutdownSignals(lambda: None)
    signals.follow(current_runtime())
    assert signal.getsignal(signal.SIGTERM) == host.handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signals.follow(current_runtime())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_no_stream_is_opened_during_a_shutdown() -> None:
    """It would never end. Other requests are served; a new start serves all again."""
    steered = Steered(list_changed=["tools"])
    app = steered.endpoint()
    session = await open_session_in_process(app)
    await app.drain()
    refused = await get_call(app, session).run()
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    async with asyncio.timeout(30):
        answer = await modern_call(app, LISTEN).run()
    assert answer.messages[-1]["result"]["resultType"] == "complete"
    await app.aclose()
    session = await open_session_in_process(app)
    call: Call = get_call(app, session)
    async with running(call):
        assert (await call.until(lambda a: a.status)).status == 200
