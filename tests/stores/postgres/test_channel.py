"""Messages between processes by ``LISTEN`` and ``NOTIFY``: after what is lost, after what comes late, and without."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule.stores.postgres import channel as channel_module
from ferrule.stores.postgres.store import PostgresChannel, PostgresServer
from tests.stores.own_postgres import OwnPostgres

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(postgres_url: str) -> AsyncGenerator[PostgresServer]:
    made = PostgresServer(postgres_url, schema=f"test_{secrets.token_hex(6)}", timeout_s=30)
    yield made
    await made.value(made.sql("DROP SCHEMA IF EXISTS {schema} CASCADE"))
    await made.aclose()


class Listening:
    """What a listener heard, and each time that it was ready."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.ready: asyncio.Queue[None] = asyncio.Queue()


@asynccontextmanager
async def listening(channel: PostgresChannel) -> AsyncGenerator[Listening]:
    found = Listening()
    task = asyncio.create_task(channel.listen(found.heard.put_nowait, lambda: found.ready.put_nowait(None)))
    try:
        async with asyncio.timeout(120):
            await found.ready.get()
            yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def end_listeners(server: PostgresServer) -> None:
    """As a broken network would."""
    ended = await server.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE $1",
        f"%{server.schema}.messages%",
    )
    assert ended


async def test_a_listener_receives_messages_after_a_restart() -> None:
    """Ready each time that it stands."""
    own = OwnPostgres()
    server = PostgresServer(own.url)
    try:
        channel = PostgresChannel(server)
        async with listening(channel) as found:
            await channel.send(b"one")
            assert await found.heard.get() == b"one"
            for how in ("kill", "stop"):
                getattr(own, how)()
                await asyncio.to_thread(own.start)
                await found.ready.get()
                await channel.send(how.encode())
                assert await found.heard.get() == how.encode()
    finally:
        await server.aclose()
        own.close()


async def test_what_was_sent_while_a_connection_was_lost_arrives_once(server: PostgresServer) -> None:
    """If the server itself goes on; also what is written to it in the same moment."""
    channel = PostgresChannel(server)
    other = PostgresServer(server.url, schema=server.schema)
    try:
        async with listening(channel) as found:
            await channel.send(b"0")
            assert await found.heard.get() == b"0"
            await end_listeners(other)
            for number in range(1, 20):
                await PostgresChannel(other).send(b"%d" % number)
            await found.ready.get()
            await channel.send(b"last")
            assert [await found.heard.get() for _ in range(20)] == [*(b"%d" % n for n in range(1, 20)), b"last"]
            assert found.heard.empty()
    finally:
        await other.aclose()


async def test_large_messages_and_many_at_once_arrive_in_order(server: PostgresServer) -> None:
    """A notification has 8,000 bytes at most, and a read 256 rows."""
    channel = PostgresChannel(server)
    async with listening(channel) as found:
        sent = [b"%d " % number + b"x" * 20_000 for number in range(3)] + [b"%d" % number for number in range(600)]
        for message in sent:
            await channel.send(message)
        assert [await found.heard.get() for _ in sent] == sent


async def test_messages_whose_numbers_become_visible_late_arrive(server: PostgresServer) -> None:
    """A transaction that began first may commit last: after a lost connection such a number is asked for again."""
    channel = PostgresChannel(server)
    async with listening(channel) as found:
        late = await server.connect()
        transaction = late.transaction()
        await transaction.start()
        await late.fetch(channel._send, 60.0, b"late", channel._name)
        await channel.send(b"early")
        assert await found.heard.get() == b"early"
        await end_listeners_but(server, late)
        await transaction.commit()
        await found.ready.get()
        assert await found.heard.get() == b"late"
        await late.close()
        assert found.heard.empty()


async def end_listeners_but(server: PostgresServer, kept: Any) -> None:
    pid = await kept.fetchval("SELECT pg_backend_pid()")
    await server.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND pid <> $2 AND query LIKE $1",
        f"%{server.schema}.messages%",
        pid,
    )


async def test_a_forged_notification_is_nothing(server: PostgresServer) -> None:
    """Every user of the database can send one."""
    channel = PostgresChannel(server)
    async with listening(channel) as found:
        for payload in ("x", "-1", "9" * 30, "12345678", "\u0661", "1 OR 1=1"):
            await server.value("SELECT pg_notify($1, $2)", channel._name, payload)
        await channel.send(b"true")
        assert await found.heard.get() == b"true"


async def test_a_listener_without_messages_sends_nothing(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not poll; only after a quiet time it asks whether the connection stands."""
    asked: list[str] = []
    fetch: Callable[..., Awaitable[list[Any]]] = PostgresChannel._fetch

    async def noted(self: PostgresChannel, connection: Any, statement: str, *values: Any) -> list[Any]:
        asked.append(statement)
        return await fetch(self, connection, statement, *values)

    monkeypatch.setattr(PostgresChannel, "_fetch", noted)
    channel = PostgresChannel(server)
    async with listening(channel):
        await asyncio.sleep(3 * channel_module._POLL_S)
    assert asked == []
    monkeypatch.setattr(channel_module, "_QUIET_S", 0.1)
    async with listening(channel):
        while len(asked) < 2:
            await asyncio.sleep(0.02)
    assert set(asked) == {"SELECT 1"}


async def test_a_connection_that_does_not_answer_is_opened_again(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall that forgot it."""
    monkeypatch.setattr(channel_module, "_QUIET_S", 0.1)
    fetch: Callable[..., Awaitable[list[Any]]] = PostgresChannel._fetch
    lost = [True]

    async def silent(self: PostgresChannel, connection: Any, statement: str, *values: Any) -> list[Any]:
        if statement == "SELECT 1" and lost and lost.pop():
            raise TimeoutError
        return await fetch(self, connection, statement, *values)

    monkeypatch.setattr(PostgresChannel, "_fetch", silent)
    channel = PostgresChannel(server)
    async with listening(channel) as found:
        await found.ready.get()
        await channel.send(b"x")
        assert await found.heard.get() == b"x"


class BehindPooler(PostgresChannel):
    """Each transaction has another connection: no listener is notified."""

    async def _subscribe(self, connection: Any, on_notify: Callable[..., None]) -> None:
        await connection.execute("LISTEN nothing")


async def test_a_pooler_that_passes_no_notifications_on_is_noticed(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and messages arrive by looking for them."""
    server = PostgresServer(postgres_url, schema=f"test_{secrets.token_hex(6)}", timeout_s=0.5)
    channel = BehindPooler(server)
    with caplog.at_level(logging.WARNING):
        async with listening(channel) as found:
            sent = [b"%d" % number for number in range(5)]
            for message in sent:
                await channel.send(message)
            assert [await found.heard.get() for _ in sent] == sent
            await asyncio.sleep(2 * channel_module._POLL_S)
            assert found.heard.empty()
    assert [record.message for record in caplog.records if "PgBouncer" in record.message] != []
    await server.value(server.sql("DROP SCHEMA {schema} CASCADE"))
    await server.aclose()


@pytest.mark.parametrize("pause_s", [0, 0.01, 0.25])
async def test_a_listener_whose_connections_were_closed_can_be_cancelled(
    server: PostgresServer, pause_s: float
) -> None:
    """Or the process of a server would not end: its loop waits for the listener."""
    ready = asyncio.Event()
    task = asyncio.create_task(PostgresChannel(server).listen(lambda _: None, ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
        await server.aclose()
        await asyncio.sleep(pause_s)
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()


async def test_too_many_notifications_are_a_gap(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener opens its connection again, which tells its user, and reads on from there."""
    monkeypatch.setattr(channel_module, "_MOST_WAITING", 3)
    channel = PostgresChannel(server)
    async with listening(channel) as found:
        await server.value(
            "SELECT count(pg_notify($1, number::text)) FROM generate_series(1000, 1099) AS number", channel._name
        )
        await found.ready.get()
        await channel.send(b"x")
        assert await found.heard.get() == b"x"


class Unreachable(PostgresServer):
    """A server to which no connection can be made."""

    def __init__(self) -> None:
        super().__init__("postgresql://127.0.0.1:1/none")
        self.attempts = asyncio.Semaphore(0)

    async def run(self, call: Any) -> Any:
        self.attempts.release()
        raise ConnectionError("no way")


async def test_an_unreachable_server_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not five times a second."""
    monkeypatch.setattr(channel_module, "_RETRY_S", 0)
    server = Unreachable()
    with caplog.at_level(logging.DEBUG, "ferrule.stores"):
        listener = asyncio.create_task(PostgresChannel(server).listen(lambda message: None))
        for _ in range(5):
            await server.attempts.acquire()
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
    assert [record.message for record in caplog.records if "no way" in record.message] == [
        "Messages of other processes cannot be read; trying again: no way"
    ]
