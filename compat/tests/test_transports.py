"""Servers of the old SDK over HTTP: as they run themselves, and mounted in an application of Starlette."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat.tests.support import ERAS, SERVERS, SOURCES, command
from ferrule import Client
from tests.processes import free_port, wait_until_served

pytestmark = pytest.mark.anyio


@contextmanager
def served(tmp_path: Path, server: str, *arguments: str, port: int) -> Iterator[None]:
    """A server file that serves on a port."""
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command(str(SERVERS / server), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )
    try:
        wait_until_served(process, port, log)
        yield
    finally:
        process.terminate()
        process.wait(30)


async def test_streamable_http_serves_both_eras(tmp_path: Path) -> None:
    """`run(transport="streamable-http")`, with a route of its own beside it."""
    port = free_port()
    with served(tmp_path, "web.py", "streamable-http", str(port), port=port):
        for mode in ERAS:
            async with Client(
                f"http://127.0.0.1:{port}/mcp", mode=mode, elicitation_handler=lambda _: {"sure": True}
            ) as client:
                assert (await client.call_tool("agent", {})).content[0].text == "yes True"
        import aiohttp

        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/health") as response:
            assert (response.status, await response.text()) == (200, "fine")


async def test_sse_serves_clients_of_that_time(tmp_path: Path) -> None:
    """`run(transport="sse")`."""
    port = free_port()
    with served(tmp_path, "web.py", "sse", str(port), port=port):
        async with Client(f"http://127.0.0.1:{port}/sse", elicitation_handler=lambda _: {"sure": True}) as client:
            assert (await client.call_tool("agent", {})).content[0].text == "yes True"


@pytest.mark.parametrize(("transport", "path", "modes"), [("sse", "/sse", ("auto",)), ("http", "/mcp", ERAS)])
async def test_transports_in_an_application_of_starlette(
    tmp_path: Path, transport: str, path: str, modes: tuple[str, ...]
) -> None:
    """A low-level server mounts them itself; two clients have a session each."""
    port = free_port()
    with served(tmp_path, "low.py", transport, str(port), port=port):
        for mode in modes:
            url = f"http://127.0.0.1:{port}{path}"
            async with Client(url, mode=mode) as one, Client(url, mode=mode) as two:
                for client in (one, two, one):
                    assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"
