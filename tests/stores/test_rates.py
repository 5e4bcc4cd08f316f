"""The arithmetic of buckets and the bounds of memory; what every store must do is in the contract."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule.stores.rates import MemoryRateLimits, next_full_at
from ferrule.stores.sqlite.store import SqliteFile, SqliteRateLimits


@given(
    size=st.integers(1, 50),
    per_s=st.floats(0.01, 1e5),
    steps=st.lists(st.floats(0, 1e4), min_size=1, max_size=200),
    start=st.floats(0, 2e9),
)
def test_no_stretch_of_time_gives_more_than_the_bucket_and_what_flows_in(size, per_s, steps, start):
    """From any moment on: a full bucket, and so many as the time since makes."""
    full_at = now = start
    taken: list[float] = []
    for step in steps:
        now += step * per_s / 1e4
        full_at, wait = next_full_at(full_at, now, size=size, per_s=per_s)
        if not wait:
            taken.append(now)
        assert wait <= per_s / size * 1.001 + 1e-5
    slack = 1 + 1e-5 * size / per_s * len(taken)  # sums of fractions, and clocks of seconds since the epoch
    for index, first in enumerate(taken):
        assert len(taken) - index <= size + (taken[-1] - first) * size / per_s + slack


@pytest.mark.anyio
async def test_a_full_bucket_is_not_kept():
    """A sender that sends only once leaves no data."""
    now = [0.0]
    rates = MemoryRateLimits(clock=lambda: now[0])
    for number in range(100):
        await rates.take(str(number), size=10, per_s=10)
    assert len(rates) == 100
    now[0] = 60
    await rates.take("new", size=10, per_s=10)
    assert len(rates) == 1


@given(size=st.integers(1, 50), per_s=st.floats(0.1, 1e4), back_s=st.floats(1, 1e6))
@example(size=3, per_s=3.0, back_s=1.0)
def test_a_clock_that_is_set_back_refuses_no_sender_for_long(size, per_s, back_s):
    """An empty bucket of a wrong clock is an empty bucket of the right one: full again after ``per_s``."""
    full_at, _ = next_full_at(0, 2e9, size=size, per_s=per_s)
    now = 2e9 - back_s
    full_at, wait = next_full_at(full_at, now, size=size, per_s=per_s)
    assert wait <= per_s / size + 1e-5
    if wait:  # else one was there and has been taken: the next may have to wait
        assert next_full_at(full_at, now + wait + 1e-5, size=size, per_s=per_s)[1] == 0


@pytest.mark.anyio
async def test_a_file_forgets_what_a_wrong_clock_wrote(tmp_path):
    """The clock of a file is the machine's, which an operator may set."""
    now = [2e9 + 86400]
    rates = SqliteRateLimits(SqliteFile(str(tmp_path / "s.db"), clock=lambda: now[0]))
    assert await rates.take("k", size=1, per_s=10) == 0
    now[0] = 2e9
    assert await rates.take("k", size=1, per_s=10) > 0
    now[0] += 10.1
    assert await rates.take("k", size=1, per_s=10) == 0
