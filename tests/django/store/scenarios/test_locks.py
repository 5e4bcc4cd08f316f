"""A database of SQLite that another connection has locked."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from django.db import connections, transaction
from django.db.utils import OperationalError

from ferrule.django.models import KINDS, MarkRow
from ferrule.django.store import channel as channel_module
from ferrule.django.store import database as database_module
from ferrule.django.store.channel import DjangoChannel, _Reader
from ferrule.django.store.database import Database
from ferrule.django.store.events import DjangoEvents
from ferrule.django.store.executor import DatabaseExecutor
from ferrule.django.store.tasks import DjangoTasks
from ferrule.django.store.values import DjangoBlobs, DjangoCache, DjangoMarks, DjangoRateLimits, DjangoSessions
from ferrule.extensions.tasks import Delivery
from ferrule.stores.tasks import StoredTask
from tests.django.store.databases import database, empty

ALIAS = "locks"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with database(ALIAS, "plain sqlite", tmp_path_factory.mktemp("locks")) as settings:
        yield settings["NAME"]


@pytest.fixture(autouse=True)
def _empty(file: str) -> None:
    empty(ALIAS)
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")


class Clock:
    """The time since the machine was started, which passes in pauses only; calls ``on_pause`` with their number."""

    def __init__(self, on_pause: Callable[[int], object]) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []
        self._on_pause = on_pause

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses.append(seconds)
        self._on_pause(len(self.pauses))


def use(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database that waits by this clock, and deletes nothing meanwhile."""
    monkeypatch.setattr(database_module, "time", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr(database_module, "uptime_s", lambda: clock.now_s)
    made = Database(ALIAS, clock=lambda: 1000.0)
    made._sweep_at = float("inf")
    return made


def write(store: Database, key: str = "k") -> None:
    store.call(lambda now: store.rows(MarkRow).create(key=key, expires_at=2000.0, value=None))


def test_a_call_waits_until_the_lock_is_free(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the driver does, whose waiting writers have no queue."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        clock = Clock(lambda number: other.execute("ROLLBACK") if number == 5 else None)
        write(use(clock, monkeypatch))
    assert len(clock.pauses) == 5
    assert MarkRow._default_manager.using(ALIAS).count() == 1


def test_a_lock_that_is_never_free_is_an_error_that_says_so(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        clock = Clock(lambda number: None)
        with pytest.raises(ConnectionError, match=r"'locks' cannot be used: database is locked \(another transaction"):
            write(use(clock, monkeypatch))
    assert 20 <= sum(clock.pauses) < 21
    assert len(clock.pauses) < 200


def test_in_a_transaction_of_the_project_the_error_names_the_setting(file: str) -> None:
    """There is no use in waiting: what the transaction has read would be out of date."""
    store = Database(ALIAS, clock=lambda: 1000.0)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        with transaction.atomic(ALIAS):
            assert store.rows(MarkRow).count() == 0
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ConnectionError, match=r"OPTIONS\['transaction_mode'\] to 'IMMEDIATE'"):
                write(store)
        other.execute("ROLLBACK")
    write(store)


def test_transactions_of_the_store_lock_before_they_read(file: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=0)) as other:
        with Database(ALIAS).atomic(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")


class Faulty(Database):
    """A database whose calls run beside the event loop; of their statements one finds it locked, and has no effect.

    Attributes:
        statements: number of statements so far.
        fails_at: number of the statement.
    """

    def __init__(self) -> None:
        super().__init__(ALIAS, clock=lambda: 1000.0)
        self._sweep_at = float("inf")
        self.statements = 0
        self.fails_at: int | None = None

    async def run(self, work: Callable[[float], Any]) -> Any:
        def call() -> Any:
            with connections[ALIAS].execute_wrapper(self._execute):
                return self.call(work)

        return await anyio.to_thread.run_sync(call)

    def _execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        number, self.statements = self.statements, self.statements + 1
        if number == self.fails_at:
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)


def task(number: int) -> StoredTask:
    return StoredTask(
        task_id=f"t{number}", owner="o", version=1, created_at=1000.0, expires_at=5000.0, is_open=True, body=b"x"
    )


async def add(store: DjangoTasks, number: int, lease_s: float = 60) -> StoredTask:
    return await store.add(task(number), lease_s=lease_s, max_tasks=10, max_per_owner=10)


Steps = list[Callable[[], Awaitable[Any]]]


def operations(of: Database) -> dict[str, Steps]:
    """Changes of a store, each after the calls that it needs."""
    marks, blobs, sessions, cache = DjangoMarks(of), DjangoBlobs(of), DjangoSessions(of), DjangoCache(of)
    events = DjangoEvents(of, max_stream_events=4, max_session_streams=2)
    tasks, rates, executor = DjangoTasks(of), DjangoRateLimits(of), DatabaseExecutor(ALIAS)
    executor._database = of

    def deliver(number: int) -> Callable[[], Awaitable[None]]:
        return lambda: executor.submit(Delivery(f"t{number}", "work", 1))

    def append(stream: str) -> Callable[[], Awaitable[str]]:
        return lambda: events.append("s", stream, b"x")

    return {
        "begin a mark": [lambda: marks.begin("k", ttl_s=60)],
        "finish a mark": [lambda: marks.begin("k", ttl_s=60), lambda: marks.finish("k", b"x", ttl_s=60)],
        "begin a finished mark": [
            lambda: marks.finish("k", b"x", ttl_s=60),
            lambda: marks.begin("k", ttl_s=60),
        ],
        "keep a value": [lambda: blobs.put("k", b"x", ttl_s=60)],
        "read a session": [
            lambda: sessions.put("k", b"x", idle_s=60),
            lambda: sessions.get("k", idle_s=600),
        ],
        "cache": [lambda: cache.put("g", "k", b"x", ttl_s=60)],
        "drop a group": [lambda: cache.put("g", "k", b"x", ttl_s=60), lambda: cache.drop("g")],
        "take a token": [lambda: rates.take("k", size=3, per_s=1), lambda: rates.take("k", size=3, per_s=1)],
        "begin a stream": [append("1"), append("2"), append("3")],
        "append an event": [append("1")] * 9,
        "add a task": [lambda: add(tasks, 1)],
        "change a task": [lambda: add(tasks, 1), lambda: tasks.replace(task(1), lease_s=60)],
        "claim tasks": [
            lambda: add(tasks, 1, -1),
            lambda: add(tasks, 2, -1),
            lambda: tasks.claim(lease_s=60, limit=5),
        ],
        "take deliveries": [deliver(1), deliver(2), lambda: executor._take(5)],
        "send a message": [lambda: DjangoChannel(of).send(b"x")],
    }


def contents() -> dict[str, list[Any]]:
    """All rows but their numbers."""
    found = {kind._meta.db_table: kind._default_manager.using(ALIAS).order_by("pk").values() for kind in KINDS}
    return {
        name: [{key: value for key, value in row.items() if key not in {"id", "number"}} for row in rows]
        for name, rows in found.items()
    }


@pytest.mark.parametrize("name", operations(Database(ALIAS)))
def test_a_call_that_is_repeated_has_its_effect_once(file: str, name: str) -> None:
    """Whichever of its statements finds the database locked."""

    async def play(fails_at: int | None) -> tuple[Any, int]:
        of = Faulty()
        *before, last = operations(of)[name]
        for each in before:
            await each()
        of.statements, of.fails_at = 0, fails_at
        return await last(), of.statements

    wanted, statements = anyio.run(play, None)
    expected = contents()
    assert statements
    for fails_at in range(statements):
        empty(ALIAS)
        result, tried = anyio.run(play, fails_at)
        assert (repr(result), contents()) == (repr(wanted), expected), fails_at
        assert tried > statements - 1, "the statement was repeated"


def test_messages_that_cannot_be_read_are_read_later(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database is locked, and after its connection was lost."""
    read: Any = _Reader.read
    failures: list[Exception] = []

    def fail(reader: Any) -> Any:
        # Servers of other tests in this process may read their own databases meanwhile.
        if failures and str(reader._connection.settings_dict["NAME"]) == file:
            raise failures.pop()
        return read(reader)

    monkeypatch.setattr(_Reader, "read", fail)
    monkeypatch.setattr(channel_module, "_RETRY_S", 0.01)
    locked = ConnectionError("locked")
    locked.__cause__ = OperationalError("database is locked")

    async def talk() -> tuple[list[bytes], int]:
        channel = DjangoChannel(Database(ALIAS), poll_s=0.01)
        got: list[bytes] = []
        opened = 0
        arrived = [anyio.Event() for _ in range(3)]

        def on_message(message: bytes) -> None:
            got.append(message)
            arrived[len(got) - 1].set()

        def on_ready() -> None:
            nonlocal opened
            opened += 1
            ready[opened - 1].set()

        ready = [anyio.Event() for _ in range(2)]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(channel.listen, on_message, on_ready)
                await ready[0].wait()
                for number, failure in enumerate([None, locked, ConnectionError("lost")]):
                    failures.extend([] if failure is None else [failure])
                    await channel.send(b"%d" % number)
                    await arrived[number].wait()
                    while failures:  # A reading that had begun may bring the message before the one that fails.
                        await anyio.sleep(0.01)
                await ready[1].wait()
                group.cancel_scope.cancel()
        return got, opened

    assert anyio.run(talk) == ([b"0", b"1", b"2"], 2)
