"""ferrule.client.supervision.opening: opening does not wait for a server that hangs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from ferrule.client.supervision.opening import in_time, wait_opened
from ferrule.client.supervision.supervisor import Attempt, ConnectionSupervisor
from ferrule.transports.background import Background

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


@asynccontextmanager
async def started(*attempts: Attempt) -> AsyncGenerator[list[ConnectionSupervisor]]:
    """Supervisors whose servers are connected to by the given functions."""
    background = Background()
    made = [ConnectionSupervisor(f"s{number}", attempt) for number, attempt in enumerate(attempts)]
    for each in made:
        each.start(background)
    try:
        yield made
    finally:
        await background.aclose()


async def good() -> None:
    """Connect."""


async def bad() -> None:
    """Fail."""
    raise OSError("no")


async def test_all_that_answer_are_waited_for() -> None:
    """Without an end of the time, if none hangs."""
    async with started(good, bad, good) as supervisors:
        await wait_opened(supervisors, 600)
        assert [each.state for each in supervisors] == ["connected", "waiting", "connected"]
    await wait_opened([], 600)


async def test_one_that_hangs_is_not_waited_for() -> None:
    """Beside one that is connected."""
    async with started(good, anyio.sleep_forever) as supervisors:
        await wait_opened(supervisors, 0.01)
        assert [each.state for each in supervisors] == ["connected", "connecting"]


async def test_the_first_server_is_waited_for_however_long_it_takes() -> None:
    """A group without any server is of no use; a dead one is not the first."""
    gate = anyio.Event()
    async with started(gate.wait, bad, anyio.sleep_forever) as supervisors, anyio.create_task_group() as group:
        done = anyio.Event()

        async def wait() -> None:
            await wait_opened(supervisors, 0.0)
            done.set()

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not done.is_set()
        gate.set()
        with anyio.fail_after(60):
            await done.wait()
        assert [each.state for each in supervisors] == ["connected", "waiting", "connecting"]


async def test_it_ends_if_every_attempt_fails() -> None:
    """Then nothing is connected."""
    gate = anyio.Event()

    async def late() -> None:
        await gate.wait()
        raise OSError("no")

    async with started(late, bad) as supervisors, anyio.create_task_group() as group:
        group.start_soon(wait_opened, supervisors, 0.0)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert not any(each.is_up for each in supervisors)


async def test_what_ends_in_time() -> None:
    """And what does not."""
    assert await in_time(good, 60)
    assert not await in_time(anyio.sleep_forever, 0.001)
