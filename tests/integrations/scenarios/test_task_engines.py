"""Tasks on engines, with real processes: one that serves HTTP, two that run tasks and speak no transport."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.client.calls.tasks import TASKS_EXTENSION, TaskHandle, TaskState
from ferrule.protocol.errors import RemoteError

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("engine_program.py")
MODERN, LEGACY = "2026-07-28", "2025-11-25"


@pytest.fixture(params=["docket", "dramatiq"])
def engine(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return request.param


class Site:
    """A web process and its workers."""

    def __init__(self, engine: str, redis_url: str, tmp_path: Path) -> None:
        self.effects_file = tmp_path / "effects"
        self.effects_file.touch()
        self.name = f"engine-{secrets.token_hex(6)}"
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ENGINE": engine,
            "ENGINE_NAME": self.name,
            "ENGINE_REDIS": redis_url,
            "ENGINE_STORE": f"{redis_url}?prefix={self.name}-store",
            "ENGINE_FILE": str(self.effects_file),
        }
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.dead: set[int] = set()
        self.url = ""

    def start(self, kind: str) -> str:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), kind], env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self.processes[process.pid] = process
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.processes[pid].wait()
        self.dead.add(pid)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def effects(self) -> list[str]:
        return [line.split()[0] for line in self.effects_file.read_text().splitlines()]

    @asynccontextmanager
    async def client(self, mode: str, **options: Any) -> AsyncGenerator[Client]:
        async with asyncio.timeout(60), Client(self.url, mode=mode, **options) as client:
            yield client


@pytest.fixture
def site(engine: str, redis_url: str, tmp_path: Path) -> Any:
    made = Site(engine, redis_url, tmp_path)
    try:
        made.url = f"http://127.0.0.1:{made.start('web')}/mcp"
        for _ in range(2):
            assert made.start("worker") == "ready"
        yield made
    finally:
        made.close()


async def until_at(handle: TaskHandle, number: int, *, not_in: set[int] = frozenset()) -> int:  # type: ignore[assignment]
    """Return the process that has reported this step."""
    while True:
        state: TaskState = await handle.status()
        at, _, pid = (state.message or "").partition(" ")
        if at == str(number) and int(pid) not in not_in:
            return int(pid)
        assert not state.is_over, state
        await asyncio.sleep(0.02)


async def test_a_killed_worker_s_task_goes_on_in_another_and_repeats_no_step(site: Site) -> None:
    """``kill -9`` between kept steps: the record is replayed elsewhere; the body never runs in the web process."""
    web = next(iter(site.processes))
    async with site.client(MODERN) as client:
        handle = await client.start_tool("work")
        first = await until_at(handle, 1)
        site.kill(first)
        second = await until_at(handle, 2, not_in={first})
        assert (await handle.result()).text == "0 1 2 3"
    assert web not in {first, second}
    assert site.effects() == ["0", "1", "2", "3"]


async def test_a_task_that_cannot_be_resumed_fails_and_says_why(site: Site) -> None:
    """A client must not poll for ever."""
    async with site.client(MODERN) as client:
        handle = await client.start_tool("fragile")
        site.kill(await until_at(handle, 0))
        with pytest.raises(RemoteError, match="not resumable"):
            await handle.result()


async def test_a_cancellation_reaches_another_process_and_runs_finally_there(site: Site) -> None:
    """Through the store and its channel, whatever the engine can do."""
    async with site.client(MODERN) as client:
        handle = await client.start_tool("patient")
        pid = await until_at(handle, 0)
        await handle.cancel()
        while site.effects() != ["finally"]:
            await asyncio.sleep(0.02)
        assert (await handle.status()).status == "cancelled"
    assert site.effects_file.read_text() == f"finally {pid}\n"


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_worker_without_a_transport_gets_its_question_answered(site: Site, mode: str) -> None:
    """Through ``tasks/update`` in the one era, on the stream of ``tasks/result`` in the other."""

    async def answer(question: Any, *_: Any) -> Any:
        return {"action": "accept", "content": {"value": "Ann"}}

    async with site.client(mode, elicitation_handler=answer) as client:
        result = await (await client.start_tool("greet")).result()
    hello, _, pid = (result.text or "").rpartition(" from ")
    assert hello == "Hello Ann"
    assert int(pid) in list(site.processes)[1:]


async def test_a_modern_listener_on_the_web_process_gets_events_of_a_task_on_a_worker(site: Site) -> None:
    """Status notifications cross processes: ``taskIds`` of a subscription."""
    async with site.client(MODERN, extensions={TASKS_EXTENSION: {}}) as client:
        handle = await client.start_tool("work")
        statuses: list[Any] = []
        async for event in client.listen(more={"taskIds": [handle.task_id]}):
            if event.method == "notifications/tasks":
                statuses.append(event.params)
                if event.params["status"] == "completed":
                    break
    assert {params["taskId"] for params in statuses} == {handle.task_id}
    pids = {message.split()[1] for params in statuses if (message := params.get("statusMessage"))}
    assert pids <= {str(pid) for pid in list(site.processes)[1:]}
    assert statuses[-1]["result"]["content"][0]["text"] == "0 1 2 3"


def test_the_example_survives_its_killed_worker(redis_url: str) -> None:
    """What the page on task engines shows, with ``ferrule worker``."""
    pytest.importorskip("dramatiq")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "engines" / "run.py"), redis_url],
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "is killed" in done.stdout
    assert "the other worker has: 3 sacks of the rye that was ordered once" in done.stdout
