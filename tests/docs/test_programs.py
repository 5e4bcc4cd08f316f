"""Programs of the pages that need processes: an application with two workers, and a report whose process is killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client
from ferrule.errors import FerruleError, MCPError
from tests.processes import free_port, wait_until_served

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "snippets" / "deploy"
LIMIT_S = 100.0


@contextmanager
def running(command: list[str], log: Path, port: int, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the folder until the end of the block, with its output in a file."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=FOLDER, env={**os.environ, **variables}, stdout=file, stderr=file
        )
    try:
        wait_until_served(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


async def call_until_refused(client: Client) -> None:
    """More calls than a minute has, whatever was called before."""
    for _ in range(31):
        await client.call_tool("worker")


def agree(params: Any) -> dict[str, bool]:
    """The answer of the user."""
    return {"confirm": True}


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_two_workers_serve_the_same_users(tmp_path: Path, mode: str) -> None:
    """Each call may reach either worker: sessions and answers are shared, and so is the limit of a user."""
    pytest.importorskip("fastapi")
    port = free_port()
    url = f"http://127.0.0.1:{port}/tools/mcp"
    command = ["-m", "uvicorn", "fastapi_workers:app", "--workers", "2", "--port", str(port)]
    variables = {"PUBLIC_URL": url, "STORE": f"sqlite:///{tmp_path}/state.db"}

    def connect(key: str) -> Client:
        return Client(url, headers={"Authorization": f"Bearer {key}"}, mode=mode, proxy=None, elicitation_handler=agree)

    with running(command, tmp_path / "log", port, **variables):
        with pytest.raises(FerruleError, match="token"):
            async with connect("wrong") as client:
                await client.list_tools()
        workers = set()
        for _ in range(12):  # two processes take new connections as they come
            async with connect("key-of-ada") as client:
                workers.add((await client.call_tool("worker")).data)
                if len(workers) == 2:
                    break
        for _ in range(4):
            async with connect("key-of-ada") as client:
                done = await client.call_tool("reserve", {"part": "bolt"}, raise_on_error=True)
                assert done.text == "bolt is reserved for ada"
        async with connect("key-of-ada") as client:
            with pytest.raises(MCPError, match="Too many requests"):
                await call_until_refused(client)
        async with connect("key-of-bob") as client:
            assert (await client.call_tool("worker")).data  # each user has a limit of their own


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
async def test_a_report_goes_on_in_another_process(tmp_path: Path, mode: str) -> None:
    """Chapters that were written stay; only the one that was under way is written again."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    log = tmp_path / "log"
    variables = {"PORT": str(port), "STORE": f"sqlite:///{tmp_path}/reports.db", "SECONDS_A_CHAPTER": "0.5"}
    with running(["durable_report.py"], log, port, **variables) as process:
        async with Client(url, mode=mode, proxy=None) as client:
            handle = await client.start_tool("report", {"chapters": 6})
            with anyio.fail_after(LIMIT_S):
                while "writing chapter 3" not in log.read_text():
                    await anyio.sleep(0.05)
            process.kill()
            process.wait()
    with running(["durable_report.py"], log, port, **variables):
        async with Client(url, mode=mode, proxy=None) as client:
            with anyio.fail_after(LIMIT_S):
                done = await client.task(str(handle.task_id)).result()
    assert done.text == ", ".join(f"chapter {number}" for number in range(1, 7))
    begun = [line for line in log.read_text().splitlines() if line.startswith("writing chapter")]
    assert begun.count("writing chapter 1") == 1
    assert begun.count("writing chapter 2") == 1
    assert begun.count("writing chapter 3") == 2
    with closing(sqlite3.connect(tmp_path / "reports.db")) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
