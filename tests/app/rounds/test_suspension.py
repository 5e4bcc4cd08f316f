"""Bodies that wait for answers, as those of tasks do, and the data that is saved before a question is visible."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from ferrule import Context, InputRequired, MCPServer
from ferrule.app.rounds.base import Rounds
from ferrule.app.rounds.body import CallBody
from ferrule.app.rounds.errors import RoundLimitExceeded
from ferrule.app.rounds.journal import Journal
from ferrule.app.rounds.questions import Accepted
from ferrule.app.rounds.quiescence import Quiescence
from ferrule.app.rounds.settings import settings_of
from ferrule.app.rounds.suspension import AskedQuestion, WaitingRounds
from ferrule.protocol.errors import InternalError
from tests.app.rounds.driving import Call, accept, served, settled

pytestmark = pytest.mark.anyio


class Waiting:
    """Runs the tool ``body`` of a server like that of a task, and is what saves its journal."""

    def __init__(self) -> None:
        self.app: MCPServer = served(middleware=[self._around])
        self.now = 1000.0
        self.rounds: Any = None
        self.saved: list[Any] = []
        self.asked: Sequence[AskedQuestion] = ()
        self.is_owned = True
        self.journal: Journal | None = None
        self.error: Exception | None = None
        self.attaches = True
        self.is_held = False

    async def save(self, journal: Journal, questions: Sequence[AskedQuestion] | None) -> None:
        if self.error is not None:
            raise self.error
        self.saved.append(journal.to_json())
        if questions is not None:
            self.asked = questions

    async def ensure_owned(self) -> None:
        if not self.is_owned:
            raise RuntimeError("taken over")

    async def _around(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        settings = settings_of(ctx.server)
        settings.clock = lambda: self.now
        session = ctx.session
        task = asyncio.current_task()
        assert task is not None
        journal = self.journal or WaitingRounds.new_journal(settings)
        self.rounds = WaitingRounds(ctx, settings, journal, task)
        session.body = CallBody(task, rounds=self.rounds)
        if self.attaches:
            self.rounds.attach(self)
        if self.is_held:
            self.rounds.hold()
        try:
            value = await call_next(ctx)
        except BaseException as error:
            return await self.rounds.settle_error(error)
        return await self.rounds.settle(value)

    def start(self) -> asyncio.Task[Any]:
        return asyncio.create_task(Call(self.app).request())

    def answer(self, value: Any) -> None:
        self.rounds.accept({asked.key: ("answer", accept(value)) for asked in self.asked})


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


async def text_of(call: asyncio.Task[Any]) -> str:
    return (await asyncio.wait_for(call, 30))["content"][0]["text"]


def asks_twice(waiting: Waiting) -> None:
    @waiting.app.tool
    async def body(ctx: Context) -> str:
        return f"{(await ctx.elicit('a', int)).data} {(await ctx.elicit('b', int)).data}"


async def test_a_body_waits_for_its_answers_instead_of_ending_the_round(waiting: Waiting) -> None:
    """Its open questions are saved as a complete list after each change."""
    asks_twice(waiting)
    call = waiting.start()
    for value, text in ((1, "a"), (2, "b")):
        await settled()
        assert [(asked.method, asked.params["message"]) for asked in waiting.asked] == [("elicitation/create", text)]
        waiting.answer(value)
    assert await text_of(call) == "1 2"


async def test_the_first_answer_to_a_question_is_final_and_answers_to_nothing_are_ignored(waiting: Waiting) -> None:
    """A client may send them twice."""
    asks_twice(waiting)
    call = waiting.start()
    await settled()
    waiting.rounds.accept({"nothing": ("answer", accept(9))})
    waiting.answer(1)
    waiting.answer(2)
    await settled()
    waiting.answer(3)
    assert await text_of(call) == "1 3"


async def test_a_client_that_refuses_a_question_fails_it(waiting: Waiting) -> None:
    """The body gets an error, as from an answer that does not fit."""
    asks_twice(waiting)
    call = waiting.start()
    await settled()
    waiting.rounds.accept({waiting.asked[0].key: ("invalid", "no such thing")})
    assert (await asyncio.wait_for(call, 30))["isError"]


async def test_the_outcome_of_a_step_is_saved_before_the_body_sees_it(waiting: Waiting) -> None:
    """Another process could otherwise run it again."""
    seen: list[int] = []

    @waiting.app.tool
    async def body(ctx: Context) -> str:
        await ctx.step("charge", lambda: 7)
        seen.append(len(waiting.saved))
        return "done"

    assert await text_of(waiting.start()) == "done"
    assert seen == [1]
    assert [entry[3] for entry in waiting.saved[0][5].values()] == [7]


async def test_a_step_does_not_run_in_a_process_that_lost_the_task(waiting: Waiting) -> None:
    """It was taken over while this process stood still."""
    ran: list[int] = []

    @waiting.app.tool
    async def body(ctx: Context) -> str:
        await ctx.step("charge", lambda: ran.append(1))
        return "done"

    waiting.is_owned = False
    assert (await asyncio.wait_for(waiting.start(), 30))["isError"]
    assert ran == []


async def test_another_process_continues_where_the_journal_ends(waiting: Waiting) -> None:
    """Steps and answers are replayed, and what is still asked is asked again."""
    ran: list[int] = []

    async def charge() -> None:
        ran.append(1)

    async def body(ctx: Context) -> str:
        await ctx.step("charge", charge)
        return f"{(await ctx.elicit('a', int)).data} {(await ctx.elicit('b', int)).data}"

    waiting.app.tool(body)
    call = waiting.start()
    await settled()
    waiting.answer(1)
    await settled()
    other = Waiting()
    other.app.tool(body)
    other.journal = Journal.from_json(waiting.saved[-1])
    call.cancel()
    call = other.start()
    await settled()
    assert [asked.params["message"] for asked in other.asked] == ["b"]
    other.answer(2)
    assert await text_of(call) == "1 2"
    assert ran == [1]


@pytest.mark.parametrize(("after_s", "expected"), [(9.9, "answered"), (10.0, "expired"), (11.0, "expired")])
async def test_an_answer_counts_only_within_the_time_of_its_question(
    waiting: Waiting, after_s: float, expected: str
) -> None:
    """The time begins when the question is first asked, also if no client has read it."""

    @waiting.app.tool
    async def body(ctx: Context) -> str:
        try:
            await ctx.elicit("a", int, timeout_s=10)
        except TimeoutError:
            return "expired"
        return "answered"

    call = waiting.start()
    await settled()
    waiting.now += after_s
    waiting.answer(1)
    assert await text_of(call) == expected


async def test_a_question_expires_although_nothing_comes(waiting: Waiting) -> None:
    """The one with the least time first; one without a limit waits."""

    @waiting.app.tool
    async def body(ctx: Context) -> str:
        async def ask(text: str, timeout_s: float | None) -> str:
            try:
                await ctx.elicit(text, int, timeout_s=timeout_s)
            except TimeoutError:
                waiting.answer(1)
                return "expired"
            return "answered"

        return " ".join(await ctx.gather(ask("a", None), ask("b", 0.001), ask("c", 5000.0)))

    call = waiting.start()
    await settled()
    waiting.now += 1
    assert await text_of(call) == "answered expired answered"


async def test_questions_that_cannot_be_saved_fail_the_call(waiting: Waiting) -> None:
    """No client would get them. The peer gets no details."""
    asks_twice(waiting)
    waiting.error = RuntimeError("the disk is full")
    with pytest.raises(InternalError, match="Internal error"):
        await asyncio.wait_for(waiting.start(), 30)


async def test_questions_that_a_body_returns_are_asked_and_it_is_called_again(waiting: Waiting) -> None:
    """With the answers and its own state, as by a client that comes again."""

    @waiting.app.tool
    async def body(ctx: Context) -> Any:
        seen = ctx.input_state or []
        if ctx.input_responses:
            seen = [*seen, ctx.input_responses["q"]["content"]["value"]]
        if len(seen) == 2:
            return str(seen)
        return InputRequired({"q": {"method": "elicitation/create", "params": {"message": "?"}}}, state=seen)

    call = waiting.start()
    for value in (1, 2):
        await settled()
        assert len(waiting.asked) == 1
        waiting.answer(value)
    assert await text_of(call) == "[1, 2]"


async def test_a_body_may_return_questions_as_often_as_a_call_may_take_rounds(waiting: Waiting) -> None:
    """Then it fails, instead of asking without end."""
    returned = 0

    @waiting.app.tool
    async def body(ctx: Context) -> Any:
        nonlocal returned
        returned += 1
        return InputRequired({"q": {"method": "elicitation/create", "params": {"message": "?"}}}, state=returned)

    settings_of(waiting.app.lowlevel).max_rounds = 3
    call = waiting.start()
    for _ in range(10):
        await settled()
        waiting.answer(1)
    with pytest.raises(RoundLimitExceeded):
        await asyncio.wait_for(call, 30)
    assert returned == 4


async def test_without_a_writer_a_question_ends_the_round(waiting: Waiting) -> None:
    """The call is not a task yet."""
    asks_twice(waiting)
    waiting.attaches = False
    assert (await waiting.start())["resultType"] == "input_required"


async def test_a_question_waits_while_the_call_becomes_a_task(waiting: Waiting) -> None:
    """The task asks it if the call becomes one, else it ends the round."""
    for becomes_one in (True, False):
        attempt = Waiting()
        asks_twice(attempt)
        attempt.attaches, attempt.is_held = False, True
        call = attempt.start()
        await settled()
        assert not call.done()
        assert attempt.asked == ()
        if becomes_one:
            attempt.rounds.attach(attempt)
        attempt.rounds.release()
        if becomes_one:
            for value in (1, 2):
                await settled()
                attempt.answer(value)
            assert await text_of(call) == "1 2"
        else:
            assert (await asyncio.wait_for(call, 30))["resultType"] == "input_required"


async def test_marks_live_as_long_as_another_process_may_take_the_task_over(waiting: Waiting) -> None:
    """A week at least, whatever the states of calls may take."""
    asks_twice(waiting)
    call = waiting.start()
    await settled()
    assert waiting.rounds.mark_ttl_s == 7 * 24 * 3600
    call.cancel()


async def test_only_the_body_of_the_task_begins_and_not_the_tools_that_it_calls(waiting: Waiting) -> None:
    """What those raise is for the body to handle."""
    asks_twice(waiting)
    call = waiting.start()
    await settled()
    assert waiting.rounds.enter() is False
    call.cancel()


async def test_a_body_rests_until_the_first_of_its_questions_expires(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In seconds from now, by the clock of the settings; for ever without a limit."""
    rests: list[float | None] = []
    original = Quiescence.rest

    def rest(self: Quiescence, timeout_s: float | None = None) -> None:
        rests.append(timeout_s)
        original(self, timeout_s)

    monkeypatch.setattr(Quiescence, "rest", rest)

    @waiting.app.tool
    async def body(ctx: Context) -> str:
        await ctx.gather(ctx.elicit("a", int, timeout_s=500), ctx.elicit("b", int, timeout_s=300))
        return str((await ctx.elicit("c", int)).data)

    call = waiting.start()
    await settled()
    assert rests[-1] == 300
    waiting.now += 100
    waiting.rounds.accept({waiting.asked[1].key: ("answer", accept(1))})
    await settled()
    assert rests[-1] == 400
    waiting.answer(1)
    await settled()
    assert rests[-1] is None
    waiting.answer(2)
    assert await text_of(call) == "2"


async def test_a_body_begins_once(waiting: Waiting) -> None:
    """A tool that it calls is not the body of the task; without a task no tool is."""
    asks_twice(waiting)
    call = waiting.start()
    await settled()
    assert [waiting.rounds.enter(), waiting.rounds.enter()] == [False, False]  # it has begun
    assert [Rounds.enter(waiting.rounds), Rounds.enter(waiting.rounds)] == [False, False]
    waiting.answer(1)
    await settled()
    waiting.answer(2)
    await text_of(call)


async def test_a_question_that_has_its_answer_is_not_asked_again(waiting: Waiting) -> None:
    """Even if the caller that gets the answer has not run yet."""
    asks_twice(waiting)
    call = waiting.start()
    await settled()
    (parked,) = waiting.rounds._parked.values()
    assert [asked.key for asked in waiting.rounds._questions()] == [parked.key]
    parked.future.set_result(Accepted(1))
    assert waiting.rounds._questions() == []
    await settled()
    waiting.answer(2)
    assert await text_of(call) == "1 2"
