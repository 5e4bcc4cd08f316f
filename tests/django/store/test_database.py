"""The database of a store: expired rows, its clock, and a connection that was lost."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import anyio
import pytest
from django.db import connections, transaction

from ferrule.django.models import KINDS, CacheRow, MarkRow
from ferrule.django.store.database import Database
from ferrule.django.store.store import clean
from ferrule.django.store.values import DjangoBlobs, DjangoCache, DjangoMarks
from tests.django.store.databases import KINDS_OF_DATABASE, database, empty

ALIAS = "database"


@pytest.fixture(scope="module", params=KINDS_OF_DATABASE)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with database(ALIAS, request.param, tmp_path_factory.mktemp("database")):
        yield request.param


@pytest.fixture(autouse=True)
def _empty(kind: str) -> None:
    empty(ALIAS)


def marks(number: int, *, expires_at: float) -> None:
    rows: Any = MarkRow._default_manager.using(ALIAS)
    rows.bulk_create([MarkRow(key=f"{expires_at} {each}", expires_at=expires_at, value=None) for each in range(number)])


def count(kind: Any = MarkRow) -> int:
    return int(kind._default_manager.using(ALIAS).count())


def test_expired_rows_are_deleted_in_batches() -> None:
    """A table that has grown must not stop a request; each call deletes one batch, and says if there is more."""
    store = Database(ALIAS, clock=lambda: 1000.0)
    marks(25, expires_at=900.0)
    marks(3, expires_at=1100.0)
    assert [store.sweep(1000.0, batch=10) for _ in range(3)] == [10, 10, 0]
    assert count() == 3


def test_cleaning_leaves_what_has_not_expired() -> None:
    marks(25, expires_at=1.0)
    marks(3, expires_at=time.time() + 3600)
    assert clean(ALIAS, batch=10) == 3
    assert count() == 3
    assert all(count(each) == 0 for each in KINDS if each is not MarkRow)


def test_a_call_inside_a_transaction_deletes_nothing() -> None:
    """It would hold locks until the transaction of the project ends."""
    store = Database(ALIAS)
    store._sweep_at = 0.0
    marks(3, expires_at=1.0)
    with transaction.atomic(ALIAS):
        store.call(lambda now: None)
    assert count() == 3
    store.call(lambda now: None)
    assert count() == 0


def test_cached_results_are_bounded() -> None:
    """Those that expire first go first."""
    store = Database(ALIAS, max_cache_bytes=10_000)
    cache = DjangoCache(store)

    async def fill() -> None:
        for number in range(15):
            await cache.put("g", str(number), bytes(1000), ttl_s=100 + number)
        await cache.put("g", "large", bytes(20_000), ttl_s=1000)

    anyio.run(fill)
    store.sweep(time.time())
    assert count(CacheRow) == 9
    assert anyio.run(cache.get, "g", "14") is not None
    assert anyio.run(cache.get, "g", "0") is None


def test_a_process_whose_clock_is_wrong_ends_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are those of the database."""
    anyio.run(lambda: DjangoBlobs(Database(ALIAS)).put("k", b"x", ttl_s=600))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7200)
    other = Database(ALIAS)
    assert anyio.run(DjangoBlobs(other).get, "k") == b"x"
    assert abs(other.call(lambda now: now) - real()) < 5


def test_a_connection_that_the_server_has_closed_is_opened_again(kind: str) -> None:
    """After an idle night, or a restart of the database."""
    if kind != "postgresql":
        pytest.skip("SQLite has no server")
    store = Database(ALIAS)
    store.call(lambda now: None)
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    other = connections.create_connection(ALIAS)
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    other.close()
    assert store.call(lambda now: store.rows(MarkRow).count()) == 0


def test_a_database_that_is_away_is_a_connection_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What callers of stores handle."""
    from django.db import OperationalError

    def refuse(*_: Any) -> Any:
        raise OperationalError("connection refused")

    store = Database(ALIAS)
    connections[ALIAS].close()
    monkeypatch.setattr(type(connections[ALIAS]), "get_new_connection", refuse)
    with pytest.raises(ConnectionError, match="'database' cannot be used: connection refused"):
        anyio.run(lambda: DjangoMarks(store).begin("k", ttl_s=1))


def test_a_full_or_readonly_database_says_so(kind: str) -> None:
    from ferrule.stores.errors import StoreNotWritable

    with connections[ALIAS].cursor() as cursor:
        cursor.execute("PRAGMA query_only=1" if kind == "sqlite" else "SET default_transaction_read_only = on")
    try:
        store = Database(ALIAS)
        store._sweep_at = float("inf")
        with pytest.raises(StoreNotWritable):
            store.call(lambda now: store.rows(MarkRow).create(key="k", expires_at=1.0, value=None))
    finally:
        connections[ALIAS].close()
