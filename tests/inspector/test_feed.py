"""The feed: no event is lost between kept and new ones, and a page that does not read blocks nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.inspector import feed as feed_module
from ferrule.inspector.feed import Feed
from ferrule.wire.codec import decode


async def take(listening: Any, count: int) -> list[dict[str, Any]]:
    """The next events."""
    return [decode(await anext(listening)) for _ in range(count)]


@pytest.mark.anyio
async def test_an_event_published_while_kept_events_are_sent_is_not_lost() -> None:
    """A page that opens while a connection is made must see how that ended."""
    feed = Feed()
    feed.publish_event("message", number=1)
    listening = feed.listen()
    assert (await take(listening, 1))[0]["kind"] == "hello"
    feed.publish_state("connection", "main", state="open")
    found = await take(listening, 3)
    assert [event["kind"] for event in found] == ["message", "caught_up", "connection"]
    await listening.aclose()


@pytest.mark.anyio
async def test_no_event_is_sent_twice() -> None:
    """An event that was sent with the kept ones is not sent again as a new one."""
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    feed.publish_event("log", text="a")
    other = feed.listen()
    assert [event["kind"] for event in await take(other, 3)] == ["hello", "log", "caught_up"]
    feed.publish_event("log", text="b")
    assert (await take(other, 1))[0]["text"] == "b"
    assert [event["text"] for event in await take(listening, 2)] == ["a", "b"]
    await listening.aclose()
    await other.aclose()


@pytest.mark.anyio
async def test_a_late_page_gets_the_current_state_of_each_object() -> None:
    """Earlier states of the same object are not sent."""
    feed = Feed()
    for state in ("running", "done"):
        feed.publish_state("job", "a", state=state)
        feed.publish_state("job", "b", state=state)
    listening = feed.listen()
    found = await take(listening, 4)
    assert [(event.get("key"), event.get("state")) for event in found[1:3]] == [("a", "done"), ("b", "done")]
    await listening.aclose()


@pytest.mark.anyio
async def test_a_page_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page connects again and gets everything anew; memory does not grow for it."""
    monkeypatch.setattr(feed_module, "MAX_WAITING", 10)
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    for number in range(12):
        feed.publish_event("message", number=number)
    assert [event async for event in listening] == []


@pytest.mark.anyio
async def test_kept_events_are_bounded_and_can_be_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inspector that runs for days keeps the newest events."""
    feed = Feed()
    for number in range(feed_module.MAX_EVENTS + 5):
        feed.publish_event("message", number=number)
    feed.publish_event("log", text='"kind":"message"')
    feed.discard("message")
    listening = feed.listen()
    assert [event["kind"] for event in await take(listening, 3)] == ["hello", "log", "caught_up"]
    await listening.aclose()


@pytest.mark.anyio
async def test_the_end_ends_every_page() -> None:
    """The shutdown does not wait for a page."""
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    await feed.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(listening)


@pytest.mark.anyio
async def test_many_states_of_one_kind_displace_no_other_kind() -> None:
    """A page that is loaded after a thousand calls must still get the state of the connection."""
    feed = Feed()
    feed.publish_state("connection", "main", state="open")
    for number in range(feed_module.MAX_STATES + 5):
        feed.publish_state("question", f"q{number}", state="ended")
    listening = feed.listen()
    found = await take(listening, 2)
    assert (found[0]["kept"], found[1]["kind"]) == (feed_module.MAX_STATES + 1, "connection")
    await listening.aclose()


@pytest.mark.anyio
async def test_everything_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log lines of a server are kept within a bound, with and without an open page."""
    monkeypatch.setattr(feed_module, "MAX_EVENTS_BYTES", 10_000)
    monkeypatch.setattr(feed_module, "MAX_WAITING_BYTES", 10_000)
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    for number in range(200):
        feed.publish_event("log", number=number, text="x" * 1000)
    assert [event async for event in listening] == []
    late = feed.listen()
    assert (await take(late, 1))[0]["kept"] < 10
    feed.discard("log")
    feed.publish_event("log", number=1, text="after")
    await late.aclose()
    late = feed.listen()
    assert (await take(late, 1))[0]["kept"] == 1
    await late.aclose()
