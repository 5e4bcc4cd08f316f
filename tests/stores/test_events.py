"""ferrule.stores.events."""

import pytest

from ferrule.stores.events import MemoryEventStore

pytestmark = pytest.mark.anyio


async def datas(store: MemoryEventStore, session: str, last: str) -> list[bytes] | None:
    found = await store.replay(session, last)
    return None if found is None else [event.data for event in found.events]


async def test_what_followed_an_event_on_its_stream_is_replayed() -> None:
    """And nothing of the session's other streams (2025-11-25, resumability)."""
    store = MemoryEventStore()
    first = await store.append("s", "1", b"a")
    await store.append("s", "2", b"other")
    second = await store.append("s", "1", b"b")
    third = await store.append("s", "1", b"c")
    assert await datas(store, "s", first) == [b"b", b"c"]
    assert await datas(store, "s", second) == [b"c"]
    assert await datas(store, "s", third) == []
    found = await store.replay("s", first)
    assert found is not None
    assert (found.stream_id, [event.id for event in found.events]) == ("1", [second, third])


async def test_an_event_of_another_session_is_unknown() -> None:
    """An id is input from outside: it must not open another session's stream."""
    store = MemoryEventStore()
    id = await store.append("s", "1", b"a")
    await store.append("t", "2", b"x")
    assert await datas(store, "t", id) is None
    assert await datas(store, "u", id) is None


@pytest.mark.parametrize(
    "id", ["", "-", "1-", "-0", "1-1", "1-9999999999999999999999", "1-٣", "x", "2-0", "1--1", "1-+0"]
)
async def test_a_made_up_id_is_unknown(id: str) -> None:
    """Never an exception, whatever the client sends."""
    store = MemoryEventStore()
    await store.append("s", "1", b"a")
    assert await datas(store, "s", id) is None


async def test_a_gap_is_never_papered_over() -> None:
    """When the next event is gone, replaying the later ones would lose one unnoticed."""
    store = MemoryEventStore(max_stream_events=2)
    ids = [await store.append("s", "1", b"%d" % i) for i in range(4)]
    assert await datas(store, "s", ids[0]) is None
    assert await datas(store, "s", ids[1]) == [b"2", b"3"]


async def test_streams_of_a_session_are_bounded() -> None:
    """The stream written least recently goes first."""
    store = MemoryEventStore(max_session_streams=2)
    one = await store.append("s", "1", b"a")
    two = await store.append("s", "2", b"b")
    await store.append("s", "1", b"c")
    await store.append("s", "3", b"d")
    assert await datas(store, "s", one) == [b"c"]
    assert await datas(store, "s", two) is None


async def test_bytes_are_bounded_over_all_sessions() -> None:
    """A thousand sessions with streams must not grow without end."""
    store = MemoryEventStore(max_bytes=100)
    for number in range(1000):
        last = await store.append(str(number), "1", b"x" * 30)
        assert store.size_bytes <= 100
    assert await datas(store, "999", last) == []
    assert await datas(store, "0", "1-0") is None


async def test_empty_events_count() -> None:
    """Each GET stream begins with one, and a client may open and drop any number of streams in its sessions."""
    store = MemoryEventStore(max_bytes=100_000)
    ids = [await store.append(str(number), "g1", b"") for number in range(1000)]
    kept = [number for number in range(1000) if await datas(store, str(number), ids[number]) is not None]
    assert 0 < len(kept) < 100
    assert kept[-1] == 999


async def test_one_long_stream_is_bounded_too() -> None:
    """Its own oldest events go when there is nothing else to drop."""
    store = MemoryEventStore(max_bytes=100)
    for _ in range(50):
        id = await store.append("s", "1", b"x" * 30)
    assert store.size_bytes <= 100
    assert await datas(store, "s", id) == []


async def test_a_forgotten_session_leaves_nothing() -> None:
    """DELETE must free what the session sent."""
    store = MemoryEventStore()
    id = await store.append("s", "1", b"a")
    await store.append("t", "1", b"a")
    await store.forget("s")
    await store.forget("never seen")
    assert store.size_bytes == 1
    assert await datas(store, "s", id) is None


def test_bounds_are_positive() -> None:
    """A store that keeps nothing is spelled ``event_store=None``."""
    with pytest.raises(ValueError, match="at least 1"):
        MemoryEventStore(max_bytes=0)
