"""One-time marks: the same promises from every implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ferrule.stores.marks import Mark, MemoryMarks, OneTimeMarks
from ferrule.stores.sqlite import SqliteFile, SqliteMarks

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Make = Callable[[Callable[[], float]], OneTimeMarks]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return lambda clock: MemoryMarks(clock=clock)
    return lambda clock: SqliteMarks(SqliteFile(str(tmp_path / "s.db"), clock=clock))


async def test_the_first_claims_and_the_others_wait_then_learn(make):
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
    """A mark that nobody finished must not block its key for ever, nor fill the store."""
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


async def test_memory_is_bounded():
    marks = MemoryMarks(max_marks=3, clock=lambda: 0)
    for number in range(10):
        await marks.begin(str(number), ttl_s=9)
    assert len(marks) == 3
