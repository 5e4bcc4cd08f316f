"""What clients and models are told about a server that is not available."""

from __future__ import annotations

import re

import pytest

from ferrule.client.gateway.upstreams.reasons import is_lost_connection, reason_of, sentence_of
from ferrule.client.supervision.status import ConnectionStatus
from ferrule.protocol.errors import ConnectionClosed, MCPError, RequestTimeout
from ferrule.transports.http.backend import HttpConnectFailed
from ferrule.transports.http.errors import HttpStatusError
from ferrule.transports.stdio.client import ServerStartFailed, StdioServer

SECRET = "s3cret"
PROGRAM = StdioServer(f"/home/me/{SECRET}", args=[f"--token={SECRET}"])


def missing_program() -> ServerStartFailed:
    """The error of a program that does not exist."""
    error = ServerStartFailed(PROGRAM, "there is no such program in PATH")
    error.__cause__ = FileNotFoundError(f"/home/me/{SECRET}")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RequestTimeout("initialize", 30.0), "no answer within 30 s"),
        (TimeoutError(SECRET), "no answer in time"),
        (HttpStatusError(401, {}, SECRET, f"http://h/{SECRET}"), "it asks for a sign-in"),
        (HttpStatusError(503, {}, SECRET, f"http://h/{SECRET}"), "it answered HTTP 503"),
        (HttpConnectFailed(f"http://h/{SECRET}", "Connection refused"), "connection refused"),
        (HttpConnectFailed(f"http://h/{SECRET}", "something else"), "no connection can be made"),
        (missing_program(), "its program was not found"),
        (ServerStartFailed(PROGRAM, SECRET), "it cannot be started or reached"),
        (ConnectionClosed(SECRET), "the connection was closed, or its process has ended"),
        (MCPError(SECRET, code=-32001), "it refused with the error -32001"),
        (ValueError(SECRET), "its entry in the configuration cannot be used"),
        (ZeroDivisionError(SECRET), "it failed"),
    ],
)
def test_a_reason_is_one_of_our_sentences(error: Exception, said: str) -> None:
    """The text of an error may have URLs, paths, tokens, and what a foreign server wrote."""
    assert reason_of(error) == said
    assert SECRET not in said


def test_a_down_server_says_since_when_why_and_when_it_is_tried_again() -> None:
    """The sentence that a model reads in place of a result."""
    status = ConnectionStatus(
        server="github",
        state="waiting",
        since=1000.0,
        error=HttpConnectFailed("http://h", "Connection refused"),
        failures=2,
        next_attempt_at=1007.0,
        down_since=1000.0,
    )
    said = sentence_of(status, 1002.0)
    assert re.fullmatch(r"`github` is down since \d\d:\d\d: connection refused; trying again in 5 s", said)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("connected", r"`x` is connected since \d\d:\d\d"),
        ("connecting", r"`x` is connecting since \d\d:\d\d: no answer yet"),
    ],
)
def test_other_states_have_sentences_too(state: str, said: str) -> None:
    """The status tool says one for each server."""
    status = ConnectionStatus(server="x", state=state, since=0.0)  # pyright: ignore[reportArgumentType]
    assert re.fullmatch(said, sentence_of(status, 0.0))


def test_a_server_that_answers_is_not_lost() -> None:
    """An error of HTTP that only concerns one request does not make every call wait for a new connection."""
    assert not is_lost_connection(HttpStatusError(400, {}, "", "http://h"))
    assert is_lost_connection(HttpStatusError(503, {}, "", "http://h"))
    assert is_lost_connection(ConnectionClosed("x"))
    assert not is_lost_connection(RequestTimeout("tools/call", 1.0))
