"""A Redis that is paused, killed, started again, or never there: no call hangs, and the next one works."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import pytest

from ferrule.stores.blobs import probe
from ferrule.stores.errors import StoreNotWritable
from ferrule.stores.marks import Mark
from ferrule.stores.redis.store import (
    RedisBlobs,
    RedisCache,
    RedisChannel,
    RedisEvents,
    RedisMarks,
    RedisRateLimits,
    RedisServer,
    RedisSessions,
    RedisTasks,
)
from ferrule.stores.store import open_store
from ferrule.stores.tasks import StoredTask
from tests.processes import free_port
from tests.stores.own_redis import KEEP, OwnRedis

pytestmark = pytest.mark.anyio


@pytest.fixture
def own(tmp_path: Path) -> Generator[OwnRedis]:
    redis = OwnRedis(tmp_path, *KEEP)
    yield redis
    redis.close()


async def test_a_pause_ends_calls_in_bounded_time_and_the_next_one_works(own: OwnRedis) -> None:
    """The connections stay open without responses; many concurrent calls wait no longer than one."""
    server = RedisServer(own.url, timeout_s=0.5)
    sessions = RedisSessions(server)
    await sessions.put("s", b"x", idle_s=60)
    own.pause()
    loop = asyncio.get_running_loop()
    began = loop.time()
    failed = await asyncio.gather(*(sessions.get("s", idle_s=60) for _ in range(200)), return_exceptions=True)
    took = loop.time() - began
    own.go_on()
    assert all(isinstance(error, TimeoutError) and "within 0.5 s" in str(error) for error in failed)
    assert took < 50  # one after another: 100 s
    # What is known to be away is asked more briefly, and as long again once it has answered.
    assert await sessions.get("s", idle_s=60) == b"x"
    await server.aclose()


async def test_a_restart_is_not_noticed_and_loses_nothing(own: OwnRedis) -> None:
    """Calls that come meanwhile wait for it; what Redis wrote down is there."""
    server = RedisServer(own.url, patience_s=20, timeout_s=30)
    sessions, marks = RedisSessions(server), RedisMarks(server)
    await sessions.put("s", b"x", idle_s=60)
    assert await marks.begin("k", ttl_s=60) == Mark("mine")
    own.kill()
    waiting = asyncio.create_task(sessions.get("s", idle_s=60))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await asyncio.to_thread(own.start)
    assert await waiting == b"x"
    assert await marks.begin("k", ttl_s=60) == Mark("running")
    await server.aclose()


async def test_one_that_stays_away_fails_at_once_until_it_is_back(tmp_path: Path) -> None:
    """Patience is for the first call: a thousand requests must not each wait for what is known."""
    port = free_port()
    server = RedisServer(f"redis://127.0.0.1:{port}", patience_s=0.3)
    sessions = RedisSessions(server)
    tries: list[int] = []
    loop = asyncio.get_running_loop()

    async def call(client: Any) -> bytes | None:
        tries.append(1)
        return await client.get("k")

    with pytest.raises(ConnectionError, match="cannot be reached"):
        await server.run(call)
    assert len(tries) > 1
    tries.clear()
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await server.run(call)
    assert len(tries) == 3
    own = OwnRedis(tmp_path, port=port)
    try:
        await sessions.put("s", b"x", idle_s=60)
        assert await sessions.get("s", idle_s=60) == b"x"
        own.kill()
        began = loop.time()
        with pytest.raises(ConnectionError):
            await sessions.get("s", idle_s=60)
        assert loop.time() - began >= 0.3  # patient again
    finally:
        own.close()
        await server.aclose()


async def test_a_listener_receives_messages_after_a_restart(own: OwnRedis) -> None:
    """Ready each time that it stands."""
    server = RedisServer(own.url)
    channel = RedisChannel(server)
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    ready: asyncio.Queue[None] = asyncio.Queue()
    task = asyncio.create_task(channel.listen(heard.put_nowait, lambda: ready.put_nowait(None)))
    async with asyncio.timeout(30):
        for word in (b"one", b"two"):
            await ready.get()
            await channel.send(word)
            assert await heard.get() == word
            if word == b"one":
                own.kill()
                await asyncio.to_thread(own.start)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.aclose()


async def test_a_script_whose_answer_was_lost_may_be_run_again(own: OwnRedis) -> None:
    """The claimer of a mark gets the same result again; other callers do not."""
    server = RedisServer(own.url)
    marks = RedisMarks(server)
    lost = [True]
    real = server.translated

    async def translated(call: Callable[[Any], Any]) -> Any:
        result = await real(call)
        if lost.pop() if lost else False:
            raise ConnectionError("the answer was lost")
        return result

    server.translated = translated  # type: ignore[method-assign]
    assert await marks.begin("k", ttl_s=60) == Mark("mine")
    assert lost == []
    assert await marks.begin("k", ttl_s=60) == Mark("running")
    await server.aclose()


async def test_a_connection_that_is_closed_while_it_is_used_is_one_that_is_lost(own: OwnRedis) -> None:
    """uvloop raises RuntimeError for it, where asyncio raises OSError; any other RuntimeError is not about Redis."""
    server = RedisServer(own.url)
    closed = [True]

    async def call(client: Any) -> Any:
        if closed.pop() if closed else False:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        return await client.ping()

    async def wrong(client: Any) -> None:
        raise RuntimeError("something else")

    assert await server.run(call)
    with pytest.raises(RuntimeError, match="something else"):
        await server.run(wrong)
    await server.aclose()


def calls_that_write(server: RedisServer) -> list[Callable[[], Any]]:
    """With commands and with scripts, inside which Redis words its errors differently."""
    task = StoredTask(task_id="t", owner="", created_at=0, expires_at=60, is_open=True, body=b"x")
    return [
        lambda: RedisSessions(server).put("new", b"x", idle_s=60),
        lambda: RedisMarks(server).begin("new", ttl_s=60),
        lambda: RedisTasks(server).add(task, lease_s=60, max_tasks=9, max_per_owner=9),
        lambda: RedisCache(server).put("g", "k", b"x", ttl_s=60),
        lambda: RedisEvents(server).append("s", "1", b"x"),
        lambda: RedisRateLimits(server).take("k", size=1, per_s=60),
        lambda: probe(RedisBlobs(server)),
    ]


async def test_a_full_server_raises_at_once_and_can_be_read(own: OwnRedis) -> None:
    """``maxmemory`` without eviction: an error that callers know, with Redis's own words; waiting would not help."""
    server = RedisServer(own.url, patience_s=1000, timeout_s=1000)
    await server.client.config_set("maxmemory", "1mb")
    sessions = RedisSessions(server)

    async def fill() -> None:
        for number in range(20):
            await sessions.put(f"s{number}", b"x" * 100_000, idle_s=60)

    with pytest.raises(ConnectionError, match="maxmemory"):
        await fill()
    await server.client.config_set("maxmemory", "1")  # the buffers of what was refused gave back some room
    for write in calls_that_write(server):
        with pytest.raises(StoreNotWritable, match=r"cannot be written to.*maxmemory"):
            await write()
    assert await RedisBlobs(server).get("k") is None
    await server.client.config_set("maxmemory", "0")
    for write in calls_that_write(server):
        await write()
    await server.aclose()


async def test_a_server_without_enough_replicas_raises_at_once(own: OwnRedis) -> None:
    server = RedisServer(own.url, patience_s=1000, timeout_s=1000)
    await server.client.config_set("min-replicas-to-write", "1")
    for write in calls_that_write(server):
        with pytest.raises(StoreNotWritable, match=r"NOREPLICAS|[Nn]ot enough good replicas"):
            await write()
    await server.aclose()


async def test_a_replica_is_retried_and_then_an_error(own: OwnRedis) -> None:
    """A failover takes a moment; without one the wait ends with an error."""
    server = RedisServer(own.url, patience_s=0)
    await server.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    for write in calls_that_write(server):
        with pytest.raises(StoreNotWritable, match="read only replica"):
            await write()
    patient = RedisServer(own.url, patience_s=1000, timeout_s=1000)
    waiting = asyncio.create_task(RedisMarks(patient).begin("k", ttl_s=60))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await server.client.execute_command("REPLICAOF", "NO", "ONE")
    assert (await waiting).state == "mine"
    await patient.aclose()
    await server.aclose()


def test_another_event_loop_gets_its_own_connections(own: OwnRedis) -> None:
    """A connection belongs to a loop."""
    server = RedisServer(own.url)
    rates = RedisRateLimits(server)

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
sys.modules["redis"] = None
from ferrule import MCPServer
MCPServer("x", store="redis://localhost")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'ferrule[redis]'" in done.stderr.strip().splitlines()[-1]


async def test_a_server_closes_the_store_it_opened_with_its_last_lifespan(redis_url: str) -> None:
    """An open connection at the end of a process is a warning, and one too many for Redis until it notices."""
    from ferrule import Client, MCPServer

    app = MCPServer("x", store=f"{redis_url}?prefix=lives-{secrets.token_hex(6)}")
    app.tool(name="one")(lambda: 1)
    assert app.store is not None
    server = cast("RedisMarks", app.store.marks)._server
    for _ in range(2):
        async with Client(app) as one:
            async with Client(app) as other:
                await app.store.marks.begin("k", ttl_s=60)
                assert [tool.name for tool in await other.list_tools()] == ["one"]
            assert server._clients is not None  # the first is still at work
            assert [tool.name for tool in await one.list_tools()] == ["one"]
        assert server._clients is None


async def test_a_store_that_was_given_is_left_to_its_maker(redis_url: str) -> None:
    """Others may be using it."""
    from ferrule import Client, MCPServer

    store = open_store(f"{redis_url}?prefix=given-{secrets.token_hex(6)}")
    async with Client(MCPServer("x", store=store)):
        await store.marks.begin("k", ttl_s=60)
    assert cast("RedisMarks", store.marks)._server._clients is not None
    await store.aclose()
    assert cast("RedisMarks", store.marks)._server._clients is None


@pytest.mark.parametrize("pause_s", [0, 0.01, 0.25])
async def test_a_listener_whose_connections_were_closed_can_be_cancelled(redis_url: str, pause_s: float) -> None:
    """Or the process of a server would not end: its loop waits for the listener."""
    server = RedisServer(redis_url)
    ready = asyncio.Event()
    listening = asyncio.create_task(RedisChannel(server).listen(lambda _: None, ready.set))
    async with asyncio.timeout(30):
        await ready.wait()
        await server.aclose()
        await asyncio.sleep(pause_s)
        listening.cancel()
        await asyncio.wait([listening])
    assert listening.cancelled() or listening.done()
    await server.aclose()
