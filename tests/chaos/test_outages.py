"""The store's server away for a while, two workers on one task, clocks that differ: on real processes."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule import Client
from ferrule.client.calls.tasks import TaskHandle
from ferrule.protocol.errors import RemoteError
from tests.chaos.support import STUCK_S, Program, Running, repeated_effects
from tests.stores.own_postgres import OwnPostgres
from tests.stores.own_redis import OwnRedis
from tests.transports.hosting.test_workers import call

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="no workers there")]

TEXT = """
@app.tool
async def count(ctx: Context) -> int:
    number = ctx.session_state["number"] = ctx.session_state.get("number", 0) + 1
    return number

@app.tool
async def pid() -> int:
    return os.getpid()

@app.tool
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "changed"

@app.tool
async def ask(ctx: Context) -> str:
    return str((await ctx.elicit("name?", str, key="name")).data)

@app.tool(task="required", resumable=True)
async def work(name: str, ctx: Context, steps: int = 8, pause_s: float = 0.25) -> str:
    for number in range(steps):
        await ctx.step(f"step{number}", effect, f"{name}/{number}")
        note(f"kept {name}/{number}")
        await ctx.set_status(f"{number} {os.getpid()}")
        await anyio.sleep(pause_s)
    return f"{name} by {os.getpid()}"

if __name__ == "__main__":
    app.run("http", port=0, workers=int(os.environ["CHAOS_WORKERS"]) if "CHAOS_WORKERS" in os.environ else 1,
            on_started=lambda host, port: print(port, flush=True))
"""


async def answers(client: Client, tool: str) -> object:
    """The data of a call that may be refused while the store is away."""
    async with asyncio.timeout(STUCK_S):
        while True:
            try:
                return (await client.call_tool(tool)).data
            except (RemoteError, OSError):
                await asyncio.sleep(0.1)


async def pause(store: OwnRedis | OwnPostgres) -> None:
    """Its processes stand still for three lease times."""
    store.pause()
    await asyncio.sleep(3)
    store.go_on()


async def restart(store: OwnRedis | OwnPostgres) -> None:
    """It dies, and another takes its place with what it had written."""
    store.kill()
    await asyncio.sleep(1)
    await asyncio.to_thread(store.start)


@pytest.mark.parametrize("trouble", [pause, restart])
async def test_a_server_that_is_away_costs_time_and_nothing_else(
    trouble: object, own_server: OwnRedis | OwnPostgres, tmp_path: Path
) -> None:
    """Sessions, tasks and subscriptions go on, and calls that need nothing of it are served meanwhile."""
    program = Program(tmp_path, TEXT, own_server.url)
    with program.running(CHAOS_WORKERS="2") as server:
        async with (
            Client(server.url, mode="2026-07-28") as modern,
            Client(server.url, mode="2025-11-25") as legacy,
            Client(server.url, mode="2026-07-28") as listening,
        ):
            assert (await legacy.call_tool("count")).data == 1
            handles = [await modern.start_tool("work", {"name": f"task{number}"}) for number in range(4)]
            async with listening.listen(tools=True) as changes:
                troubled = asyncio.ensure_future(trouble(own_server))  # type: ignore[operator]
                while not troubled.done():
                    async with asyncio.timeout(STUCK_S):
                        assert (await modern.call_tool("pid")).data
                    await asyncio.sleep(0.1)
                await troubled
                number = await answers(legacy, "count")
                assert isinstance(number, int)
                assert number >= 2  # a new session would begin with 1
                async with asyncio.timeout(STUCK_S):
                    results = [(await handle.result()).text for handle in handles]
                assert [text.split()[0] for text in results] == ["task0", "task1", "task2", "task3"]
                heard = asyncio.ensure_future(anext(changes))
                async with asyncio.timeout(STUCK_S):
                    while not heard.done():  # as soon as the workers' channel stands again
                        await modern.call_tool("change")
                        await asyncio.sleep(0.1)
                await heard
    assert repeated_effects(program.notes()) == []


async def test_two_workers_that_finish_one_task_agree(server_store: Callable[[], str], tmp_path: Path) -> None:
    """One is stopped for longer than its lease, another takes the task over, then the first one continues."""
    program = Program(tmp_path, TEXT, server_store())
    with program.running(CHAOS_WORKERS="3") as server:
        async with Client(server.url, mode="2026-07-28") as client, asyncio.timeout(60):
            handle = await client.start_tool("work", {"name": "x", "steps": 4, "pause_s": 0.3})
            first = await worker_of(handle, "1")
            os.kill(first, signal.SIGSTOP)
            try:
                # A fresh client: a connection to the one that stands still would stand still as well.
                outcome = await result_elsewhere(server.url, str(handle.task_id))
            finally:
                os.kill(first, signal.SIGCONT)
            assert not outcome.endswith(f" {first}")
            await asyncio.sleep(1.5)  # the first has had the time of all steps to come to its own end
            for _ in range(4):
                async with Client(server.url, mode="2026-07-28") as another:
                    assert (await another.task(str(handle.task_id)).result()).text == outcome
    notes = program.notes()
    assert repeated_effects(notes) == []
    assert {name for word, name in notes if word == "effect"} == {f"x/{number}" for number in range(4)}


async def worker_of(handle: TaskHandle, step: str) -> int:
    """The process that runs a task, once it has taken a step."""
    while True:
        at, _, pid = ((await handle.status()).message or "").partition(" ")
        if at == step:
            return int(pid)
        await asyncio.sleep(0.02)


async def result_elsewhere(url: str, task_id: str) -> str:
    """A task's result, whichever worker stands still."""
    while True:
        try:
            async with asyncio.timeout(5), Client(url, mode="2026-07-28") as client:
                return (await client.task(task_id).result()).text
        except TimeoutError:
            continue


async def test_clocks_that_differ_by_two_seconds_change_nothing(
    server_store: Callable[[], str], tmp_path: Path
) -> None:
    """A task, a session and a sealed state of one machine are worth the same on another, early or late."""
    store = server_store()
    program = Program(tmp_path, TEXT, store)
    with program.running(CHAOS_CLOCK_OFFSET="2") as early, program.running() as late:

        async def begun_and_asked_for(one: Running, other: Running) -> None:
            async with Client(one.url, mode="2026-07-28") as here, Client(other.url, mode="2026-07-28") as there:
                name = secrets.token_hex(4)
                handle = await here.start_tool("work", {"name": name, "steps": 6, "pause_s": 0.3})
                result = await there.task(str(handle.task_id)).result()
                assert result.text == f"{name} by {one.process.pid}"  # no other process took it from a living one
                assert (await there.task(str(handle.task_id)).status()).is_over

        async with asyncio.timeout(40):
            await asyncio.gather(begun_and_asked_for(early, late), begun_and_asked_for(late, early))
    notes = program.notes()
    assert repeated_effects(notes) == []
    effects = [name for word, name in notes if word == "effect"]
    assert len(effects) == len(set(effects)) == 12


async def test_a_dead_workers_task_goes_on_under_another_clock(server_store: Callable[[], str], tmp_path: Path) -> None:
    """Leases are counted by the store: a clock that is ahead takes nothing early, one that is behind leaves nothing."""

    async def taken_over(offset: str) -> None:
        store = server_store()
        program = Program(tmp_path / offset, TEXT, store)
        with program.running() as one, program.running(CHAOS_CLOCK_OFFSET=offset) as other:
            async with Client(one.url, mode="2026-07-28") as here, asyncio.timeout(40):
                handle = await here.start_tool("work", {"name": "x", "steps": 4, "pause_s": 0.3})
                await worker_of(handle, "1")
            one.process.kill()
            async with Client(other.url, mode="2026-07-28") as there, asyncio.timeout(40):
                result = await there.task(str(handle.task_id)).result()
                assert result.text == f"x by {other.process.pid}"
        assert repeated_effects(program.notes()) == []

    await asyncio.gather(taken_over("2"), taken_over("-2"))


async def test_rounds_of_a_call_hold_under_two_clocks(server_store: Callable[[], str], tmp_path: Path) -> None:
    """A state that was sealed two seconds in the future is not a forgery."""
    program = Program(tmp_path, TEXT, server_store())
    with program.running(CHAOS_CLOCK_OFFSET="2") as early, program.running() as late:
        for one, other in ((early, late), (late, early)):
            asked = await asyncio.to_thread(call, one.port, "ask")
            answer = {"name": {"action": "accept", "content": {"value": "Ann"}}}
            more = {"inputResponses": answer, "requestState": asked["requestState"]}
            result = await asyncio.to_thread(lambda more=more, port=other.port: call(port, "ask", **more))
            assert result["content"][0]["text"] == "Ann"
