"""Legacy sessions on two processes whose Redis is paused, started again, or emptied: nothing hangs, none is lost."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.test_sessions_across_workers import PROGRAM, Server, events
from tests.stores.own_redis import OwnRedis

BOUND_S = 10.0
"""No request may take longer, whatever the store does; the store's own bound is five seconds."""


@pytest.fixture
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[OwnRedis]:
    arguments = getattr(request, "param", ("--appendonly", "yes", "--appendfsync", "always"))
    server = OwnRedis(tmp_path, *arguments)
    yield server
    server.close()


@pytest.fixture
def two(redis: OwnRedis, tmp_path: Path) -> Generator[tuple[Server, Server]]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    servers = (Server(script, redis.url), Server(script, redis.url))
    yield servers
    for server in servers:
        server.close()


def ping(server: Server, session: str) -> tuple[int, Any]:
    """Status and body, within the bound."""
    began = time.monotonic()
    status, _, answer = server.send(session, {"jsonrpc": "2.0", "id": 9, "method": "ping"})
    assert time.monotonic() - began < BOUND_S
    return status, answer


def test_a_pause_is_an_error_in_bounded_time_and_the_next_message_works(
    redis: OwnRedis, two: tuple[Server, Server]
) -> None:
    """Longer than the store waits; everybody hears what is wrong and may try again."""
    one, other = two
    session = one.initialize()
    assert other.call(session, "keep", value="brass") == "kept"
    redis.pause()
    try:
        for server in two:
            status, answer = ping(server, session)
            assert (status, answer["error"]["message"]) == (
                503,
                "The server's session store cannot be reached; try again",
            )
        began = time.monotonic()
        status, _, _ = one.send(
            None,
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                },
            },
        )
        assert status == 503  # and no session that the other worker would not know
        assert time.monotonic() - began < BOUND_S
    finally:
        redis.go_on()
    for server in two:
        assert server.call(session, "kept") == "brass"


def test_a_stream_that_runs_when_the_store_pauses_still_brings_its_answer(
    redis: OwnRedis, two: tuple[Server, Server]
) -> None:
    """Its client is connected; all that is lost is that it could come back for it."""
    one, _ = two
    session = one.initialize()
    params = {"name": "slow", "arguments": {"seconds": 0.5}, "_meta": {"progressToken": "p"}}
    connection, response = one.open(
        "POST", session, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    )
    stream = events(response)
    _, message = next(stream)
    assert message["method"] == "notifications/progress"
    redis.pause()
    began = time.monotonic()
    try:
        _, message = next(stream)
    finally:
        redis.go_on()
    assert message["result"]["content"][0]["text"] == "slow"
    assert time.monotonic() - began < BOUND_S
    connection.close()


def test_a_restart_loses_no_session(redis: OwnRedis, two: tuple[Server, Server]) -> None:
    """Of a Redis that writes down what it has; the first request after it works, too."""
    one, other = two
    session = one.initialize()
    assert one.call(session, "keep", value="brass") == "kept"
    redis.kill()
    redis.start()
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
    time.sleep(2.5)  # both have left their sign of life
    redis.kill()
    redis.start()
    for session in kept:  # which the other has never seen
        assert other.call(session, "kept") == session
        assert one.call(session, "kept") == session
    for server in two:
        assert ping(server, ended)[0] == 404
        assert ping(server, "f" * 32)[0] == 404
