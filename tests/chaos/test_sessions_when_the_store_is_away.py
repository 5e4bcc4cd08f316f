"""Legacy sessions on two processes whose store is paused, started again, or emptied: nothing hangs, none is lost."""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.chaos.test_sessions_across_workers import Server, events, two_on
from tests.stores.own_postgres import OwnPostgres
from tests.stores.own_redis import KEEP, OwnRedis


@pytest.fixture
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[OwnRedis]:
    server = OwnRedis(tmp_path, *getattr(request, "param", KEEP))
    yield server
    server.close()


@pytest.fixture
def two(redis: OwnRedis, tmp_path: Path) -> Generator[tuple[Server, Server]]:
    yield from two_on(redis.url, tmp_path)


@pytest.fixture
def two_on_own(own_server: OwnRedis | OwnPostgres, tmp_path: Path) -> Generator[tuple[Server, Server]]:
    yield from two_on(own_server.url, tmp_path)


def ping(server: Server, session: str) -> tuple[int, Any]:
    """Status and body of an answer."""
    status, _, answer = server.send(session, {"jsonrpc": "2.0", "id": 9, "method": "ping"})
    return status, answer


def open_session(server: Server) -> int:
    """The status of an ``initialize``."""
    client = {"name": "x", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    return server.send(None, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})[0]


def test_a_pause_is_an_error_in_bounded_time_and_costs_no_stream_its_answer(
    own_server: OwnRedis | OwnPostgres, two_on_own: tuple[Server, Server]
) -> None:
    """All clients get the reason and may try again; a client that is connected gets what it waits for.

    The sockets' own timeout is the bound: the pause would last for ever.
    """
    one, other = two_on_own
    session = one.initialize()
    assert other.call(session, "keep", value="brass") == "kept"
    params = {"name": "slow", "arguments": {"seconds": 0.5}, "_meta": {"progressToken": "p"}}
    connection, response = one.open(
        "POST", session, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    )
    stream = events(response)
    _, message = next(stream)
    assert message["method"] == "notifications/progress"
    own_server.pause()
    try:
        with ThreadPoolExecutor() as pool:
            pings = [pool.submit(ping, server, session) for server in two_on_own]
            opened = pool.submit(open_session, one)
            _, message = next(stream)
        assert message["result"]["content"][0]["text"] == "slow"
        for status, answer in (pinged.result() for pinged in pings):
            assert (status, answer["error"]["message"]) == (
                503,
                "The server's session store cannot be reached; try again",
            )
        assert opened.result() == 503  # and no session that the other worker would not know
    finally:
        own_server.go_on()
        connection.close()
    for server in two_on_own:
        assert server.call(session, "kept") == "brass"


def test_a_restart_loses_no_session(own_server: OwnRedis | OwnPostgres, two_on_own: tuple[Server, Server]) -> None:
    """Of one that writes down what it has; the first request after it works, too."""
    one, other = two_on_own
    session = one.initialize()
    assert one.call(session, "keep", value="brass") == "kept"
    own_server.kill()
    own_server.start()
    assert other.call(session, "kept") == "brass"
    assert one.call(session, "kept") == "brass"


@pytest.mark.parametrize("redis", [("--save", "")], indirect=True)
def test_a_restart_that_empties_the_store_loses_no_session_either(redis: OwnRedis, two: tuple[Server, Server]) -> None:
    """Workers write back what they know, for those that do not."""
    one, other = two
    kept = [one.initialize() for _ in range(3)]
    ended = one.initialize()
    for session in kept:
        assert one.call(session, "keep", value=session) == "kept"
    connection, response = one.open("DELETE", ended)
    assert response.status == 204
    connection.close()
    with Redis.from_url(redis.url) as client:
        deadline = time.monotonic() + 30
        while len(list(client.scan_iter("*worker:*"))) < 2:  # both have left their sign of life
            assert time.monotonic() < deadline
            time.sleep(0.05)
    time.sleep(1)  # and a beat later know what is in the store
    redis.kill()
    redis.start()
    for session in kept:  # which the other has never seen
        assert other.call(session, "kept") == session
        assert one.call(session, "kept") == session
    for server in two:
        assert ping(server, ended)[0] == 404
        assert ping(server, "f" * 32)[0] == 404
