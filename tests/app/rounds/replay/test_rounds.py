"""Rounds of the modern era: which questions a round asks, and how the retry goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ferrule import Context
from ferrule.app.rounds.errors import AmbiguousKey
from tests.app.rounds.driving import Call, Dispatch, accept, always, both, outcome, push, served

pytestmark = pytest.mark.anyio


async def test_a_question_ends_the_round_and_the_retry_continues(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return f"{(await ctx.elicit('a', int)).data} {(await ctx.elicit('b', int)).data}"

    call = await Call(app).send()
    assert call.texts == ["a"]
    assert (await call.reply(accept(1))).texts == ["b"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


async def test_all_parked_questions_form_one_round(app):
    """Whether they came from gather, a task group or ctx.gather."""

    @app.tool
    async def body(ctx: Context) -> str:
        async def ask(text: str) -> int | None:
            return (await ctx.elicit(text, int)).data

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask("a")), group.create_task(ask("b"))]
        got = [task.result() for task in tasks]
        got += await asyncio.gather(ask("c"), ask("d"))
        return str(got + await ctx.gather(ask("e"), ask("e")))

    call = await Call(app).send()
    assert call.texts == ["a", "b"]
    assert (await call.reply(accept(1))).texts == ["c", "d"]
    assert (await call.reply(accept(2))).texts == ["e", "e"]
    await call.reply(accept(3))
    assert call.result["content"][0]["text"] == "[1, 1, 2, 2, 3, 3]"


async def test_partial_answers_are_kept_and_the_rest_is_asked_again(app):
    """Missing answers give a fresh request, not an error; those given are final."""

    @app.tool
    async def body(ctx: Context) -> str:
        answers = await ctx.gather(*(ctx.elicit(text, int, key=text) for text in "ab"))
        return str([answer.data for answer in answers])

    call = await Call(app).send()
    key_a, key_b = call.requests
    await call.send({key_a: accept(1)})
    assert list(call.requests) == [key_b]
    await call.send({key_a: accept(9), key_b: accept(2), "extra": accept(3)})
    assert call.result["content"][0]["text"] == "[1, 2]"


async def test_answers_to_nothing_are_ignored(app):
    """Only outstanding keys are taken: a client cannot answer a question before it was asked."""

    @app.tool
    async def body(ctx: Context) -> str:
        first = await ctx.elicit("a", int, key="a")
        return f"{first.data} {(await ctx.elicit('b', int, key='b')).data}"

    call = await Call(app).send({"a": accept(7), "b": accept(8)})
    assert list(call.requests) == ["a"]
    await call.send({"a": accept(1), "b": accept(8)})
    assert list(call.requests) == ["b"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


@pytest.mark.parametrize("changed", ["pay 1000", "pay 2", "pay 3", "pay 4", "pay 5", "pay 6"])
async def test_changed_text_asks_again(app, changed):
    """Consent does not carry over to another text under the same key."""
    texts = iter(["pay 1", changed, changed])

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit(next(texts), bool, key="consent")).data)

    call = await Call(app).send()
    await call.reply(accept(True))
    assert call.texts == [changed]
    await call.reply(accept(False))
    assert call.result["content"][0]["text"] == "False"


async def test_an_answer_that_came_with_a_changed_text_is_dropped(app):
    """The client answered what it saw, which is not what is asked now."""
    texts = iter(["old", "old", "new", "new"])

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.elicit("first", int)
        return str((await ctx.elicit(next(texts), int, key="k")).data)

    call = await (await Call(app).send()).reply(accept(0))
    assert call.texts == ["old"]
    await call.send({})
    assert call.texts == ["old"]
    await call.reply(accept(1))
    assert call.texts == ["new"]
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "2"


async def test_finishing_without_repeating_a_question_is_allowed(app):
    """A branch of the world may have changed."""
    asks = iter([True, False])

    @app.tool
    async def body(ctx: Context) -> str:
        if next(asks):
            await ctx.elicit("a", int)
        return "done"

    call = await (await Call(app).send()).reply(accept(1))
    assert call.result["content"][0]["text"] == "done"


async def test_idle_rounds_end_the_call(app):
    """A client that comes back without answers would loop for ever."""

    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    call = await (await (await Call(app).send()).send({})).send({})
    assert await outcome(call.request({})) == "-32602 diverged"


async def test_rounds_are_capped():
    app = served(max_rounds=3)

    @app.tool
    async def body(ctx: Context) -> str:
        while True:
            await ctx.elicit("more", int)

    call = await Call(app).send()
    await call.reply(accept(1))
    assert await outcome(call.request(dict.fromkeys(call.requests, accept(1)))) == "-32602 too_many_rounds"


async def test_concurrent_roots_are_one_question(app):
    """Three branches that want the roots ask once, in both eras."""

    @app.tool
    async def body(ctx: Context) -> str:
        found = await asyncio.gather(ctx.roots(), ctx.roots(), ctx.roots())
        return str([[root.uri for root in roots] for roots in found])

    roots = {"roots": [{"uri": "file:///a"}]}
    call = await Call(app).send()
    assert len(call.requests) == 1
    await call.reply(roots)
    dispatch = Dispatch()
    pushed = await push(app, lambda method, params: roots, dispatch=dispatch)
    assert dispatch.asked == ["roots/list"]
    assert pushed["content"][0]["text"] == call.result["content"][0]["text"]


async def test_an_ambiguous_key_is_refused_in_both_eras(app):
    """Whose answer would it be?"""

    @app.tool
    async def body(ctx: Context) -> str:
        try:
            await asyncio.gather(ctx.elicit("a", int), ctx.elicit("a", int))
        except AmbiguousKey as error:
            return type(error).__name__
        return "asked"

    assert await both(app, always(1)) == "AmbiguousKey"


@pytest.mark.parametrize("cure", ["key", "scope", "gather"])
async def test_ambiguity_is_cured(app, cure):
    @app.tool
    async def body(ctx: Context) -> str:
        async def scoped(name: str) -> Any:
            with ctx.scope(name):
                return await ctx.elicit("a", int)

        if cure == "key":
            found = await asyncio.gather(*(ctx.elicit("a", int, key=key) for key in "xy"))
        elif cure == "scope":
            found = await asyncio.gather(scoped("x"), scoped("y"))
        else:
            found = await ctx.gather(ctx.elicit("a", int), ctx.elicit("a", int))
        return str([one.data for one in found])

    assert await both(app, always(4)) == "[4, 4]"


async def test_gather_raises_the_first_failure_by_index_after_all_ended(app):
    """Which failure is seen must not depend on timing."""
    ended: list[int] = []

    @app.tool
    async def body(ctx: Context) -> str:
        async def branch(index: int) -> None:
            for _ in range(3 - index):
                await ctx.elicit("again", int)
            ended.append(index)
            raise ValueError(str(index))

        try:
            await ctx.gather(*(branch(index) for index in range(3)))
        except ValueError as error:
            return f"{error} of {sorted(ended)[:3]}"
        return "no failure"

    ended.clear()
    assert await outcome(push(app, always(1))) == "0 of [0, 1, 2]"
    ended.clear()
    assert (await outcome(Call(app).finish(always(1)))).startswith("0 of")


async def test_branches_are_reenacted_not_shortcut(app):
    """Who was answered first stays first in every later round."""

    @app.tool
    async def body(ctx: Context) -> str:
        order: list[str] = []

        async def branch(name: str) -> None:
            await ctx.elicit(name, int, key=name)
            order.append(name)

        await asyncio.gather(branch("a"), branch("b"))
        await ctx.elicit("end", int, key="end")
        return "".join(order)

    call = await Call(app).send()
    await call.send({"b": accept(1)})
    await call.send({"a": accept(1)})
    assert list(call.requests) == ["end"]
    await call.reply(accept(1))
    assert call.result["content"][0]["text"] == "ba"


async def test_what_is_random_or_timed_is_equal_in_every_round(app):
    seen: list[Any] = []

    @app.tool
    async def body(ctx: Context) -> str:
        seen.append((ctx.started_at, ctx.random().random(), ctx.random().random(), ctx.idempotency_key("charge")))
        await ctx.elicit("a", int)
        return "done"

    await Call(app).finish(always(1))
    first, second = seen
    assert first == second
    await Call(app).send()
    assert seen[-1][3] != first[3]


async def test_a_tool_called_by_a_tool_is_part_of_the_call(app):
    """Its questions are the caller's."""

    @app.tool
    async def inner(ctx: Context) -> int | None:
        return (await ctx.elicit("inner", int)).data

    @app.tool
    async def body(ctx: Context) -> str:
        outer = (await ctx.elicit("outer", int)).data
        return f"{outer} {(await ctx.call_tool('inner')).content[0].text}"

    assert await both(app, always(3)) == "3 3"


async def test_a_fault_of_the_engine_is_an_answer_and_not_a_hang(app, monkeypatch, caplog):
    """The body waits for the supervisor; a supervisor that died would leave it there."""
    from ferrule.app.rounds.replay import ReplayRounds

    def broken(*_: Any, **__: Any) -> bool:
        raise RuntimeError("a fault")

    monkeypatch.setattr(ReplayRounds, "_deliver_lowest", broken)

    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    assert (await outcome(Call(app).request())).startswith("-32603")
    assert "a fault" in caplog.text


async def test_the_property_of_the_engine_is_not_a_shortcut(monkeypatch, caplog):
    """A property that a shortcut passes proves nothing: an answered question that returns at once must fail it."""
    import random

    from ferrule.app.rounds.replay import ReplayRounds
    from tests.properties.test_one_body import compare_in_order

    original = ReplayRounds._park

    async def shortcut(self: ReplayRounds, parked: Any) -> Any:
        entry = self._due.pop(parked.key, None)
        if entry is None:
            return await original(self, parked)
        entry.consumed = True
        self._must_replay.discard(parked.key)
        self._fresh.discard(parked.key)
        self._used_new_answer = True
        self.journal.outstanding.pop(parked.key, None)
        return self._read(parked, entry)

    monkeypatch.setattr(ReplayRounds, "_park", shortcut)
    caplog.set_level(logging.CRITICAL, "ferrule")
    failures = 0
    for seed in range(60):
        random.seed(seed)
        try:
            async with asyncio.timeout(30):
                await compare_in_order(seed)
        except (AssertionError, TimeoutError):
            failures += 1
    assert failures
