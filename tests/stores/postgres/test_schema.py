"""The tables are made once, whichever process begins, and keep nothing that has expired."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator

import pytest

from ferrule.stores.postgres import schema as schema_module
from ferrule.stores.postgres.schema import MIGRATIONS, advisory_key
from ferrule.stores.postgres.store import (
    PostgresBlobs,
    PostgresCache,
    PostgresMarks,
    PostgresRateLimits,
    PostgresServer,
    PostgresTasks,
)
from ferrule.stores.tasks import StoredTask, TooManyTasks
from tests.stores.turned_postgres import TurnedPostgres
from tests.stores.turned_redis import Clock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(postgres_url: str) -> AsyncGenerator[PostgresServer]:
    made = PostgresServer(postgres_url, schema=f"test_{secrets.token_hex(6)}")
    yield made
    await made.value(made.sql("DROP SCHEMA IF EXISTS {schema} CASCADE"))
    await made.aclose()


@pytest.fixture
async def turned(postgres_url: str) -> AsyncGenerator[TurnedPostgres]:
    made = TurnedPostgres(postgres_url, Clock())
    await made.open()
    yield made
    await made.drop()


PROGRAM = """
import asyncio, sys
from ferrule.stores.store import open_store

async def main():
    store = open_store(sys.argv[1])
    print((await store.marks.begin("k", ttl_s=600)).state)
    await store.aclose()

asyncio.run(main())
"""


async def test_processes_that_begin_together_make_the_tables_once(postgres_url: str, server: PostgresServer) -> None:
    """The others wait for the first one; one of them claims the mark."""
    url = f"{postgres_url}?schema={server.schema}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = [await asyncio.to_thread(process.communicate) for process in processes]
    assert sorted(out.strip() for out, _ in said) == ["mine", "running", "running", "running"], said
    assert await server.value(server.sql("SELECT version FROM {schema}.meta")) == len(MIGRATIONS)


async def test_tasks_of_one_process_that_begin_together_make_the_tables_once(server: PostgresServer) -> None:
    """On several connections."""
    marks = PostgresMarks(server)
    states = await asyncio.gather(*(marks.begin("k", ttl_s=60) for _ in range(20)))
    assert sorted(mark.state for mark in states) == ["mine", *["running"] * 19]


async def test_an_older_version_is_brought_to_this_one(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is missing is run, and what is there is kept."""
    await PostgresBlobs(server).put("k", b"x", ttl_s=60)
    added = "CREATE TABLE {schema}.added (number integer)"
    monkeypatch.setattr(schema_module, "MIGRATIONS", (*MIGRATIONS, added))
    newer = PostgresServer(server.url, schema=server.schema)
    assert await PostgresBlobs(newer).get("k") == b"x"
    assert await newer.value(newer.sql("SELECT count(*) FROM {schema}.added")) == 0
    assert await newer.value(newer.sql("SELECT version FROM {schema}.meta")) == len(MIGRATIONS) + 1
    await newer.aclose()
    monkeypatch.undo()
    # And a process of the older release works on.
    older = PostgresServer(server.url, schema=server.schema)
    assert await PostgresBlobs(older).get("k") == b"x"
    await older.aclose()


async def test_large_buckets_work_in_tables_of_the_first_version(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its function for tokens knows no more than 2^31; older processes still find it."""
    monkeypatch.setattr(schema_module, "MIGRATIONS", MIGRATIONS[:1])
    await PostgresBlobs(server).put("k", b"x", ttl_s=60)
    monkeypatch.undo()
    newer = PostgresServer(server.url, schema=server.schema)
    assert await PostgresRateLimits(newer).take("k", size=2**40, per_s=60) == 0
    await newer.aclose()
    older = server.sql("SELECT {schema}.take_tokens($1, $2, $3, $4, $5)")
    assert await server.value(older, b"k", 3, 60.0, 1, False) == 0


async def test_a_migration_that_fails_leaves_nothing(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one transaction."""
    monkeypatch.setattr(schema_module, "MIGRATIONS", ("CREATE TABLE {schema}.one (); CREATE TABLE {schema}.one ()",))
    with pytest.raises(Exception, match="already exists"):
        await PostgresBlobs(server).get("k")
    assert await server_schemas(server) == 0


async def server_schemas(server: PostgresServer) -> int:
    connection = await server.connect()
    try:
        return await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", server.schema)
    finally:
        await connection.close()


async def test_a_schema_that_an_operator_made_is_used(postgres_url: str, server: PostgresServer) -> None:
    """For a user who may not make schemas, and owns this one."""
    user = f"user_{secrets.token_hex(4)}"
    admin = await server.connect()
    await admin.execute(f"CREATE USER {user}; CREATE SCHEMA {server.schema} AUTHORIZATION {user}")
    own = PostgresServer(postgres_url.replace("postgres@", f"{user}@"), schema=server.schema)
    await PostgresBlobs(own).put("k", b"x", ttl_s=60)
    assert await PostgresBlobs(own).get("k") == b"x"
    await own.aclose()
    await admin.execute(f"DROP OWNED BY {user}; DROP USER {user}")
    await admin.close()


async def test_a_sweep_deletes_a_bounded_number_at_a_time(turned: TurnedPostgres) -> None:
    """So no transaction is long, however many rows have expired; those that live stay."""
    blobs = PostgresBlobs(turned)
    for number in range(7):
        await blobs.put(f"k{number}", b"x", ttl_s=10)
    await blobs.put("stays", b"x", ttl_s=1000)
    turned.clock.now_s += 100
    await turned.pass_time(100)
    left = turned.sql("SELECT count(*) FROM {schema}.blobs")
    assert await turned.sweep(batch=3)
    assert await turned.value(left) == 5
    assert await turned.sweep(batch=3)
    assert not await turned.sweep(batch=3)
    assert await turned.value(left) == 1
    assert await blobs.get("stays") == b"x"


async def test_one_process_sweeps_for_all(turned: TurnedPostgres) -> None:
    """The others need not look again in the same minute."""
    await PostgresBlobs(turned).put("k", b"x", ttl_s=10)
    turned.clock.now_s += 100
    await turned.pass_time(100)
    await turned.sweep(every_s=30)
    await PostgresBlobs(turned).put("k", b"x", ttl_s=10)
    turned.clock.now_s += 20
    await turned.pass_time(20)
    left = turned.sql("SELECT count(*) FROM {schema}.blobs")
    await turned.sweep(every_s=30)
    assert await turned.value(left) == 1
    turned.clock.now_s += 20
    await turned.pass_time(20)
    await turned.sweep(every_s=30)
    assert await turned.value(left) == 0


async def test_the_size_of_the_cache_is_bounded(turned: TurnedPostgres) -> None:
    """What expires first goes first; a value that is too large is not kept."""
    turned.max_cache_bytes = 10_000
    cache = PostgresCache(turned)
    for number in range(20):
        await cache.put("g", f"k{number:02}", b"x" * 997, ttl_s=100 + number)
    while await turned.sweep(batch=3):
        pass
    kept = [number for number in range(20) if await cache.get("g", f"k{number:02}") is not None]
    assert kept == list(range(11, 20))  # each has 1,001 bytes
    await cache.put("g", "k19", b"x" * 10_000, ttl_s=100)
    assert await cache.get("g", "k19") is None


async def test_bounds_of_tasks_hold_for_callers_at_the_same_moment(server: PostgresServer) -> None:
    """Records are counted and added by one transaction at a time."""
    tasks = PostgresTasks(server)

    async def add(number: int) -> str:
        owner = f"o{number % 5}"
        task = StoredTask(
            task_id=f"t{number}", owner=owner, created_at=0, expires_at=60, is_open=True, body=b"x" * number
        )
        try:
            await tasks.add(task, lease_s=60, max_tasks=12, max_per_owner=3)
        except TooManyTasks as error:
            return "owner" if error.owner else "all"
        return "added"

    outcomes = await asyncio.gather(*(add(number) for number in range(60)))
    assert outcomes.count("added") == 12
    assert await server.value(server.sql("SELECT count(*) FROM {schema}.tasks")) == 12
    most = server.sql("SELECT max(tasks)::int FROM {schema}.task_counts WHERE owner_key <> ''")
    assert await server.value(most) <= 3


async def test_rows_that_an_operator_deletes_are_no_longer_counted(server: PostgresServer) -> None:
    """By triggers, and not by the functions that add."""
    tasks = PostgresTasks(server)

    async def add(task_id: str) -> None:
        task = StoredTask(task_id=task_id, owner="ann", created_at=0, expires_at=60, is_open=True, body=b"x")
        await tasks.add(task, lease_s=60, max_tasks=1, max_per_owner=1)

    await add("one")
    with pytest.raises(TooManyTasks):
        await add("two")
    await server.value(server.sql("DELETE FROM {schema}.tasks"))
    await add("two")


async def test_no_id_can_be_read_from_the_tables_of_sessions(server: PostgresServer) -> None:
    """Who can read the database cannot continue a session."""
    from ferrule.stores.postgres.store import PostgresEvents, PostgresSessions

    await PostgresSessions(server).put("the-session-id", b"facts", idle_s=60)
    await PostgresEvents(server).append("the-session-id", "1", b"data")
    for table in ("sessions", "events"):
        rows = await server.rows(server.sql(f"SELECT row.*::text FROM {{schema}}.{table} AS row"))
        assert rows
        assert b"the-session-id".hex() not in str(rows)


def test_locks_of_two_schemas_are_two() -> None:
    """And a lock is a number of 64 bits."""
    one, other = advisory_key(b"one"), advisory_key(b"other")
    assert one != other
    assert advisory_key(b"one", b"s") != one
    assert -(2**63) <= one < 2**63
