"""The promise between tasks and engines, kept against an engine that does all it may: twice, late, never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Delivery, RunTask, Tasks
from tests.extensions.tasks.support import Legacy, Modern, tasks_of

pytestmark = pytest.mark.anyio


class Engine:
    """What all processes share."""

    def __init__(self) -> None:
        self.submitted: list[Delivery] = []
        self.withdrawn: list[Delivery] = []
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.times = 1
        self.is_away = False
        self.refused = 0
        self.handled = 0


class Executor:
    """One process's end of it."""

    is_local = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.run: RunTask | None = None

    @asynccontextmanager
    async def connected(self, run: RunTask) -> AsyncGenerator[None]:
        self.run = run
        yield

    async def submit(self, delivery: Delivery) -> None:
        if self.engine.is_away:
            self.engine.refused += 1
            raise ConnectionError
        self.engine.submitted.append(delivery)
        for _ in range(self.engine.times):
            self.engine.queue.put_nowait(delivery.task_id)

    async def withdraw(self, delivery: Delivery) -> None:
        self.engine.withdrawn.append(delivery)

    async def work(self, *, concurrency: int) -> None:
        assert self.run is not None
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._handle(self.run(await self.engine.queue.get())))

    async def _handle(self, run: Any) -> None:
        await run
        self.engine.handled += 1


class Site:
    """Processes on one file and one engine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = Engine()
        self.effects: list[str] = []
        self.go = asyncio.Event()

    def app(self, name: str) -> MCPServer[Any]:
        tasks = Tasks(executor=Executor(self.engine), lease_s=0.5, resubmit_s=0.3, poll_interval_ms=20)
        app: MCPServer[Any] = MCPServer("x", store=f"sqlite:///{self.path}/t.db", extensions=[tasks])

        @app.tool(task="optional", resumable=True)
        async def work(ctx: Context) -> str:
            await ctx.step("a", self.effects.append, "a")
            await self.go.wait()
            await ctx.step("b", self.effects.append, "b")
            return name

        @app.tool(task="optional")
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("name?", str)
            return f"Hello {answer.data} from {name}"

        @app.tool(task="optional", task_after_s=0.01)
        async def lasting() -> str:
            await self.go.wait()
            return name

        return app

    @asynccontextmanager
    async def web(self, name: str = "web") -> AsyncGenerator[Modern]:
        app = self.app(name)
        async with app.lowlevel.lifespan():
            yield Modern(app)

    @asynccontextmanager
    async def worker(self, name: str) -> AsyncGenerator[MCPServer[Any]]:
        app = self.app(name)
        async with app.lowlevel.lifespan():
            working = asyncio.ensure_future(tasks_of(app).work())
            try:
                yield app
            finally:
                working.cancel()
                await asyncio.wait([working])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_task_runs_where_it_was_brought_to_and_only_there(site: Site) -> None:
    """The process that received the call does not run the task; the client gets its id before the task begins."""
    async with site.web() as client:
        task_id = (await client.call("work"))["taskId"]
        assert tasks_of(client.app).running_here == 0
        assert [(delivery.tool, delivery.run) for delivery in site.engine.submitted] == [("work", 1)]
        site.go.set()
        async with site.worker("one"):
            task = await client.until(task_id)
    assert task["result"]["content"][0]["text"] == "one"


async def test_a_task_that_is_delivered_many_times_runs_once(site: Site) -> None:
    """At least once is what engines promise."""
    site.engine.times = 5
    async with site.web() as client, site.worker("one") as one, site.worker("two") as two:
        task_id = (await client.call("work"))["taskId"]
        await until(lambda: site.effects == ["a"])
        await until(lambda: site.engine.handled == 4)  # all deliveries but the one that runs the task
        assert tasks_of(one).running_here + tasks_of(two).running_here == 1
        site.go.set()
        await client.until(task_id)
        site.engine.queue.put_nowait(task_id)  # late, after its end
        await until(lambda: site.engine.handled == 6)
    assert site.effects == ["a", "b"]


async def test_a_delivery_that_got_lost_is_made_again(site: Site) -> None:
    """Also one that the engine refused; the client is not affected."""
    site.go.set()
    async with site.web() as client:
        lost = (await client.call("work"))["taskId"]
        site.engine.queue.get_nowait()
        site.engine.is_away = True
        refused = (await client.call("work"))["taskId"]
        await until(lambda: site.engine.refused)
        site.engine.is_away = False
        async with site.worker("one"):
            for task_id in (lost, refused):
                assert (await client.until(task_id))["status"] == "completed"
    assert site.effects.count("b") == 2
    assert {delivery.run for delivery in site.engine.submitted} == {1}


async def test_a_task_that_is_cancelled_before_it_begins_never_does(site: Site) -> None:
    """It is withdrawn, and an engine that cannot do that delivers it in vain."""
    async with site.web() as client:
        task_id = (await client.call("work"))["taskId"]
        await client.ask("tasks/cancel", taskId=task_id)
        assert [delivery.task_id for delivery in site.engine.withdrawn] == [task_id]
        async with site.worker("one"):
            await until(lambda: site.engine.handled == 1)
    assert not site.effects


async def test_a_worker_that_stops_hands_its_tasks_to_another(site: Site) -> None:
    """In good order, at once, and as the next run of the task."""
    async with site.web() as client:
        async with site.worker("one"):
            task_id = (await client.call("work"))["taskId"]
            await until(lambda: site.effects == ["a"])
        site.go.set()
        async with site.worker("two"):
            task = await client.until(task_id)
    assert task["result"]["content"][0]["text"] == "two"
    assert site.effects == ["a", "b"]
    assert site.engine.submitted[-1].run == 2


async def test_a_task_whose_web_process_ends_goes_to_a_worker(site: Site) -> None:
    """A call that became a task late runs in its own process; if it is not resumable it fails with the reason."""
    async with site.web() as client:
        task_id = (await client.call("lasting"))["taskId"]
        assert tasks_of(client.app).running_here == 1
        assert not site.engine.submitted
    task = await Modern(site.app("other")).get(task_id)
    assert (task["status"], task["statusMessage"]) == ("failed", "The server was stopped")


async def test_questions_and_status_of_a_legacy_client_find_their_way(site: Site) -> None:
    """Its connection is in one process, the body in another that has none."""
    app = site.app("web")
    async with app.lowlevel.lifespan(), site.worker("one"):
        client = Legacy(app, lambda method, params: {"action": "accept", "content": {"value": "Ann"}})
        task_id = (await client.start("greet"))["task"]["taskId"]
        result = await client.ask("tasks/result", taskId=task_id)
        assert result["content"][0]["text"] == "Hello Ann from one"

        def told() -> list[str]:
            sent = [params for method, params in client.dispatch.sent if method == "notifications/tasks/status"]
            for params in sent:
                assert params["taskId"] == task_id
                assert {"ttl", "pollInterval", "createdAt", "lastUpdatedAt"} <= set(params)
                assert not {"ttlMs", "pollIntervalMs", "result", "inputRequests"} & set(params)
            return [params["status"] for params in sent]

        await until(lambda: told()[-1:] == ["completed"])
        assert "input_required" in told()
        await asyncio.sleep(0.05)
        assert told().count("completed") == 1


def test_an_engine_needs_a_store_that_its_processes_see() -> None:
    """Other processes could not find the records."""
    app = MCPServer("x")
    with pytest.raises(ValueError, match="all its processes see"):
        app.add_extension(Tasks(executor=Executor(Engine())))
