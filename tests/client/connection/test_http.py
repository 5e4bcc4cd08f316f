"""The HTTP client of an MCP client."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.connection.http import ClientHttp
from ferrule.client.settings import HttpSettings
from ferrule.client.targets import HttpTarget
from ferrule.transports.http.backend import HttpClientRequest, HttpResponse

URL = "http://127.0.0.1:1/mcp"


class _Own:
    """An HTTP client of the program."""

    is_closed = False

    async def open(self, request: HttpClientRequest, **options: Any) -> HttpResponse:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.mark.anyio
async def test_the_http_client_of_the_program_stays_open() -> None:
    """It may serve other clients."""
    own = _Own()
    http = ClientHttp(HttpSettings(http=own), HttpTarget(URL))
    assert http.client() is http.client()
    await http.aclose()
    assert not own.is_closed


@pytest.mark.anyio
async def test_one_http_client_is_made_and_another_one_after_closing() -> None:
    """Connections belong to one life of the MCP client."""
    http = ClientHttp(HttpSettings(), HttpTarget(URL))
    first = http.client()
    assert http.client() is first
    await http.aclose()
    assert http.client() is not first
    await http.aclose()


def test_headers_of_client_and_target_are_looked_at_without_case() -> None:
    """Field names are case-insensitive (RFC 9110, 5.1); the client's headers take precedence."""
    target = HttpTarget(URL, {"User-Agent": "theirs", "AUTHORIZATION": "Bearer t"})
    http = ClientHttp(HttpSettings(headers={"USER-AGENT": "ours"}), target)
    assert http.has_authorization
    assert ClientHttp(HttpSettings(headers={"User-Agent": "ours"}), target).user_agent == "ours"
    plain = ClientHttp(HttpSettings(), HttpTarget(URL))
    assert (plain.user_agent, plain.has_authorization) == (None, False)


def test_a_header_that_cannot_be_sent_is_refused_at_once() -> None:
    """Not in the first request."""
    with pytest.raises(ValueError, match="line end"):
        ClientHttp(HttpSettings(headers={"x-one": "a\r\nb"}), HttpTarget(URL))
