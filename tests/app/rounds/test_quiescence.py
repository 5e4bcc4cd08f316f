"""When a body counts as standing still; on a loop that really passes, without a clock."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from ferrule.app.rounds.quiescence import QUIET_PASSES, Quiescence

pytestmark = pytest.mark.anyio


class Watched:
    """A `Quiescence` and how often it was still."""

    def __init__(self) -> None:
        self.working: set[str] = set()
        self.times = 0
        self.quiescence = Quiescence(asyncio.get_running_loop(), self.working, self.note)

    def note(self) -> None:
        self.times += 1


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_it_is_still_after_so_many_passes_without_activity():
    """Fewer, and a body that is waking through a gather would be taken for one that waits."""
    watched = Watched()
    watched.quiescence.touch()
    await passes(QUIET_PASSES)
    assert watched.times == 0
    await passes(2)
    assert watched.times == 1


async def test_activity_begins_the_count_anew():
    watched = Watched()
    watched.quiescence.touch()
    for _ in range(5):
        await passes(QUIET_PASSES - 2)
        watched.quiescence.touch()
    assert watched.times == 0
    await passes(QUIET_PASSES + 2)
    assert watched.times == 1


async def test_quiescence_is_reported_once_until_it_is_watched_again():
    """The receiver of the report decides whether to watch again, or to wait for an event."""
    watched = Watched()
    watched.quiescence.touch()
    await passes(5 * QUIET_PASSES)
    watched.quiescence.touch()
    await passes(5 * QUIET_PASSES)
    assert watched.times == 1
    watched.quiescence.watch()
    await passes(QUIET_PASSES + 2)
    assert watched.times == 2
    watched.quiescence.rest()
    await passes(5 * QUIET_PASSES)
    assert watched.times == 2
    watched.quiescence.touch()
    await passes(QUIET_PASSES + 2)
    assert watched.times == 3


async def test_nothing_is_still_while_something_works():
    """A step that runs will touch when it ends."""
    watched = Watched()
    watched.working.add("step")
    watched.quiescence.touch()
    await passes(5 * QUIET_PASSES)
    watched.working.clear()
    await passes(5 * QUIET_PASSES)
    assert watched.times == 0
    watched.quiescence.touch()
    await passes(QUIET_PASSES + 2)
    assert watched.times == 1


async def test_a_rest_ends_with_its_time_and_closing_ends_everything():
    watched = Watched()
    watched.quiescence.rest(0)
    await asyncio.sleep(0.001)
    await passes(QUIET_PASSES + 2)
    assert watched.times == 1
    watched.quiescence.watch()
    watched.quiescence.close()
    for again in (watched.quiescence.touch, watched.quiescence.watch, lambda: watched.quiescence.rest(0)):
        again()
        await asyncio.sleep(0.001)
        await passes(QUIET_PASSES + 2)
    assert watched.times == 1


async def test_the_callback_runs_in_the_context_of_the_body():
    """The task that made the last step, perhaps of another request, passes no context variables."""
    where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="body")
    seen: list[str] = []
    quiescence = Quiescence(asyncio.get_running_loop(), (), lambda: seen.append(where.get()))

    async def other() -> None:
        where.set("other")
        quiescence.touch()

    await asyncio.create_task(other())
    await passes(QUIET_PASSES + 2)
    assert seen == ["body"]


async def test_the_passes_are_counted_exactly() -> None:
    """After `watch` each pass counts; after a touch or a rest the first one only sees that something happened."""
    watched = Watched()
    for begin, before in (
        (watched.quiescence.watch, QUIET_PASSES - 1),
        (watched.quiescence.touch, QUIET_PASSES),
        (lambda: watched.quiescence.rest(0), QUIET_PASSES + 2),
    ):
        watched.times = 0
        begin()
        await passes(before)
        assert watched.times == 0
        await passes(1)
        assert watched.times == 1
        watched.quiescence.rest()
    watched.quiescence.close()


async def test_a_rest_counts_from_anew_although_nothing_was_ever_touched() -> None:
    """The first pass after the rest is not one of those without activity."""
    watched = Watched()
    watched.quiescence.rest(0)
    await passes(QUIET_PASSES + 2)
    assert watched.times == 0
    await passes(1)
    assert watched.times == 1
