"""Several processes on the database of one project, of which some are killed at random moments."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from ferrule import Client
from ferrule.client.calls.tasks import TaskHandle
from ferrule.protocol.errors import RemoteError
from tests.chaos.support import LOST, SEED, Running, repeated_effects
from tests.django.store.databases import KINDS_OF_DATABASE, POSTGRES_URL, database
from tests.processes import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="no workers there")]

KILLS = int(os.environ.get("FERRULE_CHAOS_KILLS", "6"))

HEAD = """
import json, os, sys
import anyio
import django
from django.conf import settings

settings.configure(
    SECRET_KEY=os.environ.get("STORE_SECRET", "only for tests " * 4),
    SECRET_KEY_FALLBACKS=[os.environ["STORE_OLD_SECRET"]] if "STORE_OLD_SECRET" in os.environ else [],
    DATABASES={"default": json.loads(os.environ["STORE_DATABASE"])},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "ferrule.django"],
    USE_TZ=True,
    MCP={"NAME": "chaos", "REQUIRE_LOGIN": False, "TASK_WORKER": bool(os.environ.get("STORE_WORKER"))},
)
django.setup()
from ferrule import Context
from ferrule.django import DjangoServer
from ferrule.extensions.tasks import Tasks

def note(line):
    file = os.open(os.environ["STORE_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\\n".encode())
    os.close(file)

def effect(name):
    note(f"effect {name}")
    return name
"""

FOUR = """
app = DjangoServer(extensions=[Tasks(lease_s=1, poll_interval_ms=50)])

@app.tool
async def count(ctx: Context) -> int:
    number = ctx.session_state["number"] = ctx.session_state.get("number", 0) + 1
    return number

@app.tool
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "changed"

@app.tool(task="required", resumable=True)
async def work(name: str, ctx: Context) -> str:
    for number in range(3):
        await ctx.step(f"step{number}", effect, f"{name}/{number}")
        note(f"kept {name}/{number}")
        await anyio.sleep(0.1)
    await ctx.step("charge", effect, f"{name}/charge", once=True)
    return name

if __name__ == "__main__":
    app.run("http", port=0, workers=4, on_started=lambda host, port: print(port, flush=True))
"""


class Project:
    """A project on a database, and the programs that it runs."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.notes_file = folder / "notes"
        self.environment = {
            **os.environ,
            "STORE_DATABASE": json.dumps(settings),
            "STORE_NOTES": str(self.notes_file),
        }

    def start(self, text: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a program; it ends with `stop`."""
        script = self.folder / f"program_{secrets.token_hex(4)}.py"
        script.write_text(HEAD + text)
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )

    def notes(self) -> list[tuple[str, str]]:
        """What was noted, in order: ``(word, name)``."""
        lines = self.notes_file.read_text().splitlines() if self.notes_file.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(30)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["plain sqlite", *KINDS_OF_DATABASE])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Project]:
    with database("processes", request.param, tmp_path) as settings:
        yield Project(tmp_path, settings)


async def test_killed_workers_lose_no_task_and_no_session(project: Project) -> None:
    """Four workers on one database; each step that was kept takes effect once, and a session counts on."""
    rng = random.Random(SEED)
    process = project.start(FOUR)
    try:
        assert process.stdout is not None
        server = Running(process, int(await asyncio.to_thread(process.stdout.readline)))
        finished, in_doubt = await _under_fire(server, rng)
    finally:
        await asyncio.to_thread(stop, process)
    notes, said = project.notes(), f"seed {SEED}: {finished}, in doubt {in_doubt}"
    assert repeated_effects(notes) == [], said
    charges = [name for word, name in notes if word == "effect" and name.endswith("/charge")]
    assert len(charges) == len(set(charges)), said
    assert {f"{name}/charge" for name in finished} <= set(charges), said
    assert len(finished) >= 4, said


async def _under_fire(server: Running, rng: random.Random) -> tuple[list[str], list[str]]:
    """Return the names of the tasks that have ended, and of those whose last step is in doubt."""
    finished: list[str] = []
    in_doubt: list[str] = []
    counted, is_over = 0, False

    async def start(client: Client) -> tuple[str, TaskHandle]:
        # A name of its own for each attempt: a call whose answer was lost may have started a task all the same.
        name = secrets.token_hex(4)
        return name, await client.start_tool("work", {"name": name})

    async def tasks(client: Client) -> None:
        while not is_over:
            name, handle = await _again(lambda: start(client))
            result = await _again(handle.result)
            if result.is_error and "not known" in result.text:  # killed within the step that runs once
                in_doubt.append(name)
                continue
            assert result.text == name
            finished.append(name)

    async def sessions(client: Client) -> None:
        nonlocal counted
        while not is_over:
            number = (await _again(lambda: client.call_tool("count"))).data
            assert number > counted, f"{number} after {counted}"
            counted = number
            await asyncio.sleep(0.05)

    async with (
        asyncio.timeout(120),
        Client(server.url, mode="2026-07-28") as modern,
        Client(server.url, mode="2025-11-25") as legacy,
        asyncio.TaskGroup() as group,
    ):
        # A known schema, so that no result is read without one because a list was lost in a kill.
        await _again(legacy.list_tools)
        for _ in range(3):
            group.create_task(tasks(modern))
        group.create_task(sessions(legacy))
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(0.1, 0.6))
            workers = await asyncio.to_thread(server.workers)
            if workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
        while len(finished) < 4:
            await asyncio.sleep(0.1)
        is_over = True
    return finished, in_doubt


async def _again(call: Any) -> Any:
    """The result of a call, which is sent again if its worker was killed."""
    while True:
        try:
            return await call()
        except LOST as error:
            if isinstance(error, TimeoutError):
                raise
            await asyncio.sleep(0.02)


async def test_changes_reach_listeners_of_other_workers(project: Project) -> None:
    process = project.start(FOUR)
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(await asyncio.to_thread(process.stdout.readline))}/mcp"
        async with (
            asyncio.timeout(60),
            Client(url, mode="2026-07-28") as client,
            client.listen(tools=True) as changes,
        ):
            for _ in range(8):  # each on a connection of its own, so that other workers serve some
                async with Client(url, mode="2026-07-28") as other:
                    await other.call_tool("change")
                await anext(changes)
    finally:
        await asyncio.to_thread(stop, process)


CLAIM = """
from ferrule.django.store.store import django_store
store = django_store()

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    mine = 0
    for number in range(50):
        mine += (await store.marks.begin(f"k{number}", ttl_s=60)).state == "mine"
        mine += 100 * ((await store.rates.take("r", size=7, per_s=6000)) == 0)
    for number in range(20):
        await store.events.append("s", "1", b"x")
    print(mine, flush=True)

anyio.run(main)
"""


async def test_processes_at_once_share_every_claim_out(project: Project) -> None:
    """Fifty keys and seven tokens for four processes: each is given once in all; no event's number is given twice."""
    from ferrule.django.models import EventRow

    script = project.folder / "claim.py"
    script.write_text(HEAD + CLAIM)
    workers = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=project.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert await asyncio.to_thread(worker.stdout.readline) == "ready\n"
    counts = await asyncio.gather(*(asyncio.to_thread(worker.communicate, "go\n", 100) for worker in workers))
    assert sum(int(out) for out, _ in counts) == 50 + 7 * 100

    def numbers() -> list[Any]:
        try:
            return list(EventRow._default_manager.using("processes").values_list("number"))
        finally:
            connections["processes"].close()  # this thread's own

    rows = await asyncio.to_thread(numbers)
    assert len(rows) == len(set(rows)) == 80


WORKER = """
app = DjangoServer()

@app.tool(task="required", resumable=True)
def work(name: str) -> str:
    note(f"effect {name}")
    return f"{name} {os.getpid()}"

if __name__ == "__main__":
    if sys.argv[1] == "worker":
        from ferrule.django.store.worker import run_worker
        run_worker(app, on_started=lambda: print("ready", flush=True))
    else:
        app.run("http", port=0, on_started=lambda host, port: print(port, flush=True))
"""


async def test_a_worker_runs_the_tasks_of_the_processes_that_serve(project: Project) -> None:
    """Each once, of two workers; and none in the process that received the call."""
    programs = [project.start(WORKER, role, STORE_WORKER="1") for role in ("worker", "worker", "serve")]
    try:
        said = [await asyncio.to_thread(each.stdout.readline) for each in programs if each.stdout is not None]
        async with asyncio.timeout(60), Client(f"http://127.0.0.1:{int(said[2])}/mcp", mode="2026-07-28") as client:
            handles = [await client.start_tool("work", {"name": str(number)}) for number in range(8)]
            results = [(await handle.result()).text.split() for handle in handles]
    finally:
        for each in programs:
            await asyncio.to_thread(stop, each)
    assert [name for name, _ in results] == [str(number) for number in range(8)]
    assert {int(pid) for _, pid in results} <= {each.pid for each in programs[:2]}
    assert sorted(name for _, name in project.notes()) == [str(number) for number in range(8)]


ROUNDS = """
app = DjangoServer()

@app.tool
async def order(ctx: Context) -> str:
    answer = await ctx.elicit("How many?", int)
    return f"{answer.data} {os.getpid()}"

if __name__ == "__main__":
    app.run("http", port=int(sys.argv[1]), on_started=lambda host, port: print(port, flush=True))
"""


@pytest.mark.parametrize(
    ("project", "change"),
    [
        ("sqlite", "none"),
        pytest.param("postgresql", "none", marks=pytest.mark.skipif(POSTGRES_URL is None, reason="no PostgreSQL")),
        ("sqlite", "rotated"),
        ("sqlite", "replaced"),
    ],
    indirect=["project"],
)
async def test_another_process_goes_on_with_a_call(project: Project, change: str) -> None:
    """Also after the secret was changed, if the old one is among the fallbacks; and only then. The kind of database has
    no part in the secret."""
    old, new = "old secret " * 5, "new secret " * 5
    later = {
        "none": {"STORE_SECRET": old},
        "rotated": {"STORE_SECRET": new, "STORE_OLD_SECRET": old},
        "replaced": {"STORE_SECRET": new},
    }[change]
    port = free_port()
    running = [await _served(project, port, STORE_SECRET=old)]

    async def user(params: Any) -> dict[str, Any]:
        await asyncio.to_thread(stop, running.pop())
        running.append(await _served(project, port, **later))
        return {"value": 3}

    try:
        async with (
            asyncio.timeout(60),
            Client(f"http://127.0.0.1:{port}/mcp", mode="2026-07-28", elicitation_handler=user) as client,
        ):
            if change == "replaced":
                with pytest.raises(RemoteError, match="not issued by this server"):
                    await client.call_tool("order")
            else:
                assert (await client.call_tool("order")).text == f"3 {running[0].pid}"
    finally:
        for each in running:
            await asyncio.to_thread(stop, each)


async def _served(project: Project, port: int, **environment: str) -> subprocess.Popen[str]:
    process = project.start(ROUNDS, str(port), **environment)
    assert process.stdout is not None
    await asyncio.to_thread(process.stdout.readline)
    return process
