"""A PostgreSQL that is paused, killed, started again, or never there: no call hangs, and the next one works."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import Any, cast

import asyncpg
import pytest

from ferrule.stores.blobs import probe
from ferrule.stores.errors import StoreNotWritable
from ferrule.stores.marks import Mark
from ferrule.stores.postgres.store import (
    PostgresBlobs,
    PostgresCache,
    PostgresEvents,
    PostgresMarks,
    PostgresRateLimits,
    PostgresServer,
    PostgresSessions,
    PostgresTasks,
)
from ferrule.stores.store import open_store
from ferrule.stores.tasks import StoredTask
from tests.processes import free_port
from tests.stores.own_postgres import OwnPostgres

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def lasting() -> Generator[OwnPostgres]:
    """One for all tests of this file, which leave it running."""
    postgres = OwnPostgres("max_connections=30")
    yield postgres
    postgres.close()


@pytest.fixture
def own(lasting: OwnPostgres) -> OwnPostgres:
    return lasting


@pytest.fixture
async def make(own: OwnPostgres) -> AsyncGenerator[Callable[..., PostgresServer]]:
    """Stores of this test in one new schema, which are closed at its end."""
    schema = f"test_{secrets.token_hex(6)}"
    made: list[PostgresServer] = []

    def new(url: str = own.url, **options: Any) -> PostgresServer:
        made.append(PostgresServer(url, schema=schema, **options))
        return made[-1]

    yield new
    for server in made:
        await server.aclose()


async def test_a_pause_ends_calls_in_bounded_time_and_the_next_one_works(own: OwnPostgres, make: Any) -> None:
    """The connections stay open without responses; many concurrent calls wait no longer than one."""
    server = make(timeout_s=0.5)
    sessions = PostgresSessions(server)
    await sessions.put("s", b"x", idle_s=60)
    own.pause()
    loop = asyncio.get_running_loop()
    began = loop.time()
    failed = await asyncio.gather(*(sessions.get("s", idle_s=60) for _ in range(200)), return_exceptions=True)
    took = loop.time() - began
    own.go_on()
    assert all(isinstance(error, TimeoutError) and "within 0.5 s" in str(error) for error in failed), failed[:3]
    assert took < 50  # one after another: 100 s
    assert await sessions.get("s", idle_s=60) == b"x"


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_restart_is_not_noticed_and_loses_nothing(own: OwnPostgres, make: Any, how: str) -> None:
    """Calls that come meanwhile wait for it; what was written is there, or a session is written again."""
    server = make(patience_s=60, timeout_s=60)
    blobs, marks = PostgresBlobs(server), PostgresMarks(server)
    await blobs.put("s", b"x", ttl_s=600)
    assert await marks.begin("k", ttl_s=600) == Mark("mine")
    getattr(own, how)()
    waiting = asyncio.create_task(blobs.get("s"))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await asyncio.to_thread(own.start)
    assert await waiting == b"x"
    assert await marks.begin("k", ttl_s=60) == Mark("running")


async def test_one_that_stays_away_fails_at_once_until_it_is_back(make: Any) -> None:
    """Patience is for the first call: a thousand requests must not each wait for what is known."""
    port = free_port()
    server = make(f"postgresql://postgres@127.0.0.1:{port}/postgres", patience_s=0.3)
    blobs = PostgresBlobs(server)
    tries: list[int] = []
    connect = server.translated

    async def counted(call: Callable[[Any], Any]) -> Any:
        tries.append(1)
        return await connect(call)

    server.translated = counted
    with pytest.raises(ConnectionError, match="cannot be reached"):
        await blobs.get("k")
    assert len(tries) > 1
    tries.clear()
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await blobs.get("k")
    assert len(tries) == 3
    other = OwnPostgres(port=port)
    try:
        await blobs.put("s", b"x", ttl_s=60)
        assert await blobs.get("s") == b"x"
        other.kill()
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(ConnectionError):
            await blobs.get("s")
        assert loop.time() - began >= 0.3  # patient again
    finally:
        other.close()


async def test_a_statement_whose_answer_was_lost_may_be_run_again(make: Any) -> None:
    """The claimer of a mark gets the same result again; other callers do not."""
    server = make()
    marks = PostgresMarks(server)
    lost = [True]
    real = server.translated

    async def translated(call: Callable[[Any], Any]) -> Any:
        result = await real(call)
        if lost.pop() if lost else False:
            raise ConnectionError("the answer was lost")
        return result

    server.translated = translated
    assert await marks.begin("k", ttl_s=60) == Mark("mine")
    assert lost == []
    assert await marks.begin("k", ttl_s=60) == Mark("running")


async def test_a_connection_that_is_closed_while_it_is_used_is_one_that_is_lost(make: Any) -> None:
    """By PostgreSQL, or by uvloop, which raises RuntimeError for it; any other RuntimeError is not about the store."""
    server = make()
    closed = [True]

    async def call(connection: Any) -> Any:
        if closed.pop() if closed else False:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        return await connection.fetchval("SELECT 1")

    async def wrong(connection: Any) -> None:
        raise RuntimeError("something else")

    assert await server.run(call) == 1
    with pytest.raises(RuntimeError, match="something else"):
        await server.run(wrong)
    ended = [True]

    async def end(connection: Any) -> Any:
        if ended.pop() if ended else False:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return await connection.fetchval("SELECT 2")

    assert await server.run(end) == 2


async def test_a_connection_that_is_lost_between_two_messages_is_one_that_is_lost(make: Any) -> None:
    """asyncpg says that it is in a wrong state: seen when PostgreSQL was killed between preparing and running."""
    server = make()
    lost = [True]

    async def call(connection: Any) -> Any:
        if lost.pop() if lost else False:
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
        return await connection.fetchval("SELECT 1")

    assert await server.run(call) == 1
    patient = make(patience_s=0)
    lost.append(True)
    with pytest.raises(ConnectionError, match="cannot switch to state 12"):
        await patient.run(call)


async def test_the_connection_of_a_cancelled_call_is_not_used_again(make: Any) -> None:
    """Its statement may still run: the next call must not get its answer."""
    server = make(connections=1)
    await server.value("SELECT 1")
    sleeping = asyncio.create_task(server.value("SELECT pg_sleep(1000)"))
    await asyncio.sleep(0.1)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert await server.value("SELECT 2") == 2


async def test_a_fault_of_a_statement_is_raised_as_it_is(make: Any) -> None:
    """It is a fault of ours, which waiting does not mend."""
    server = make(patience_s=1000, timeout_s=1000)
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await server.value("SELECT FROM WHERE")
    with pytest.raises(asyncpg.DataError):
        await server.value("SELECT $1::int", "text")


def calls_that_write(server: PostgresServer) -> list[Callable[[], Any]]:
    """With statements and with functions of the schema."""
    task = StoredTask(task_id="t", owner="", created_at=0, expires_at=60, is_open=True, body=b"x")
    return [
        lambda: PostgresSessions(server).put("new", b"x", idle_s=60),
        lambda: PostgresMarks(server).begin("new", ttl_s=60),
        lambda: PostgresTasks(server).add(task, lease_s=60, max_tasks=9, max_per_owner=9),
        lambda: PostgresCache(server).put("g", "k", b"x", ttl_s=60),
        lambda: PostgresEvents(server).append("s", "1", b"x"),
        lambda: PostgresRateLimits(server).take("k", size=1, per_s=60),
        lambda: probe(PostgresBlobs(server)),
    ]


async def test_a_server_that_may_only_be_read_is_retried_and_then_an_error(own: OwnPostgres, make: Any) -> None:
    """As a standby is, until a fail-over makes it, or another one, the primary."""
    server = make(patience_s=0)
    await PostgresBlobs(server).put("k", b"x", ttl_s=600)
    admin = await asyncpg.connect(own.url)
    try:
        await admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await admin.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(30):
            while await admin.fetchval("SHOW default_transaction_read_only") != "on":
                await asyncio.sleep(0.01)
            with suppress(StoreNotWritable):
                while True:  # each connection of PostgreSQL reads its settings again in its own time
                    await PostgresBlobs(server).put("k", b"x", ttl_s=600)
        for write in calls_that_write(server):
            with pytest.raises(StoreNotWritable, match="read-only transaction"):
                await write()
        assert await PostgresBlobs(server).get("k") == b"x"
        patient = make(patience_s=1000, timeout_s=1000)
        waiting = asyncio.create_task(PostgresMarks(patient).begin("k", ttl_s=60))
        await asyncio.sleep(0.3)
        assert not waiting.done()
    finally:
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await admin.execute("SELECT pg_reload_conf()")
        await admin.close()
    assert (await waiting).state == "mine"
    for write in calls_that_write(server):
        await write()


async def test_a_full_disk_is_an_error_at_once_and_can_be_read(make: Any) -> None:
    """PostgreSQL's code for it; waiting would not help."""
    server = make(patience_s=1000, timeout_s=1000)
    await PostgresBlobs(server).put("k", b"x", ttl_s=600)
    await server.value(
        server.sql(
            "CREATE FUNCTION {schema}.fill() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
        )
    )
    await server.value(
        server.sql("CREATE TRIGGER fill BEFORE INSERT ON {schema}.blobs EXECUTE FUNCTION {schema}.fill()")
    )
    with pytest.raises(StoreNotWritable, match="could not extend file"):
        await PostgresBlobs(server).put("k", b"y", ttl_s=600)
    assert await PostgresBlobs(server).get("k") == b"x"


async def test_a_user_without_rights_gets_an_error_at_once(own: OwnPostgres, make: Any) -> None:
    """The tables cannot be made: an operator must act."""
    user = f"user_{secrets.token_hex(4)}"
    await make().value(f"CREATE USER {user}")
    server = PostgresServer(own.url.replace("postgres@", f"{user}@"), schema="no_right", patience_s=1000)
    with pytest.raises(StoreNotWritable, match="permission denied"):
        await PostgresBlobs(server).get("k")
    await server.aclose()
    missing = make(own.url.removesuffix("postgres") + "nothing", patience_s=1000)
    with pytest.raises(StoreNotWritable, match='database "nothing" does not exist'):
        await PostgresBlobs(missing).get("k")


async def test_tables_that_were_dropped_are_made_again(make: Any) -> None:
    """As after the recovery of an older backup."""
    server = make()
    blobs = PostgresBlobs(server)
    await blobs.put("k", b"x", ttl_s=60)
    await server.value(server.sql("DROP SCHEMA {schema} CASCADE"))
    assert await blobs.get("k") is None
    await blobs.put("k", b"y", ttl_s=60)
    assert await blobs.get("k") == b"y"


async def test_a_process_uses_no_more_connections_than_it_may(own: OwnPostgres, make: Any) -> None:
    """Calls wait for one another, and not PostgreSQL for a hundred processes."""
    server = make(connections=3)
    blobs = PostgresBlobs(server)
    await asyncio.gather(*(blobs.put(f"k{number}", b"x", ttl_s=60) for number in range(200)))
    used: int = await server.value(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE $1", f"%{server.schema}.blobs%"
    )
    assert 1 < used <= 3


async def test_a_pooler_without_prepared_statements_can_be_used(make: Any) -> None:
    """``statement_cache_size=0`` in the URL: no statement outlasts its transaction."""
    server = make(connections=1, statement_cache_size=0)
    blobs = PostgresBlobs(server)
    for _ in range(3):
        await blobs.put("k", b"x", ttl_s=60)
    assert await server.value("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%.blobs%'") == 0


def test_another_event_loop_gets_its_own_connections(own: OwnPostgres) -> None:
    """A connection belongs to a loop."""
    server = PostgresServer(own.url, schema=f"test_{secrets.token_hex(6)}")
    rates = PostgresRateLimits(server)

    async def take() -> float:
        try:
            return await rates.take("k", size=2, per_s=600)
        finally:
            await server.aclose()

    assert asyncio.run(take()) == 0
    assert asyncio.run(take()) == 0
    assert asyncio.run(take()) > 0


def test_a_missing_client_raises_with_the_package_to_install() -> None:
    """When the server is made, and not at its first request."""
    program = """
import sys
sys.modules["asyncpg"] = None
from ferrule import MCPServer
MCPServer("x", store="postgresql://localhost/x")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'ferrule[postgres]'" in done.stderr.strip().splitlines()[-1]


async def test_a_server_closes_the_store_it_opened_with_its_last_lifespan(postgres_url: str) -> None:
    """An open connection at the end of a process is a warning, and a process of PostgreSQL until it notices."""
    from ferrule import Client, MCPServer

    app = MCPServer("x", store=f"{postgres_url}?schema=lives_{secrets.token_hex(6)}")
    app.tool(name="one")(lambda: 1)
    assert app.store is not None
    server = cast("PostgresMarks", app.store.marks)._server
    for _ in range(2):
        async with Client(app) as one:
            async with Client(app) as other:
                await app.store.marks.begin("k", ttl_s=60)
                assert [tool.name for tool in await other.list_tools()] == ["one"]
            assert server._pool is not None  # the first is still at work
            assert [tool.name for tool in await one.list_tools()] == ["one"]
        assert server._pool is None
    await server.value(server.sql("DROP SCHEMA {schema} CASCADE"))
    await server.aclose()


async def test_a_store_that_was_given_is_left_to_its_maker(postgres_url: str) -> None:
    """Others may be using it."""
    from ferrule import Client, MCPServer

    store = open_store(f"{postgres_url}?schema=given_{secrets.token_hex(6)}")
    async with Client(MCPServer("x", store=store)):
        await store.marks.begin("k", ttl_s=60)
    server = cast("PostgresMarks", store.marks)._server
    assert server._pool is not None
    await server.value(server.sql("DROP SCHEMA {schema} CASCADE"))
    await store.aclose()
    assert server._pool is None
