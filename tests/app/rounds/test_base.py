"""What both eras share, seen from the legacy one; and steps that run at most once."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from ferrule import Context, MCPServer
from ferrule.app.rounds import base
from ferrule.app.rounds.errors import AmbiguousKey, QuestionExpired, StepFailed, StepInDoubt
from ferrule.app.rounds.settings import StateSettings
from ferrule.protocol.errors import CapabilityNotDeclared, RequestTimeout
from ferrule.stores.marks import Mark, MemoryMarks
from ferrule.wire.codec import encode
from tests.app.rounds.driving import Call, Dispatch, accept, always, outcome, push, served, settings_of, settled
from tests.app.support import V1125, ask, connection_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return served()


# -- asking by request -------------------------------------------------------------------------------------------------


async def test_each_question_is_one_request(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return f"{(await ctx.elicit('a', int)).data} {(await ctx.elicit('b', int)).data}"

    dispatch = Dispatch()
    assert await outcome(push(app, always(2), dispatch=dispatch)) == "2 2"
    assert dispatch.asked == ["a", "b"]


@pytest.mark.usefixtures("any_backend")
async def test_pushing_works_on_any_loop(app):
    """The legacy era needs nothing of asyncio."""

    @app.tool
    async def body(ctx: Context) -> str:
        found = await ctx.gather(ctx.roots(), ctx.step("s", lambda: 5))
        return f"{found[0][0].uri} {found[1]}"

    async def answer(method: str, params: Any) -> Any:
        return {"roots": [{"uri": "file:///a"}]}

    class Plain(Dispatch):
        async def send_raw_request(self, method: str, params: Any = None, opts: Any = None) -> Any:
            await anyio.sleep(0)
            return await answer(method, params)

    connection = connection_of(V1125, client_capabilities_raw={"roots": {}})
    result = await ask(app, "tools/call", {"name": "body"}, dispatch=Plain(), connection=connection)
    assert result["content"][0]["text"] == "file:///a 5"


async def test_a_timeout_is_an_expiry(app):
    """One exception in both eras."""

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.elicit("a", int, timeout_s=3)
        except QuestionExpired as error:
            return str(error)
        return "no"

    def answer(method: str, params: Any) -> Any:
        raise RequestTimeout(method, 3)

    assert await outcome(push(app, answer)) == "No answer within 3 s"


async def test_an_undeclared_capability_is_a_value_error_of_the_call(app):
    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.elicit("a", int)
        except CapabilityNotDeclared as error:
            return str(error.required)
        return "no"

    result = await ask(
        app,
        "tools/call",
        {"name": "body"},
        dispatch=Dispatch(),
        connection=connection_of(V1125, client_capabilities_raw={}),
    )
    assert result["content"][0]["text"] == "{'elicitation': {'form': {}}}" or "elicitation" in str(result)
    call = Call(app)
    call.capabilities = {}
    assert "elicitation" in str((await call.send()).result)


async def test_a_joined_question_fails_for_all_who_wait(app):
    @app.tool
    async def body(ctx: Context) -> str:
        found = await asyncio.gather(ctx.roots(), ctx.roots(), return_exceptions=True)
        return str([type(one).__name__ for one in found])

    def answer(method: str, params: Any) -> Any:
        raise ConnectionError("gone")

    assert await outcome(push(app, answer)) == "['ConnectionError', 'ConnectionError']"


async def test_a_question_that_outlives_the_body_is_withdrawn(app):
    """Otherwise the user would answer a question that no call waits for."""
    asked, cancelled = asyncio.Event(), asyncio.Event()
    tasks: list[Any] = []

    @app.tool
    async def body(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.elicit("a", int)))
        await asked.wait()
        return "done"

    async def answer(method: str, params: Any) -> Any:
        asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    assert await outcome(push(app, lambda method, params: answer(method, params))) == "done"
    await asyncio.wait(tasks)
    assert cancelled.is_set()
    assert type(tasks[0].exception()).__name__ == "NotSupportedHere"


async def test_cancelling_a_push_is_a_cancellation(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    asked = asyncio.Event()

    async def never(method: str, params: Any) -> Any:
        asked.set()
        await asyncio.sleep(60)

    task = asyncio.ensure_future(push(app, never))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_method_without_questions_raises_in_both_eras(app):
    """Otherwise a completer with a question would work for legacy clients only."""

    @app.prompt
    async def greeting(name: str) -> str:
        return name

    @app.complete("greeting", "name")
    async def names(typed: str, ctx: Context) -> list[str]:
        try:
            await ctx.elicit("a", str)
        except Exception as error:
            return [type(error).__name__]
        return []

    params = {"ref": {"type": "ref/prompt", "name": "greeting"}, "argument": {"name": "name", "value": ""}}
    for version in (V1125, "2026-07-28"):
        connection = connection_of(version, client_capabilities_raw={"elicitation": {}})
        result = await ask(app, "completion/complete", params, dispatch=Dispatch(), connection=connection)
        assert result["completion"]["values"] == ["NotSupportedHere"]


# -- steps, once -------------------------------------------------------------------------------------------------------


def charging(app: MCPServer, charged: list[str], gate: asyncio.Event | None = None, *, once: bool = True) -> None:
    """A tool with a question and then a charge."""

    @app.tool
    async def body(ctx: Context) -> str:
        answer = await ctx.elicit("pay", bool)

        async def charge(key: str) -> str:
            if gate is not None:
                await gate.wait()
            charged.append(key)
            return f"charge {len(charged)}"

        return f"{answer.data} {await ctx.step('charge', charge, ctx.idempotency_key('charge'), once=once)}"


async def test_the_same_retry_twice_at_once_charges_once(app):
    """The others wait and get the same result."""
    charged: list[str] = []
    gate = asyncio.Event()
    charging(app, charged, gate)
    call = await Call(app).send()
    answers = dict.fromkeys(call.requests, accept(True))
    retries = [asyncio.ensure_future(outcome(call.request(answers))) for _ in range(3)]
    await settled()
    gate.set()
    assert [await retry for retry in retries] == ["True charge 1"] * 3
    assert len(charged) == 1


async def test_the_same_retry_later_charges_once(app):
    charged: list[str] = []
    charging(app, charged)
    call = await Call(app).send()
    answers = dict.fromkeys(call.requests, accept(True))
    assert [await outcome(call.request(answers)) for _ in range(3)] == ["True charge 1"] * 3
    assert len(charged) == 1


@pytest.mark.parametrize("options", [{"once": False}, {"store": None}])
async def test_without_once_or_store_a_step_may_run_twice_with_one_idempotency_key(options):
    """Once per chain of rounds: three forks charge three times, under one key that a payment provider can tell."""
    charged: list[str] = []
    app = served(**{name: value for name, value in options.items() if name == "store"})
    charging(app, charged, once=options.get("once", True))
    call = await Call(app).send()
    answers = dict.fromkeys(call.requests, accept(True))
    for _ in range(3):
        await outcome(call.request(answers))
    assert len(charged) == 3
    assert len(set(charged)) == 1


async def test_a_step_begun_elsewhere_and_never_finished_is_in_doubt(app):
    """A worker was killed between charge and reply: the effect is unknown, so the charge is not repeated."""
    charged: list[str] = []
    charging(app, charged)
    settings = settings_of(app)
    settings.step_wait_s = 0.05

    class Killed(MemoryMarks):
        async def begin(self, key: str, *, ttl_s: float) -> Mark:
            await super().begin(key, ttl_s=ttl_s)
            return Mark("running")

    settings.marks = Killed()
    call = await Call(app).send()
    assert "was interrupted: Another process began the step" in await outcome(
        call.request(dict.fromkeys(call.requests, accept(True)))
    )
    assert charged == []


async def test_doubt_is_recorded(app):
    """The body that went on after it must go the same way in the next round."""
    settings = settings_of(app)
    settings.step_wait_s = 0
    marks = MemoryMarks()
    settings.marks = marks

    @app.tool
    async def body(ctx: Context) -> str:
        assert ctx.started_at  # the engine exists
        await marks.begin(f"{ctx.request.session.body.rounds.journal.call_id}/step:x", ttl_s=9)
        try:
            await ctx.step("x", list, once=True)
        except StepInDoubt:
            return f"doubt {(await ctx.elicit('a', int)).data}"
        return "no"

    assert await outcome(Call(app).finish(always(1))) == "doubt 1"


async def test_a_failed_once_step_is_not_tried_again_by_another_fork(app):
    """It may have taken effect before it failed."""
    tries: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.elicit("a", int)

        async def fails() -> None:
            tries.append(1)
            raise OSError("timeout")

        try:
            await ctx.step("x", fails, once=True)
        except StepFailed as error:
            return error.error
        return "no"

    call = await Call(app).send()
    answers = dict.fromkeys(call.requests, accept(1))
    assert [await outcome(call.request(answers)) for _ in range(2)] == ["OSError: timeout"] * 2
    assert tries == [1]


async def test_a_store_that_cannot_record_does_not_lose_the_effect(app, caplog):
    """The step ran: the chain of rounds records it although the store did not."""
    charged: list[str] = []
    charging(app, charged)

    class Full(MemoryMarks):
        async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
            raise OSError("disk full")

    settings_of(app).marks = Full()
    call = await Call(app).send()
    assert await outcome(call.request(dict.fromkeys(call.requests, accept(True)))) == "True charge 1"
    assert "disk full" in caplog.text


async def test_a_once_step_is_marked_as_long_as_a_state_of_its_call_can_come_again(app):
    """Longer would only fill the store, which never drops a mark before its time."""
    charging(app, [])
    kept: list[float] = []

    class Watched(MemoryMarks):
        async def begin(self, key: str, *, ttl_s: float) -> Mark:
            kept.append(ttl_s)
            return await super().begin(key, ttl_s=ttl_s)

        async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
            kept.append(ttl_s)

    settings_of(app).marks = Watched()
    settings_of(app).state = StateSettings(max_s=1234)
    call = await Call(app).send()
    await outcome(call.request(dict.fromkeys(call.requests, accept(True))))
    assert kept == [1234, 1234]


async def test_steps_in_scopes_and_loops_are_each_their_own(app):
    done: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        for number in range(2):
            await ctx.step("s", done.append, number)
        with ctx.scope("inner"):
            await ctx.step("s", done.append, 2)
        await ctx.elicit("a", int)
        return "ok"

    assert await outcome(Call(app).finish(always(1))) == "ok"
    assert done == [0, 1, 2]


async def test_sync_steps_have_a_separate_pool_of_threads():
    """Sync tools hold all threads of their pool while they wait for their steps: one pool would lock up."""
    app = served(max_threads=2)

    @app.tool
    def body(ctx: Context) -> str:
        return str(ctx.from_thread(ctx.step, "s", lambda: 1))

    async with asyncio.timeout(30):
        assert await asyncio.gather(*(outcome(Call(app).request()) for _ in range(8))) == ["1"] * 8


async def test_a_sync_step_that_gives_a_coroutine_is_awaited(app):
    @app.tool
    async def body(ctx: Context) -> str:
        async def later() -> int:
            return 4

        return str(await ctx.step("s", lambda: later()))

    assert await outcome(Call(app).request()) == "4"


async def test_ambiguous_keys_name_the_cure(app):
    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await asyncio.gather(ctx.elicit("a", int, key="k"), ctx.elicit("b", int, key="k"))
        except AmbiguousKey as error:
            return str(error)
        return "no"

    assert "ctx.gather" in await outcome(push(app, always(1)))


async def test_the_outcome_of_another_process_is_waited_for(app, monkeypatch):
    """It may be about to end; only after `step_wait_s` the outcome is in doubt."""
    charged: list[str] = []
    charging(app, charged)
    settings = settings_of(app)
    settings.step_wait_s = 0.99
    monkeypatch.setattr(base, "_MARK_POLL_S", 0)
    looked: list[str] = []

    class Elsewhere(MemoryMarks):
        async def begin(self, key: str, *, ttl_s: float) -> Mark:
            looked.append(key)
            return Mark("running") if len(looked) < 3 else Mark("done", encode(["step", "charged elsewhere"]))

    settings.marks = Elsewhere()
    call = await Call(app).send()
    found = await outcome(call.request(dict.fromkeys(call.requests, accept(True))))
    assert "charged elsewhere" in found
    assert (len(looked), charged) == (3, [])
