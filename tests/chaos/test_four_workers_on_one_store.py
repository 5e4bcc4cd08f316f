"""``app.run("http", workers=4)`` on Redis, PostgreSQL and one SQLite file: every promise on each worker.

Each request opens a connection of its own, so that it meets any of them.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client
from tests.chaos.test_sessions_across_workers import Server, events, in_background

pytestmark = pytest.mark.anyio

PROGRAM = """
import os, sys, time
import anyio
from ferrule import Context, MCPServer
from ferrule.app.middleware.builtin import CacheResults, RateLimit
from ferrule.extensions.tasks import Tasks

app = MCPServer(
    "four",
    store=sys.argv[1] if len(sys.argv) > 1 else os.environ["FOUR_STORE"],
    extensions=[Tasks(poll_interval_ms=50)],
    middleware=[
        RateLimit(30, per_s=3600, methods=["prompts/get"], key=lambda ctx: "all"),
        CacheResults(60, tools=["stamp"], scope="public"),
    ],
)

@app.tool
def pid() -> int:
    return os.getpid()

@app.tool
def stamp(word: str) -> str:
    return f"{word} {os.getpid()} {time.time_ns()}"

@app.prompt
def limited() -> str:
    return "x"

@app.tool
def keep(ctx: Context, value: str) -> str:
    ctx.session_state["value"] = value
    return "kept"

@app.tool
def kept(ctx: Context) -> str:
    return f"{ctx.session_state.get('value')} {os.getpid()}"

@app.tool
async def slow(ctx: Context, seconds: float) -> str:
    await ctx.progress(1, 2)
    await anyio.sleep(seconds)
    return "slow"

@app.tool
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "changed"

@app.tool(task="required", resumable=True)
async def work(ctx: Context) -> str:
    return await ctx.step("one", lambda: "done", once=True)

if __name__ == "__main__":
    app.run("http", port=0, workers=4, on_started=lambda host, port: print(port, flush=True))
"""


@pytest.fixture(params=["redis", "postgres", "sqlite"])
def four(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_store: Callable[[str], str]
) -> Generator[Server]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    store = f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else new_store(request.param)
    monkeypatch.setenv("FOUR_STORE", store)
    server = Server(script, store)
    server.store = store  # type: ignore[attr-defined]
    yield server
    server.close()


async def test_every_promise_holds_on_whichever_worker_a_request_meets(four: Server) -> None:
    """State, a change, a resumed stream, a limit, a kept answer, a subscription, a task; all that is left expires."""
    session = four.initialize()
    assert four.call(session, "keep", value="brass") == "kept"
    pids: set[str] = set()
    for _ in range(200):
        value, pid = four.call(session, "kept").split()
        assert value == "brass"
        pids.add(pid)
        if len(pids) >= 3:
            break
    assert len(pids) >= 2, "the kernel gave every connection to one worker"

    connection, response = four.open("GET", session)
    heard = in_background(lambda: next(events(response)))
    for _ in range(4):
        assert four.call(session, "change") == "changed"
    assert heard()[1]["method"] == "notifications/tools/list_changed"
    response.close()
    connection.close()

    for number in range(4):
        params = {"name": "slow", "arguments": {"seconds": 0.3}, "_meta": {"progressToken": "p"}}
        body = {"jsonrpc": "2.0", "id": 700 + number, "method": "tools/call", "params": params}
        connection, response = four.open("POST", session, body)
        id, _ = next(events(response))
        response.close()
        connection.close()
        connection, response = four.open("GET", session, **{"last-event-id": str(id)})
        _, message = next(events(response))
        assert message["result"]["content"][0]["text"] == "slow"
        response.close()
        connection.close()

    passed = 0
    for number in range(60):
        body = {"jsonrpc": "2.0", "id": 900 + number, "method": "prompts/get", "params": {"name": "limited"}}
        _, _, answer = four.send(session, body)
        passed += "result" in answer
    assert passed == 30

    assert len({four.call(session, "stamp", word="a") for _ in range(20)}) == 1

    url = f"http://127.0.0.1:{four.port}/mcp"
    with anyio.fail_after(60):
        async with Client(url, mode="2026-07-28") as client, client.listen(tools=True) as changes:
            for _ in range(8):
                async with Client(url, mode="2026-07-28") as other:
                    await other.call_tool("change")
            await anext(changes)
            handle = await client.start_tool("work")
            assert (await handle.result()).text == "done"

    await all_expires(four.store)  # type: ignore[attr-defined]


async def all_expires(store: str) -> None:
    """Nothing of what the run left stays for ever."""
    if store.startswith("sqlite"):
        with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'ferrule_*'")
            tables = [name for (name,) in found if name not in ("ferrule_clock", "ferrule_task_counts")]
            assert len(tables) == 8
            for table in tables:
                assert connection.execute(f"SELECT count(*) FROM {table} WHERE expires_at IS NULL").fetchone() == (0,)
        return
    if store.startswith("postgres"):
        await all_expires_in_postgres(store)
        return
    from redis.asyncio import Redis

    url, _, query = store.partition("?prefix=")
    async with Redis.from_url(url) as client:
        kinds: set[str] = set()
        async for key in client.scan_iter(f"{query}:*"):
            kinds.add(key.decode().split("{")[1].split(":")[0].split("}")[0])
            left_ms = await client.pttl(key)
            # Gone between the two, or it ends within a month (the longest that a session may be idle).
            assert left_ms == -2 or 0 < left_ms <= 31 * 24 * 3600 * 1000, f"{key} never expires"
    assert {"session", "blob", "mark", "tasks", "cache", "rate"} <= kinds


async def all_expires_in_postgres(store: str) -> None:
    """Each table has a time of expiry in each row; only the version and the number of tasks have none."""
    import asyncpg

    url, _, schema = store.partition("?schema=")
    connection = await asyncpg.connect(url)
    found = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    tables = {name for (name,) in found} - {"meta", "task_counts"}
    assert len(tables) == 9
    filled: set[str] = set()
    for table in tables:
        rows = await connection.fetch(
            f"SELECT expires_at - extract(epoch FROM now())::float8 AS left_s FROM {schema}.{table}"
        )
        # It ends within a month, the longest that a session may be idle, and a tenth.
        assert all(row["left_s"] <= 34 * 24 * 3600 for row in rows), table
        if rows:
            filled.add(table)
    assert {"sessions", "events", "blobs", "marks", "tasks", "cache", "rates", "messages"} <= filled
    await connection.close()


WRITER = """
import sys
import anyio
from ferrule.stores.store import open_store

async def main():
    store = open_store(sys.argv[1])
    for number in range(100_000):
        name = f"k{number}"
        assert (await store.marks.begin(name, ttl_s=600)).state == "mine"
        await store.marks.finish(name, name.encode(), ttl_s=600)
        await store.sessions.put(name, name.encode(), idle_s=600)
        id = await store.events.append("s", name, name.encode())
        await store.channel.send(name.encode())
        await store.rates.take(name, size=1, per_s=600)
        await store.cache.put("g", name, name.encode(), ttl_s=600)
        print(number, id, flush=True)

anyio.run(main)
"""


async def test_a_file_survives_the_death_of_its_writers(tmp_path: Path) -> None:
    """``kill -9`` in the middle of three writers: what was said to be kept is there, and the file is whole."""
    from ferrule.stores.store import open_store

    url = f"sqlite:///{tmp_path}/store.db"
    writers: list[tuple[Any, list[str]]] = []
    for number in range(3):
        program = WRITER.replace('f"k{number}"', f'f"{number}k{{number}}"')
        process = subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True)
        writers.append((process, []))
    for process, _ in writers:
        assert process.stdout is not None
        process.stdout.readline()  # all three are at work
    await anyio.sleep(0.5)
    for process, lines in writers:
        process.send_signal(signal.SIGKILL)
        lines.extend(line for line in process.stdout.read().splitlines() if line.count("-") == 1)
        process.wait()
        process.stdout.close()
    store = open_store(url)
    assert store.sessions is not None
    assert store.events is not None
    for number, (_, lines) in enumerate(writers):
        assert lines, "a writer was killed before it had kept anything"
        for line in lines[-20:]:
            name = f"{number}k{line.split()[0]}"
            mark = await store.marks.begin(name, ttl_s=600)
            assert (mark.state, mark.value) == ("done", name.encode())
            assert await store.sessions.get(name, idle_s=600) == name.encode()
            assert await store.events.replay("s", line.split()[1]) is not None
            assert await store.rates.take(name, size=1, per_s=600) > 0
            assert await store.cache.get("g", name) == name.encode()
    with closing(sqlite3.connect(f"{tmp_path}/store.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
