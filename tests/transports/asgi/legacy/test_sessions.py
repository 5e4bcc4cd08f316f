"""ferrule.transports.asgi.legacy.sessions."""

from dataclasses import dataclass

import pytest

from ferrule.transports.asgi.legacy.sessions import RecentIds, SessionTable, TooManySessions, new_session_id


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Entry:
    session_id: str
    in_use: int = 0
    idle_since_s: float = 0.0


def table(max_sessions: int = 10, idle_s: float | None = 10) -> tuple[SessionTable[Entry], Clock, list[str]]:
    clock, removed = Clock(), []
    made = SessionTable[Entry](
        max_sessions=max_sessions, idle_s=idle_s, clock=clock, on_removed=lambda entry: removed.append(entry.session_id)
    )
    return made, clock, removed


def test_idle_time_counts_from_the_end_of_the_last_use() -> None:
    """A session with a long call in flight must not be reaped in the middle of it."""
    sessions, clock, removed = table()
    entry = Entry("a")
    sessions.add(entry)
    clock.now = 100
    sessions.sweep()
    assert sessions.acquire("a") is entry
    sessions.release(entry)
    clock.now = 150
    sessions.sweep()
    assert removed == []
    sessions.release(entry)
    clock.now = 159
    sessions.sweep()
    assert len(sessions) == 1
    clock.now = 160
    sessions.sweep()
    assert (len(sessions), removed) == (0, ["a"])


def test_an_expired_session_does_not_exist_even_before_a_sweep() -> None:
    """Expiry is a rule, not a matter of when a timer happens to run."""
    sessions, clock, removed = table()
    entry = Entry("a")
    sessions.add(entry)
    sessions.release(entry)
    clock.now = 10
    assert sessions.acquire("a") is None
    assert removed == ["a"]


def test_a_new_session_displaces_the_one_idle_longest() -> None:
    """A cap on live sessions, so that clients which never say goodbye cannot fill the memory."""
    sessions, clock, removed = table(max_sessions=2)
    for name in "ab":
        entry = Entry(name)
        sessions.add(entry)
        clock.now += 1
        sessions.release(entry)
    used = sessions.acquire("a")
    assert used is not None
    sessions.release(used)
    sessions.add(Entry("c"))
    assert removed == ["b"]
    assert sessions.acquire("b") is None


def test_sessions_in_use_are_never_displaced() -> None:
    """Better to refuse a newcomer than to cut a call."""
    sessions, _, removed = table(max_sessions=1)
    sessions.add(Entry("a"))
    with pytest.raises(TooManySessions):
        sessions.add(Entry("b"))
    assert removed == []


def test_releasing_a_removed_session_does_not_bring_it_back() -> None:
    """DELETE arrives while a request is in flight; its end must not make the session idle again."""
    sessions, _, _ = table()
    entry = Entry("a")
    sessions.add(entry)
    sessions.remove("a")
    sessions.release(entry)
    assert len(sessions) == 0
    assert sessions.next_expiry_in_s() is None


def test_the_next_expiry_is_known() -> None:
    """So that one timer suffices."""
    sessions, clock, _ = table()
    assert sessions.next_expiry_in_s() is None
    entry = Entry("a")
    sessions.add(entry)
    assert sessions.next_expiry_in_s() is None
    sessions.release(entry)
    clock.now = 4
    assert sessions.next_expiry_in_s() == 6


def test_without_idle_time_nothing_expires() -> None:
    """``None`` keeps sessions until they are deleted or displaced."""
    sessions, clock, _ = table(idle_s=None)
    entry = Entry("a")
    sessions.add(entry)
    sessions.release(entry)
    clock.now = 1e9
    sessions.sweep()
    assert len(sessions) == 1
    assert sessions.next_expiry_in_s() is None


def test_session_ids_are_random_visible_ascii() -> None:
    """Sessions are not authentication, but their ids must not be guessable (2025-11-25, session management)."""
    ids = {new_session_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(id) == 32 and all("\x21" <= c <= "\x7e" for c in id) for id in ids)


def test_the_last_ids_are_remembered_and_no_others() -> None:
    """The oldest gives way, whatever the ids look like; what is not an id of ours was never one of them."""
    recent = RecentIds(3)
    ids = ["00" * 15 + "01", "00" * 16, "01" * 16, "ab" * 16]
    assert ids[0] not in recent
    for id in ids[:3]:
        recent.add(id)
    assert [id in recent for id in ids] == [True, True, True, False]
    recent.add(ids[3])
    assert [id in recent for id in ids] == [False, True, True, True]
    assert "00" * 14 + "01" * 2 not in recent  # the end of one and the beginning of the next
    assert "not hexadecimal" not in recent
    assert "00" not in recent
