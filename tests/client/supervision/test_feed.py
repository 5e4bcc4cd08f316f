"""ferrule.client.supervision.feed: observers and iterators."""

from __future__ import annotations

import anyio
import pytest

from ferrule.client.supervision.feed import MAX_WAITING, StatusFeed
from ferrule.client.supervision.status import ConnectionStatus

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


def status(failures: int) -> ConnectionStatus:
    """A state that can be told from others."""
    return ConnectionStatus(server="x", state="waiting", since=0, failures=failures)


async def test_an_observer_gets_each_state_until_it_ends_that(caplog: pytest.LogCaptureFixture) -> None:
    """One that fails disturbs no other."""
    feed, seen = StatusFeed(), list[int]()

    def broken(_: ConnectionStatus) -> None:
        raise ZeroDivisionError

    feed.observe(broken)
    stop = feed.observe(lambda one: seen.append(one.failures))
    feed.publish(status(1))
    stop()
    stop()
    feed.publish(status(2))
    assert seen == [1]
    assert caplog.text.count("An observer of the server 'x' failed") == 2


async def test_an_iterator_gets_the_first_states_and_each_later_one() -> None:
    """It waits for what comes, and ends with the feed."""
    feed, seen = StatusFeed(), list[int]()
    watch = feed.watch([status(0)])

    async def read() -> None:
        async for one in watch:
            seen.append(one.failures)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert seen == [0]
        feed.publish(status(1))
        await anyio.wait_all_tasks_blocked()
        assert seen == [0, 1]
        feed.publish(status(2))
        feed.close()
    assert seen == [0, 1, 2]
    feed.publish(status(3))
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_reader_that_does_not_read_costs_a_bounded_number_of_states() -> None:
    """The newest stay."""
    feed = StatusFeed()
    watch = feed.watch()
    for number in range(MAX_WAITING + 3):
        feed.publish(status(number))
    assert (await anext(watch)).failures == 3
