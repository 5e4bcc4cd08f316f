"""Tasks that outlive their process: two servers on one file stand for two processes, one after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.app.rounds.manual import InputRequired
from ferrule.extensions.tasks import Tasks
from ferrule.protocol.errors import MCPError
from tests.extensions.tasks.support import Modern, process, tasks_of

pytestmark = pytest.mark.anyio


class Work:
    """What the tools of every process do, and what came of it."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.cleaned = 0
        self.go = asyncio.Event()
        self.began = asyncio.Event()

    def effect(self, name: str) -> str:
        self.effects.append(name)
        return name


def make(path: Path, work: Work, **options: Any) -> MCPServer[Any]:
    app = MCPServer("durable", store=f"sqlite:///{path}", extensions=[Tasks(lease_s=0.3, **options)])

    @app.tool(task="required", resumable=True)
    async def order(ctx: Context) -> str:
        first = await ctx.step("first", work.effect, "first")
        answer = await ctx.elicit("sure?", bool, key="sure")
        second = await ctx.step("second", work.effect, "second")
        await work.go.wait()
        third = await ctx.step("third", work.effect, "third")
        return f"{first} {answer.data} {second} {third} {ctx.idempotency_key('x')}"

    @app.tool(task="required")
    async def fragile() -> str:
        work.began.set()
        await work.go.wait()
        return "x"

    return app


async def kill(app: MCPServer[Any]) -> None:
    """What ``kill -9`` leaves: bodies are gone and wrote nothing more."""
    from ferrule.extensions.tasks.extension import Tasks as Extension

    (extension,) = app.extensions.values()
    assert isinstance(extension, Extension)
    for run in list(extension._runs):
        run._settle = lambda *a, **k: asyncio.sleep(0)  # type: ignore[method-assign, assignment]
        run.give_up()
        assert run.body is not None
        await asyncio.wait([run.body])


async def recorded(app: MCPServer[Any], task_id: str) -> str:
    """The journal of a task in the store, as text."""
    found = await tasks_of(app).repository.find(task_id)
    assert found is not None
    return repr(found[1].journal)


async def test_a_resumable_task_goes_on_in_another_process_and_repeats_no_step(tmp_path: Path) -> None:
    """The recorded steps and answers are replayed; the idempotency key stays."""
    work = Work()
    one = make(tmp_path / "t.db", work)
    client = Modern(one)
    task_id = (await client.call("order"))["taskId"]
    task = await client.until(task_id, "input_required")
    (key,) = task["inputRequests"]
    await client.ask(
        "tasks/update", taskId=task_id, inputResponses={key: {"action": "accept", "content": {"value": True}}}
    )
    async with asyncio.timeout(30):
        while work.effects != ["first", "second"]:
            await asyncio.sleep(0.01)
        while (await client.get(task_id))["status"] != "working":
            await asyncio.sleep(0.01)
        while "step:second" not in await recorded(one, task_id):
            await asyncio.sleep(0.01)
    await kill(one)
    work.go.set()
    async with process(make(tmp_path / "t.db", work)) as later:
        task = await later.until(task_id)
    assert task["status"] == "completed", task
    assert work.effects == ["first", "second", "third"]
    assert task["result"]["content"][0]["text"].startswith("first True second third ")


@pytest.mark.parametrize("after_s", [0.0, 0.02])
async def test_questions_by_hand_are_not_asked_again_in_another_process(tmp_path: Path, after_s: float) -> None:
    """Whether the answer came to the task or, before it was one, to the call."""
    ask = {"message": "name?", "requestedSchema": {"type": "object", "properties": {"value": {"type": "string"}}}}
    go = asyncio.Event()
    began: list[str] = []

    def again() -> MCPServer[Any]:
        app: MCPServer[Any] = MCPServer(
            "x", store=f"sqlite:///{tmp_path}/t.db", extensions=[Tasks(lease_s=0.3)], state_keys=["k" * 32]
        )

        @app.tool(task="optional", task_after_s=after_s, resumable=True)
        async def greet(ctx: Context) -> Any:
            if not ctx.input_responses:
                return InputRequired({"name": {"method": "elicitation/create", "params": ask}}, state={"asked": 1})
            name = ctx.input_responses["name"]["content"]["value"]
            began.append(name)
            await go.wait()
            return f"{ctx.input_state['asked']} {name}"

        return app

    answer = {"action": "accept", "content": {"value": "Ann"}}
    one = again()
    client = Modern(one)
    came = await client.call("greet")
    if after_s:
        (key,) = came["inputRequests"]
        came = await client.call("greet", inputResponses={key: answer}, requestState=came["requestState"])
        task_id = came["taskId"]
    else:
        task_id = came["taskId"]
        (key,) = (await client.until(task_id, "input_required"))["inputRequests"]
        await client.ask("tasks/update", taskId=task_id, inputResponses={key: answer})
    async with asyncio.timeout(30):
        while not began:
            await asyncio.sleep(0.01)
    await kill(one)
    go.set()
    async with process(again()) as later:
        task = await later.until(task_id)
    assert task["result"]["content"][0]["text"] == "1 Ann", task
    assert began == ["Ann", "Ann"]


async def test_an_answer_given_while_no_process_runs_the_task_is_kept(tmp_path: Path) -> None:
    """The journal is stored before an answer is acknowledged, in whichever process receives it."""
    work = Work()
    work.go.set()
    one = make(tmp_path / "t.db", work)
    task_id = (await Modern(one).call("order"))["taskId"]
    task = await Modern(one).until(task_id, "input_required")
    (key,) = task["inputRequests"]
    await kill(one)
    two = make(tmp_path / "t.db", work)
    answer = {"action": "accept", "content": {"value": False}}
    await Modern(two).ask("tasks/update", taskId=task_id, inputResponses={key: answer})
    async with process(two) as later:
        task = await later.until(task_id)
    assert task["result"]["content"][0]["text"].startswith("first False second third ")
    assert work.effects == ["first", "second", "third"]


async def test_a_task_that_cannot_be_resumed_fails_and_says_why(tmp_path: Path) -> None:
    """A client must not poll for ever."""
    work = Work()
    one = make(tmp_path / "t.db", work)
    task_id = (await Modern(one).call("fragile"))["taskId"]
    async with asyncio.timeout(30):
        await work.began.wait()
    await kill(one)
    async with process(make(tmp_path / "t.db", work)) as later:
        task = await later.until(task_id)
    assert task["status"] == "failed"
    assert "not resumable" in task["statusMessage"]
    assert task["error"]["code"] == -32603


async def test_an_orderly_stop_hands_resumable_tasks_over_at_once(tmp_path: Path) -> None:
    """A rolling restart does not wait for a lease; what cannot be resumed fails at once."""
    work = Work()
    async with process(make(tmp_path / "t.db", work, patience_s=1)) as client:
        task_id = (await client.call("order"))["taskId"]
        other = (await client.call("fragile"))["taskId"]
        await client.until(task_id, "input_required")
    work.go.set()
    app = make(tmp_path / "t.db", work)
    assert (await Modern(app).get(other))["statusMessage"] == "The server was stopped"
    async with process(app) as later:
        task = await later.until(task_id, "input_required")
        (key,) = task["inputRequests"]
        answer = {"action": "accept", "content": {"value": True}}
        await later.ask("tasks/update", taskId=task_id, inputResponses={key: answer})
        assert (await later.until(task_id))["status"] == "completed"
    assert work.effects == ["first", "second", "third"]


async def test_another_process_cancels_a_task(tmp_path: Path) -> None:
    """The cancellation is in the store, where the process that runs the task reads it."""
    work = Work()
    async with process(make(tmp_path / "t.db", work)) as client:
        task_id = (await client.call("fragile"))["taskId"]
        other = make(tmp_path / "t.db", work)
        await Modern(other).ask("tasks/cancel", taskId=task_id)
        (extension,) = client.app.extensions.values()
        async with asyncio.timeout(30):
            while extension.running_here:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
        assert (await client.get(task_id))["status"] == "cancelled"


class Cut:
    """The store of one process, which can be away for all processes.

    Attributes:
        claims: number of times that this process looked for tasks whose lease has run out.
    """

    is_away = False

    def __init__(self, store: Any) -> None:
        self._store = store
        self.claims = 0

    def __getattr__(self, name: str) -> Any:
        if Cut.is_away:
            raise ConnectionError("away")
        self.claims += name == "claim"
        return getattr(self._store, name)


async def lease_has_run_out(app: MCPServer[Any]) -> bool:
    """Whether the lease of the only task in the file of an app has run out, by the clock of the file."""
    assert app.store is not None
    file: Any = app.store.tasks._file  # type: ignore[attr-defined]
    sql = "SELECT leased_until < ? FROM ferrule_tasks"
    return bool(await file.run(lambda connection, now: connection.execute(sql, (now,)).fetchone()[0]))


async def test_an_outage_of_the_store_ends_no_process(tmp_path: Path, monkeypatch: Any) -> None:
    """Who runs a task could not renew its lease either; when the store is back it gets the time of one to do so."""
    monkeypatch.setattr(Cut, "is_away", False)
    work = Work()
    apps = [make(tmp_path / "t.db", work) for _ in range(3)]
    stores: list[Cut] = []
    for app in apps:
        repository = tasks_of(app).repository
        stores.append(Cut(repository.store))
        repository.store = stores[-1]  # type: ignore[assignment]
    async with process(apps[0]) as client, process(apps[1]), process(apps[2]):
        task_id = (await client.call("order"))["taskId"]
        await client.until(task_id, "input_required")
        Cut.is_away = True
        async with asyncio.timeout(30):
            while not await lease_has_run_out(apps[0]):
                await asyncio.sleep(0.01)
        Cut.is_away = False
        before = [store.claims for store in stores]
        # Each process looks for tasks again, some before the one that runs this task.
        async with asyncio.timeout(30):
            while any(store.claims < count + 2 for store, count in zip(stores, before, strict=True)):
                await asyncio.sleep(0.01)
        (key,) = (await client.get(task_id))["inputRequests"]
        answer = {"action": "accept", "content": {"value": True}}
        await client.ask("tasks/update", taskId=task_id, inputResponses={key: answer})
        work.go.set()
        await client.until(task_id)
        found = await tasks_of(apps[0]).repository.find(task_id)
    assert found is not None
    assert found[1].runs == 1
    assert work.effects == ["first", "second", "third"]


async def test_a_task_that_cannot_be_kept_is_refused_at_once_and_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Waiting does not free a full disk. The log has the reason; the client gets no details of the store."""
    app = make(tmp_path / "t.db", Work(), patience_s=10_000)
    store = app.store
    assert store is not None
    file: Any = store.tasks._file  # type: ignore[attr-defined]
    async with process(app) as client:
        first = await client.call("fragile")
        await file.run(lambda connection, now: connection.execute("PRAGMA max_page_count=1").fetchone())
        async with asyncio.timeout(60):
            for _ in range(2):
                with pytest.raises(MCPError, match="cannot be kept or read at the moment; try again later") as caught:
                    await client.ask("tools/call", name="fragile", arguments={"x": "x" * 50_000})
                assert caught.value.code == -32603
        assert "disk is full" in caplog.text
        assert (await client.get(first["taskId"]))["status"] == "working"
        await file.run(lambda connection, now: connection.execute("PRAGMA max_page_count=100000").fetchone())
        assert (await client.call("fragile"))["status"] == "working"


async def damage(app: MCPServer[Any], task_id: str) -> None:
    """Put something into the store that is no record."""
    assert app.store is not None
    file: Any = app.store.tasks._file  # type: ignore[attr-defined]
    sql = "UPDATE ferrule_tasks SET body = X'7B7D' WHERE task_id = ?"
    await file.run(lambda connection, now: connection.execute(sql, (task_id,)).rowcount)


async def version_of(app: MCPServer[Any], task_id: str) -> int:
    found = await tasks_of(app).repository.store.get(task_id)
    assert found is not None
    return found.version


async def test_a_record_that_cannot_be_read_ends_no_lease_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tasks that run beside it are renewed, and those that come after it in a claim are resumed."""
    work = Work()
    one = make(tmp_path / "t.db", work)
    async with process(one) as client:
        damaged = (await client.call("fragile"))["taskId"]  # the first, so that the other comes after it
        task_id = (await client.call("order"))["taskId"]
        await client.until(task_id, "input_required")
        await damage(one, damaged)
        async with asyncio.timeout(30):
            while f"The lease of task {damaged} could not be renewed" not in caplog.text:
                await asyncio.sleep(0.01)
            before = await version_of(one, task_id)
            while await version_of(one, task_id) == before:
                await asyncio.sleep(0.01)
        await kill(one)
    work.go.set()
    caplog.clear()
    async with process(make(tmp_path / "t.db", work)) as later:
        (key,) = (await later.until(task_id, "input_required"))["inputRequests"]
        answer = {"action": "accept", "content": {"value": True}}
        await later.ask("tasks/update", taskId=task_id, inputResponses={key: answer})
        assert (await later.until(task_id))["status"] == "completed"
        async with asyncio.timeout(30):
            while f"The record of task {damaged} cannot be read" not in caplog.text:
                await asyncio.sleep(0.01)
