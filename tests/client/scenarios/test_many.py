"""Many clients, opened in one task and closed in another, in any order: nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
import warnings
from pathlib import Path

import pytest

from ferrule import Client, StdioServer
from tests.client.server_program import make_app
from tests.peers.scripted_http import Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

PROGRAM = str(Path(__file__).parents[1] / "server_program.py")
CAT = "import sys\nfor line in sys.stdin: pass"


def open_files() -> set[str]:
    found: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name}={os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            pass
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
async def test_two_hundred_clients_opened_here_and_closed_there() -> None:
    """No warning, and no leaked task, process, thread or descriptor."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.stream()
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    env = {"PYTHONPATH": str(Path(__file__).parents[3])}
    async with ScriptedServer(handler) as server:
        # Whatever is made once per process is there before counting.
        async with Client(server.url, mode="legacy") as client:
            await client.list_tools()
        async with Client(StdioServer(sys.executable, [PROGRAM], env=env)) as client:
            await client.list_tools()
        await asyncio.sleep(0.1)
        gc.collect()
        files, tasks, threads = open_files(), asyncio.all_tasks(), threading.active_count()
        targets = [make_app() for _ in range(100)] + [server.url] * 90
        targets += [StdioServer(sys.executable, [PROGRAM], env=env) for _ in range(10)]
        clients = [Client(target, mode="legacy" if number % 2 else "auto") for number, target in enumerate(targets)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await asyncio.create_task(open_all(clients))
            assert all(client.is_connected for client in clients)
            random.Random(7).shuffle(clients)
            for client in clients:
                await asyncio.create_task(client.aclose())
            del client, clients, targets
            gc.collect()
        # What other tests have left behind may be closed meanwhile, so only what is new counts.
        async with asyncio.timeout(60):
            while server.open_connections or asyncio.all_tasks() - tasks or open_files() - files:
                await asyncio.sleep(0.01)
        assert threading.active_count() <= threads


async def open_all(clients: list[Client]) -> None:
    for start in range(0, len(clients), 50):
        await asyncio.gather(*(client.connect() for client in clients[start : start + 50]))


async def test_cancelled_connect_leaves_nothing() -> None:
    """The task that connects is cancelled at every turn of the loop that it takes."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.respond(405)
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    async with ScriptedServer(handler) as server:
        before = asyncio.all_tasks()
        for turns in range(60):
            for target in (server.url, make_app()):
                client = Client(target, mode="legacy")
                task = asyncio.create_task(client.connect())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await client.aclose()
        async with asyncio.timeout(30):
            while {task for task in asyncio.all_tasks() - before if "ScriptedServer" not in repr(task)}:
                await asyncio.sleep(0.01)


async def test_closing_while_another_task_connects() -> None:
    """Close waits for the connect, or the connect fails; neither hangs nor leaks."""
    for turns in range(30):
        client = Client(make_app(), mode="legacy")
        task = asyncio.create_task(client.connect())
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await client.aclose()
            await asyncio.gather(task, return_exceptions=True)
            await client.aclose()


async def test_thousand_calls_hold_steady() -> None:
    """1,000 concurrent calls through one client, several times over: answers are right, nothing grows."""
    async with Client(
        StdioServer(sys.executable, [PROGRAM], env={"PYTHONPATH": str(Path(__file__).parents[3])})
    ) as client:
        for _ in range(3):
            results = await asyncio.gather(*(client.call_tool("add", {"a": number}) for number in range(1000)))
            assert [result.data["sum"] for result in results] == [number + 2 for number in range(1000)]
