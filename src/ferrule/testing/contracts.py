"""The requirements of store implementations as test classes: inherit one, make the store, run it with pytest.

    class TestMine(TaskStoreContract):
        async def make(self) -> TaskStore: ...

Each class has a method ``make`` that returns a new, empty store. Tests call `StoreContract.pass_time`, which waits;
for a store with a clock argument override it and advance the clock. The tests are coroutines for anyio's pytest plugin
(mark the class or its module with ``pytest.mark.anyio``).
"""

from __future__ import annotations

from typing import Any

import anyio

from ferrule.stores.blobs import BlobStore
from ferrule.stores.cache import CacheStore
from ferrule.stores.channel import Channel
from ferrule.stores.events import EventStore
from ferrule.stores.marks import OneTimeMarks
from ferrule.stores.rates import RateLimitStore, SpendsTokens
from ferrule.stores.sessions import SessionStore
from ferrule.stores.tasks import StoredTask, TaskStore, TooManyTasks

__all__ = [
    "BlobStoreContract",
    "CacheStoreContract",
    "ChannelContract",
    "EventStoreContract",
    "MarksContract",
    "RateLimitStoreContract",
    "SessionStoreContract",
    "StoreContract",
    "TaskStoreContract",
]


class StoreContract:
    """Base class of the contracts.

    Attributes:
        tick_s: the shortest time in seconds that the store can measure.
    """

    tick_s = 0.1

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the store."""
        await anyio.sleep(seconds)

    def now(self) -> float:
        """Return seconds since the epoch, by the store's clock."""
        import time

        return time.time()


class MarksContract(StoreContract):
    """`ferrule.stores.marks.OneTimeMarks`."""

    async def make(self) -> OneTimeMarks:
        """Return a new store."""
        raise NotImplementedError

    async def test_a_key_is_given_to_one_caller(self) -> None:
        """Marks guarantee at most one run."""
        marks = await self.make()
        states: list[str] = []

        async def begin() -> None:
            states.append((await marks.begin("k", ttl_s=60)).state)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(begin)
        assert sorted(states) == ["mine", *["running"] * 19]
        assert (await marks.begin("other", ttl_s=60)).state == "mine"

    async def test_an_outcome_is_kept_for_everybody_else(self) -> None:
        """Bytes are opaque, also those that are not text."""
        marks = await self.make()
        await marks.begin("k", ttl_s=60)
        await marks.finish("k", b"\x00\xff", ttl_s=60)
        found = await marks.begin("k", ttl_s=60)
        assert (found.state, found.value) == ("done", b"\x00\xff")

    async def test_a_mark_expires(self) -> None:
        """An expired key is a new one."""
        marks = await self.make()
        await marks.begin("k", ttl_s=self.tick_s)
        await self.pass_time(self.tick_s * 1.5)
        assert (await marks.begin("k", ttl_s=60)).state == "mine"


class BlobStoreContract(StoreContract):
    """`ferrule.stores.blobs.BlobStore`."""

    async def make(self) -> BlobStore:
        """Return a new store."""
        raise NotImplementedError

    async def test_a_value_is_kept_and_replaced(self) -> None:
        """The last value is kept."""
        blobs = await self.make()
        assert await blobs.get("k") is None
        await blobs.put("k", b"\x00one", ttl_s=60)
        await blobs.put("k", b"two", ttl_s=60)
        assert await blobs.get("k") == b"two"
        assert await blobs.get("other") is None

    async def test_a_value_expires(self) -> None:
        """An expired key has no value."""
        blobs = await self.make()
        await blobs.put("k", b"x", ttl_s=self.tick_s)
        await self.pass_time(self.tick_s * 1.5)
        assert await blobs.get("k") is None

    async def test_a_value_without_a_life_takes_away_what_was_there(self) -> None:
        """The old value is deleted at once. An empty value exists."""
        blobs = await self.make()
        await blobs.put("k", b"", ttl_s=60)
        assert await blobs.get("k") == b""
        for ttl_s in (0, -1):
            await blobs.put("k", b"x", ttl_s=60)
            await blobs.put("k", b"y", ttl_s=ttl_s)
            assert await blobs.get("k") is None


class CacheStoreContract(StoreContract):
    """`ferrule.stores.cache.CacheStore`."""

    async def make(self) -> CacheStore:
        """Return a new store that keeps at least a megabyte."""
        raise NotImplementedError

    async def test_a_value_is_kept_and_replaced(self) -> None:
        """By group and key, with any characters; values are any bytes, also none."""
        cache = await self.make()
        assert await cache.get("g", "k") is None
        await cache.put("g", "k", b"\x00one", ttl_s=60)
        await cache.put("g", "k", b"two\xff", ttl_s=60)
        await cache.put("g", "", b"", ttl_s=60)
        await cache.put("g\n}{:*", "k\u00e9" * 400, b"x" * 100_000, ttl_s=60)
        assert await cache.get("g", "k") == b"two\xff"
        assert await cache.get("g", "") == b""
        assert await cache.get("g\n}{:*", "k\u00e9" * 400) == b"x" * 100_000
        for group, key in (("g", "other"), ("other", "k"), ("", "gk"), ("gk", "")):
            assert await cache.get(group, key) is None, (group, key)

    async def test_a_value_expires(self) -> None:
        """Each value has its own expiry: a later one does not extend that of an earlier one."""
        cache = await self.make()
        await cache.put("g", "k", b"x", ttl_s=self.tick_s)
        await cache.put("g", "later", b"y", ttl_s=60)
        await self.pass_time(self.tick_s * 1.5)
        assert await cache.get("g", "k") is None
        assert await cache.get("g", "later") == b"y"
        await cache.put("g", "later", b"z", ttl_s=0)
        assert await cache.get("g", "later") is None

    async def test_a_group_is_dropped_as_one(self) -> None:
        """No value of it is found again, other groups are unchanged, and it can be used again."""
        cache = await self.make()
        await cache.drop("g")
        for key in ("a", "b"):
            await cache.put("g", key, b"old", ttl_s=60)
        await cache.put("other", "a", b"kept", ttl_s=60)
        await cache.drop("g")
        await cache.put("g", "b", b"new", ttl_s=60)
        assert [await cache.get("g", key) for key in ("a", "b")] == [None, b"new"]
        assert await cache.get("other", "a") == b"kept"


class RateLimitStoreContract(StoreContract):
    """`ferrule.stores.rates.RateLimitStore`."""

    async def make(self) -> RateLimitStore:
        """Return a new store."""
        raise NotImplementedError

    async def test_a_bucket_gives_what_it_holds_and_says_when_there_is_more(self) -> None:
        """A wait is the time until the next token, and a refused request does not extend it."""
        rates = await self.make()
        per_s = self.tick_s * 30
        assert [await rates.take("k", size=3, per_s=per_s) for _ in range(3)] == [0, 0, 0]
        waits = [await rates.take("k", size=3, per_s=per_s) for _ in range(3)]
        assert all(0 < wait <= per_s / 3 + 0.001 for wait in waits)
        await self.pass_time(waits[-1])
        assert await rates.take("k", size=3, per_s=per_s) == 0
        assert await rates.take("k", size=3, per_s=per_s) > 0

    async def test_a_bucket_fills_and_never_holds_more(self) -> None:
        """A sender that has not sent for a long time has one full bucket, not several."""
        rates = await self.make()
        for _ in range(2):
            assert await rates.take("k", size=2, per_s=self.tick_s * 4) == 0
        await self.pass_time(self.tick_s * 20)
        taken = [await rates.take("k", size=2, per_s=60) for _ in range(3)]
        assert taken[:2] == [0, 0]
        assert taken[2] > 0

    async def test_every_key_has_a_bucket_of_its_own(self) -> None:
        """Requests of one sender do not delay those of others."""
        rates = await self.make()
        for key in ("a", "b", "a ", "", "\u00e9" * 300):
            assert await rates.take(key, size=1, per_s=60) == 0, key
            assert await rates.take(key, size=1, per_s=60) > 0, key

    async def test_many_at_once_get_no_more_than_there_is(self) -> None:
        """Concurrent calls share one count."""
        rates = await self.make()
        waits: list[float] = []

        async def take() -> None:
            waits.append(await rates.take("k", size=5, per_s=600))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(take)
        assert sum(wait == 0 for wait in waits) == 5
        assert all(0 < wait <= 600 for wait in waits if wait)

    async def test_several_tokens_are_taken_together_or_not_at_all(self) -> None:
        """A call that costs much does not use up what it cannot pay; only for stores with `SpendsTokens`."""
        rates = await self.make()
        if not isinstance(rates, SpendsTokens):
            return
        assert await rates.spend("k", size=10, per_s=600, tokens=7) == 0
        assert 0 < await rates.spend("k", size=10, per_s=600, tokens=4) <= 61
        assert await rates.spend("k", size=10, per_s=600, tokens=0) == 0
        assert await rates.spend("k", size=10, per_s=600, tokens=3) == 0
        assert await rates.spend("k", size=10, per_s=600, tokens=1) > 0

    async def test_tokens_that_are_taken_anyway_leave_an_empty_bucket_and_no_debt(self) -> None:
        """What a call has cost is known after it; it delays the next calls by one filling at most."""
        rates = await self.make()
        if not isinstance(rates, SpendsTokens):
            return
        assert await rates.spend("k", size=5, per_s=600, tokens=2) == 0
        assert await rates.spend("k", size=5, per_s=600, tokens=50, anyway=True) == 0
        assert 0 < await rates.spend("k", size=5, per_s=600, tokens=1) <= 121

    async def test_buckets_may_be_large(self) -> None:
        """Costs may be bytes, so that numbers of tokens do not end at 2^31 or 2^53."""
        rates = await self.make()
        for size in (2**31 - 1, 2**31, 2**31 + 1, 2**53 - 1, 2**53, 2**53 + 1):
            assert await rates.take(f"one {size}", size=size, per_s=600) == 0
            if not isinstance(rates, SpendsTokens):
                continue
            key, half = f"{size}", size // 2
            assert await rates.spend(key, size=size, per_s=600, tokens=half) == 0
            assert await rates.spend(key, size=size, per_s=600, tokens=size - half) == 0
            assert 200 < await rates.spend(key, size=size, per_s=600, tokens=half) <= 301
            assert await rates.spend(key, size=size, per_s=600, tokens=2 * size, anyway=True) == 0
            assert await rates.spend(f"small {size}", size=1, per_s=600, tokens=size) > 600


class SessionStoreContract(StoreContract):
    """`ferrule.stores.sessions.SessionStore`."""

    async def make(self) -> SessionStore:
        """Return a new store."""
        raise NotImplementedError

    async def test_a_value_is_kept_replaced_and_deleted(self) -> None:
        """The last value is kept; a deleted session no longer exists."""
        sessions = await self.make()
        assert await sessions.get("s", idle_s=60) is None
        await sessions.put("s", b"\x00one", idle_s=60)
        await sessions.put("s", b"two", idle_s=60)
        assert await sessions.get("s", idle_s=60) == b"two"
        await sessions.delete("s")
        await sessions.delete("s")
        assert await sessions.get("s", idle_s=60) is None

    async def test_sessions_are_kept_apart(self) -> None:
        """An id comes from a client and may have any character that a header allows."""
        sessions = await self.make()
        ids = ["s", "s}", "{s}", "S", "s:facts", "s ", "%s", "'; --", "\u00e9"]
        for id in ids:
            await sessions.put(id, id.encode(), idle_s=60)
        assert [await sessions.get(id, idle_s=60) for id in ids] == [id.encode() for id in ids]
        await sessions.delete("s")
        assert [await sessions.get(id, idle_s=60) for id in ids] == [None, *(id.encode() for id in ids[1:])]

    async def test_asking_keeps_a_session_alive(self) -> None:
        """Only the idle time ends a session."""
        sessions = await self.make()
        await sessions.put("s", b"x", idle_s=self.tick_s * 3)
        for _ in range(3):
            await self.pass_time(self.tick_s * 2)
            assert await sessions.get("s", idle_s=self.tick_s * 3) == b"x"
        await self.pass_time(self.tick_s * 4)
        assert await sessions.get("s", idle_s=60) is None
        await sessions.put("s", b"y", idle_s=self.tick_s)
        await self.pass_time(self.tick_s * 2)
        assert await sessions.get("s", idle_s=60) is None


class EventStoreContract(StoreContract):
    """`ferrule.stores.events.EventStore`."""

    async def make(self) -> EventStore:
        """Return a new store that keeps at least ten events of a stream."""
        raise NotImplementedError

    async def test_what_followed_an_event_is_replayed_in_order(self) -> None:
        """After any event; after the last one, nothing is replayed."""
        events = await self.make()
        ids = [await events.append("s", "1", b"\x00%d" % number) for number in range(5)]
        assert len(set(ids)) == 5
        assert all(id.isprintable() for id in ids)
        found = await events.replay("s", ids[1])
        assert found is not None
        assert found.stream_id == "1"
        assert [tuple(event) for event in found.events] == [(ids[n], b"\x00%d" % n) for n in (2, 3, 4)]
        last = await events.replay("s", ids[4])
        assert last is not None
        assert last.events == []

    async def test_streams_and_sessions_are_kept_apart(self) -> None:
        """With an id that a client sends, it gets no events of other sessions."""
        events = await self.make()
        mine = await events.append("s", "1", b"mine")
        await events.append("s", "2", b"other stream")
        found = await events.replay("s", mine)
        assert found is not None
        assert found.events == []
        assert await events.replay("t", mine) is None
        for id in ("", "1", "1-", "-1", "1-x", "1-99", "9-0", "1-" + "9" * 40):
            assert await events.replay("s", id) is None, id

    async def test_a_gap_is_never_replayed(self) -> None:
        """A replay of events that were dropped returns ``None``."""
        events = await self.make()
        first = await events.append("s", "1", b"x")
        for number in range(2000):
            await events.append("s", "1", b"%d" % number)
        assert await events.replay("s", first) is None

    async def test_an_id_of_before_finds_nothing_in_a_stream_that_begins_anew(self) -> None:
        """An id must not be used twice, or a client misses the events in between."""
        events = await self.make()
        old = [await events.append("s", "1", b"old") for _ in range(3)]
        await events.forget("s")
        await self.pass_time(self.tick_s)
        new = [await events.append("s", "1", b"new") for _ in range(5)]
        for id in old:
            found = await events.replay("s", id)
            whole = found is not None and [event.id for event in found.events] == new and id == old[-1]
            assert found is None or whole, id
        assert not set(old) & set(new)

    async def test_events_at_once_get_ids_in_their_order(self) -> None:
        """Two writers never get the same id; an id's event is replayed with its own data."""
        events = await self.make()
        first = await events.append("s", "1", b"first")
        stored: dict[str, bytes] = {}

        async def append(data: bytes) -> None:
            stored[await events.append("s", "1", data)] = data

        async with anyio.create_task_group() as group:
            for number in range(9):
                group.start_soon(append, b"%d" % number)
        found = await events.replay("s", first)
        assert found is not None
        assert {event.id: event.data for event in found.events} == stored
        assert len(stored) == 9

    async def test_an_ended_session_leaves_nothing(self) -> None:
        """The events of all its streams are deleted."""
        events = await self.make()
        ids = [await events.append("s", stream, b"x") for stream in ("1", "2")]
        await events.forget("s")
        for id in ids:
            assert await events.replay("s", id) is None


class ChannelContract(StoreContract):
    """`ferrule.stores.channel.Channel`."""

    async def make_two(self) -> tuple[Channel, Channel]:
        """Return the same channel, as two processes have it."""
        raise NotImplementedError

    async def test_everybody_who_listens_hears_in_order(self) -> None:
        """Also the subscribers in the sender's process; messages are any bytes."""
        one, other = await self.make_two()
        heard: list[list[bytes]] = [[], []]
        sent = [b"\x00%d" % number for number in range(20)]
        all_heard = anyio.Event()
        ready = [anyio.Event(), anyio.Event()]

        async def listen(index: int, channel: Channel) -> None:
            def take(message: bytes) -> None:
                heard[index].append(message)
                if all(len(messages) == len(sent) for messages in heard):
                    all_heard.set()

            await channel.listen(take, ready[index].set)

        async with anyio.create_task_group() as group:
            for index, channel in enumerate((one, other)):
                group.start_soon(listen, index, channel)
            with anyio.fail_after(10):
                for event in ready:
                    await event.wait()
                for message in sent:
                    await one.send(message)
                await all_heard.wait()
            group.cancel_scope.cancel()
        assert heard == [sent, sent]

    async def test_whoever_comes_later_hears_what_comes_later(self) -> None:
        """No message is kept for later subscribers, and none is delivered to former ones."""
        one, other = await self.make_two()
        heard: list[bytes] = []
        came = anyio.Event()

        def take(message: bytes) -> None:
            heard.append(message)
            came.set()

        await one.send(b"before")
        for word in (b"first", b"second"):
            came = anyio.Event()
            async with anyio.create_task_group() as group:
                ready = anyio.Event()
                group.start_soon(other.listen, take, ready.set)
                with anyio.fail_after(10):
                    await ready.wait()
                    await one.send(word)
                    await came.wait()
                group.cancel_scope.cancel()
            await one.send(b"between")
        assert heard == [b"first", b"second"]


class TaskStoreContract(StoreContract):
    """`ferrule.stores.tasks.TaskStore`."""

    async def make(self) -> TaskStore:
        """Return a new store."""
        raise NotImplementedError

    def task(self, task_id: str, *, life_s: float = 60, **facts: Any) -> StoredTask:
        """Return a record that was never stored."""
        now = self.now()
        given: dict[str, Any] = {"owner": "", "is_open": True, "body": b"\x00" + task_id.encode(), **facts}
        return StoredTask(task_id=task_id, created_at=now, expires_at=round(now + life_s, 3), **given)

    async def put(self, store: TaskStore, task: StoredTask, *, lease_s: float = 60, **bounds: int) -> StoredTask:
        """Add a record with large bounds, and return it as stored."""
        return await store.add(task, lease_s=lease_s, **{"max_tasks": 1000, "max_per_owner": 1000, **bounds})

    async def test_a_record_is_found_as_it_was_stored(self) -> None:
        """With all fields and the same bytes."""
        store = await self.make()
        stored = await self.put(store, self.task("t", owner="ann"))
        found = await store.get("t")
        assert found == stored
        assert found is not None
        assert (found.version, found.owner, found.is_open, found.body) == (1, "ann", True, b"\x00t")
        assert await store.get("other") is None

    async def test_an_id_is_given_to_one_record(self) -> None:
        """A caller that lost the response may add the same record again; another record is refused."""
        from msgspec.structs import replace

        store = await self.make()
        given = self.task("t", owner="ann")
        stored = await self.put(store, given)
        assert await self.put(store, given, max_tasks=1) == stored
        for other in (replace(given, owner="bob"), replace(given, body=b"other")):
            try:
                await self.put(store, other)
            except ValueError:
                continue
            raise AssertionError(f"{other} was taken")
        assert await store.get("t") == stored
        assert await store.page("ann", None, 10) == [stored]
        assert await store.page("bob", None, 10) == []
        changed = await store.replace(replace(stored, body=b"changed"))
        try:
            await self.put(store, given)
        except ValueError:
            assert await store.get("t") == changed
        else:
            raise AssertionError("a record that has changed was added again")

    async def test_what_a_record_was_added_with_stays(self) -> None:
        """Owner, creation and expiry never change; an ended record cannot be changed."""
        from msgspec.structs import replace

        store = await self.make()
        stored = await self.put(store, self.task("t", owner="ann", life_s=self.tick_s * 3))
        wanted = replace(stored, owner="bob", created_at=1.0, expires_at=stored.expires_at + 1000, body=b"new")
        changed = await store.replace(wanted)
        assert changed is not None
        assert changed == replace(stored, body=b"new", version=2)
        assert await store.get("t") == changed
        assert await store.page("bob", None, 10) == []
        assert await store.page("ann", None, 10) == [changed]
        ended = await store.replace(replace(changed, is_open=False))
        assert ended is not None
        for later in (ended, replace(ended, is_open=True), replace(ended, body=b"late")):
            assert await store.replace(later, lease_s=0) is None
        assert await store.get("t") == ended
        await self.pass_time(self.tick_s * 4)
        assert await store.get("t") is None

    async def test_a_life_is_counted_from_the_adding_by_one_clock(self) -> None:
        """The caller's clock may differ from the store's; the lifetime as a duration holds for both."""
        from msgspec.structs import replace

        store = await self.make()
        life_s = self.tick_s * 3
        for number, shift_s in enumerate((-7200.0, 0.0, 7200.0)):
            fresh = self.task(f"t{number}", owner="ann", life_s=life_s)
            given = replace(fresh, created_at=fresh.created_at + shift_s, expires_at=fresh.expires_at + shift_s)
            stored = await self.put(store, given, lease_s=self.tick_s)
            assert abs(stored.expires_at - fresh.expires_at) < 60
            assert await store.get(stored.task_id) == stored
        assert len(await store.page("ann", None, 10)) == 3
        await self.pass_time(life_s * 1.5)
        assert await store.page("ann", None, 10) == []
        assert await store.claim(lease_s=60, limit=10) == []
        none = self.task("none", owner="ann", life_s=-self.tick_s)
        await self.put(store, none)
        assert await store.get("none") is None
        assert await store.page("ann", None, 10) == []
        await self.put(store, self.task("last", owner="ann"), max_tasks=1, max_per_owner=1)

    async def test_a_record_that_changed_is_not_overwritten(self) -> None:
        """Compare-and-swap: of two writers that have read the same version one succeeds."""
        from msgspec.structs import replace

        store = await self.make()
        read = await self.put(store, self.task("t"))
        won: list[Any] = []

        async def write(body: bytes) -> None:
            changed = await store.replace(replace(read, body=body))
            if changed is not None:
                won.append(changed)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(write, b"%d" % number)
        (winner,) = won
        assert winner.version == read.version + 1
        found = await store.get("t")
        assert found is not None
        assert found.body == winner.body
        assert await store.replace(replace(read, task_id="other")) is None

    async def test_a_record_expires_whatever_is_written_to_it(self) -> None:
        """The lifetime begins at the creation; nothing is left after it."""
        store = await self.make()
        stored = await self.put(store, self.task("t", life_s=self.tick_s, owner="ann"))
        await self.pass_time(self.tick_s * 1.5)
        assert await store.get("t") is None
        assert await store.replace(stored) is None
        assert await store.page("ann", None, 10) == []
        assert await store.claim(lease_s=60, limit=10) == []

    async def test_numbers_are_bounded_in_all_and_by_owner(self) -> None:
        """An expired record, or one of another owner, does not shorten a page."""
        store = await self.make()
        await self.put(store, self.task("a1", owner="ann", life_s=self.tick_s))
        await self.pass_time(self.tick_s * 1.5)
        await self.put(store, self.task("a2", owner="ann"), max_per_owner=1)
        assert (await self._refusal(store, self.task("a3", owner="ann"), max_per_owner=1)).owner
        await self.put(store, self.task("b1", owner="bob"), max_per_owner=1)
        await self.put(store, self.task("n1"), max_per_owner=0)
        assert not (await self._refusal(store, self.task("n2"), max_tasks=3)).owner

    async def _refusal(self, store: TaskStore, task: StoredTask, **bounds: int) -> TooManyTasks:
        try:
            await self.put(store, task, **bounds)
        except TooManyTasks as error:
            return error
        raise AssertionError(f"{task.task_id} was taken beyond the bounds {bounds}")

    async def test_pages_are_the_owners_newest_first(self) -> None:
        """A cursor that is not a record of the owner is refused."""
        store = await self.make()
        for number in range(5):
            await self.put(store, self.task(f"a{number}", owner="ann"))
        await self.put(store, self.task("b0", owner="bob"))
        assert [task.task_id for task in await store.page("ann", None, 3)] == ["a4", "a3", "a2"]
        assert [task.task_id for task in await store.page("ann", "a2", 3)] == ["a1", "a0"]
        for cursor in ("b0", "unknown"):
            try:
                await store.page("ann", cursor, 3)
            except KeyError:
                continue
            raise AssertionError(f"the cursor {cursor} was taken")

    async def test_a_cursor_that_has_expired_is_refused(self) -> None:
        """It is refused as an unknown one. The owner ``""`` has no list."""
        store = await self.make()
        await self.put(store, self.task("a0", owner="ann"))
        await self.put(store, self.task("a1", owner="ann", life_s=self.tick_s))
        await self.put(store, self.task("n0"))
        await self.pass_time(self.tick_s * 1.5)
        assert [task.task_id for task in await store.page("ann", None, 3)] == ["a0"]
        assert await store.page("", None, 3) == []
        for owner, cursor in (("ann", "a1"), ("", "n0")):
            try:
                await store.page(owner, cursor, 3)
            except KeyError:
                continue
            raise AssertionError(f"the cursor {cursor} was taken")

    async def test_a_lease_that_ran_out_is_given_to_one_caller(self) -> None:
        """A renewed lease is not given, nor that of an ended task."""
        from msgspec.structs import replace

        store = await self.make()
        await self.put(store, self.task("lost"), lease_s=self.tick_s)
        kept = await self.put(store, self.task("kept"), lease_s=self.tick_s)
        over = await self.put(store, self.task("over"), lease_s=self.tick_s)
        await store.replace(kept, lease_s=60)
        await store.replace(replace(over, is_open=False))
        assert await store.claim(lease_s=60, limit=10) == []
        await self.pass_time(self.tick_s * 1.5)
        claimed: list[str] = []

        async def claim() -> None:
            claimed.extend(task.task_id for task in await store.claim(lease_s=60, limit=10))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(claim)
        assert claimed == ["lost"]
        found = await store.get("over")
        assert found is not None
        assert not found.is_open

    async def test_as_many_leases_are_claimed_as_are_asked_for(self) -> None:
        """The records whose lease ran out first; an expired record does not take the place of another."""
        store = await self.make()
        for number in range(3):
            await self.put(store, self.task(f"gone{number}", life_s=self.tick_s), lease_s=self.tick_s / 10)
        for number in range(3):
            await self.put(store, self.task(f"t{number}"), lease_s=self.tick_s * (3 - number) / 2)
        await self.pass_time(self.tick_s * 2)
        claimed = [await store.claim(lease_s=60, limit=limit) for limit in (0, 2, 2, 2)]
        assert [[task.task_id for task in tasks] for tasks in claimed] == [[], ["t2", "t1"], ["t0"], []]

    async def test_a_released_lease_can_be_claimed_at_once(self) -> None:
        """A stopping process releases the leases of its tasks."""
        store = await self.make()
        stored = await self.put(store, self.task("t"))
        await store.replace(stored, lease_s=0)
        await self.pass_time(self.tick_s / 10)
        assert [task.task_id for task in await store.claim(lease_s=60, limit=10)] == ["t"]
