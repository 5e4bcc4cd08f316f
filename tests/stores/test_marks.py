"""One-time marks: the same promises from every implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ferrule.stores.marks import Mark, MemoryMarks, OneTimeMarks, TooManyMarks
from ferrule.stores.sqlite.store import SqliteFile, SqliteMarks

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Make = Callable[[Callable[[], float]], OneTimeMarks]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return lambda clock: MemoryMarks(clock=clock)
    return lambda clock: SqliteMarks(SqliteFile(str(tmp_path / "s.db"), clock=clock))


async def test_the_first_call_claims_and_others_get_the_outcome(make):
    marks = make(lambda: 0)
    assert await marks.begin("k", ttl_s=9) == Mark("mine")
    assert await marks.begin("k", ttl_s=9) == Mark("running")
    await marks.finish("k", b"\0done", ttl_s=9)
    assert await marks.begin("k", ttl_s=9) == Mark("done", b"\0done")
    assert await marks.begin("other", ttl_s=9) == Mark("mine")


async def test_exactly_one_of_many_claims(make):
    marks = make(lambda: 0)
    found: list[str] = []

    async def begin() -> None:
        found.append((await marks.begin("k", ttl_s=9)).state)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(begin)
    assert sorted(found) == ["mine"] + ["running"] * 19


async def test_every_key_expires(make):
    """An unfinished mark must not block its key for ever, nor fill the store."""
    now = [0.0]
    marks = make(lambda: now[0])
    await marks.begin("begun", ttl_s=10)
    await marks.begin("done", ttl_s=10)
    await marks.finish("done", b"x", ttl_s=20)
    now[0] = 9.9
    assert await marks.begin("begun", ttl_s=10) == Mark("running")
    now[0] = 10
    assert await marks.begin("begun", ttl_s=10) == Mark("mine")
    assert await marks.begin("done", ttl_s=10) == Mark("done", b"x")
    now[0] = 20
    assert await marks.begin("done", ttl_s=10) == Mark("mine")


async def test_an_empty_outcome_is_an_outcome(make):
    marks = make(lambda: 0)
    await marks.begin("k", ttl_s=9)
    await marks.finish("k", b"", ttl_s=9)
    assert await marks.begin("k", ttl_s=9) == Mark("done", b"")


async def test_a_full_store_refuses_new_marks_and_keeps_the_others():
    """An evicted mark lets its step run twice, or a signed request be played again."""
    now = [0.0]
    marks = MemoryMarks(max_marks=100, clock=lambda: now[0])
    assert await marks.begin("a", ttl_s=60) == Mark("mine")
    for number in range(99):
        await marks.begin(str(number), ttl_s=30)
        await marks.finish(str(number), b"x", ttl_s=30)
    with pytest.raises(TooManyMarks, match=r"100 one-time marks.*store="):
        await marks.begin("99", ttl_s=30)
    assert await marks.begin("a", ttl_s=60) == Mark("running")
    assert await marks.begin("0", ttl_s=60) == Mark("done", b"x")
    await marks.finish("a", b"late", ttl_s=60)
    assert await marks.begin("a", ttl_s=60) == Mark("done", b"late")
    now[0] = 30
    assert await marks.begin("99", ttl_s=30) == Mark("mine")
    assert len(marks) == 2


async def test_an_outcome_of_an_expired_mark_is_refused_by_a_full_store():
    now = [0.0]
    marks = MemoryMarks(max_marks=1, clock=lambda: now[0])
    await marks.begin("slow", ttl_s=10)
    now[0] = 10
    await marks.begin("other", ttl_s=10)
    with pytest.raises(TooManyMarks):
        await marks.finish("slow", b"x", ttl_s=10)
    assert len(marks) == 1


async def test_memory_is_bounded_in_bytes_for_any_keys_and_outcomes():
    """Nothing at all counts as something, and a large outcome of a step that ran is recorded all the same."""
    marks = MemoryMarks(max_bytes=2000, clock=lambda: 0)
    for _ in range(50):  # the same again takes no more room
        await marks.finish("", b"", ttl_s=9)
    await marks.begin("k", ttl_s=9)
    await marks.finish("k", b"x" * 5000, ttl_s=9)
    with pytest.raises(TooManyMarks):
        await marks.begin("new", ttl_s=9)
    assert len(marks) == 2


async def test_marks_that_are_kept_anew_leave_nothing_behind():
    """Each key has its entry among the times, and no more than one that is no longer true."""
    marks = MemoryMarks(clock=lambda: 0)
    for number in range(10_000):
        await marks.finish("k", b"%d" % number, ttl_s=number)
    assert len(marks._expiry) < 200
