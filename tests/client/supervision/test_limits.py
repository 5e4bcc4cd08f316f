"""ferrule.client.supervision.limits: how many calls at once, and how long."""

from __future__ import annotations

import anyio
import pytest

from ferrule.client.supervision.limits import CallLimits
from ferrule.protocol.errors import RequestTimeout

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_a_call_beyond_the_limit_waits_for_another_to_end() -> None:
    """Two at once, of five."""
    limits, running, most = CallLimits(max_concurrent=2), 0, 0
    gate = anyio.Event()

    async def call() -> None:
        nonlocal running, most
        async with limits.call("tools/call"):
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        assert (running, limits.active) == (2, 5)
        gate.set()
        await limits.idle()
    assert (most, limits.active) == (2, 0)


async def test_the_deadline_ends_a_call_and_the_wait_for_others() -> None:
    """With the name of the request in the error."""
    limits = CallLimits(max_concurrent=1, deadline_s=0.01)
    with pytest.raises(RequestTimeout, match=r"tools/call within 0\.01 s"):
        async with limits.call("tools/call"):
            await anyio.sleep_forever()
    async with limits.call("tools/call", deadline_s=60):
        with pytest.raises(RequestTimeout):
            async with limits.call("tools/list"):
                raise AssertionError("it ran beside the other")
    assert limits.active == 0


async def test_an_error_of_the_call_is_raised_as_it_is() -> None:
    """And its slot is free again."""
    limits = CallLimits(max_concurrent=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with limits.call("tools/call"):
                raise ZeroDivisionError


@pytest.mark.parametrize("options", [{"max_concurrent": 0}, {"deadline_s": 0}])
async def test_limits_that_allow_nothing(options: dict[str, float]) -> None:
    """They are refused where they are written."""
    with pytest.raises(ValueError):
        CallLimits(**options)  # pyright: ignore[reportArgumentType]
