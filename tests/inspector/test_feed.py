"""The feed: nothing is lost between what was and what comes, and nobody waits for a page that does not read."""

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
async def test_what_happens_while_the_past_is_sent_is_not_lost() -> None:
    """A page that opens while a connection is made must see how that ended."""
    feed = Feed()
    feed.happened("message", number=1)
    listening = feed.listen()
    assert (await take(listening, 1))[0]["kind"] == "hello"
    feed.stands("lane", "main", state="open")
    found = await take(listening, 3)
    assert [event["kind"] for event in found] == ["message", "caught_up", "lane"]
    await listening.aclose()


@pytest.mark.anyio
async def test_nothing_comes_twice() -> None:
    """What is part of the past is not news."""
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    feed.happened("log", text="a")
    other = feed.listen()
    assert [event["kind"] for event in await take(other, 3)] == ["hello", "log", "caught_up"]
    feed.happened("log", text="b")
    assert (await take(other, 1))[0]["text"] == "b"
    assert [event["text"] for event in await take(listening, 2)] == ["a", "b"]
    await listening.aclose()
    await other.aclose()


@pytest.mark.anyio
async def test_a_late_page_gets_the_last_word_about_each_thing() -> None:
    """And not everything that was said about it."""
    feed = Feed()
    for state in ("running", "done"):
        feed.stands("job", "a", state=state)
        feed.stands("job", "b", state=state)
    listening = feed.listen()
    found = await take(listening, 4)
    assert [(event.get("key"), event.get("state")) for event in found[1:3]] == [("a", "done"), ("b", "done")]
    await listening.aclose()


@pytest.mark.anyio
async def test_a_page_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back for a fresh start; memory does not grow for it."""
    monkeypatch.setattr(feed_module, "MAX_WAITING", 10)
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    for number in range(12):
        feed.happened("message", number=number)
    assert [event async for event in listening] == []


@pytest.mark.anyio
async def test_the_past_is_bounded_and_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inspector that runs for days keeps the end of it."""
    feed = Feed()
    for number in range(feed_module.MAX_HAPPENINGS + 5):
        feed.happened("message", number=number)
    feed.happened("log", text='"kind":"message"')
    feed.forget("message")
    listening = feed.listen()
    assert [event["kind"] for event in await take(listening, 3)] == ["hello", "log", "caught_up"]
    await listening.aclose()


@pytest.mark.anyio
async def test_the_end_ends_every_page() -> None:
    """So that shutting down waits for nobody."""
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    await feed.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(listening)


@pytest.mark.anyio
async def test_many_things_of_one_kind_push_out_no_other() -> None:
    """Whoever loads the page anew after a thousand calls must still see how the connection stands."""
    feed = Feed()
    feed.stands("lane", "main", state="open")
    for number in range(feed_module.MAX_THINGS + 5):
        feed.stands("question", f"q{number}", state="gone")
    listening = feed.listen()
    found = await take(listening, 2)
    assert (found[0]["kept"], found[1]["kind"]) == (feed_module.MAX_THINGS + 1, "lane")
    await listening.aclose()


@pytest.mark.anyio
async def test_everything_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that logs without end is not kept without end, whether somebody reads or not."""
    monkeypatch.setattr(feed_module, "MAX_HAPPENINGS_BYTES", 10_000)
    monkeypatch.setattr(feed_module, "MAX_WAITING_BYTES", 10_000)
    feed = Feed()
    listening = feed.listen()
    await take(listening, 2)
    for number in range(200):
        feed.happened("log", number=number, text="x" * 1000)
    assert [event async for event in listening] == []
    late = feed.listen()
    assert (await take(late, 1))[0]["kept"] < 10
    feed.forget("log")
    feed.happened("log", number=1, text="after")
    await late.aclose()
    late = feed.listen()
    assert (await take(late, 1))[0]["kept"] == 1
    await late.aclose()
