"""One HTTP exchange of a client with its server: credentials, and redirects within the origin.

Both HTTP transports send through here, so that one rule holds for every POST, GET and DELETE: what was configured for
a server (credentials, headers, the session) goes to that server's origin and nowhere else. A redirect is followed for
the request that met it; the next one goes to the configured URL again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from ferrule.transports.http.adapters import AiohttpResponse
from ferrule.transports.http.backend import CameThroughProxy, HttpClient, HttpClientRequest, HttpResponse
from ferrule.transports.http.bodies import Emptied, read_some
from ferrule.transports.http.errors import HttpAuth, HttpStatusError, ObservesAnswers
from ferrule.transports.http.pending_request import Flight, off_the_clock

__all__ = [
    "ERROR_BODY_BYTES",
    "MAX_CHALLENGES",
    "MAX_REDIRECTS",
    "HttpSender",
    "is_same_origin",
    "media_type",
    "status_error",
]

logger = logging.getLogger("ferrule.client.http")

MAX_CHALLENGES: Final = 3
"""Times that one request is sent again because of a 401 or 403."""
MAX_REDIRECTS: Final = 10
"""Redirects in a row that one request follows."""
ERROR_BODY_BYTES: Final = 64 * 1024
"""Of the body of an error, a redirect or an answer that nobody waits for, this much is read."""

_KEEPS_METHOD: Final = frozenset({307, 308})
_REDIRECTS_GET: Final = frozenset({301, 302, 303, 307, 308})
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


class HttpSender:
    """Sends the requests of one connection.

    Args:
        http: sends them.
        auth: credentials; ``None``: there are none.
    """

    def __init__(self, http: HttpClient, auth: HttpAuth | None) -> None:
        self._http = http
        self._auth = auth
        given: object = auth
        self._observe = given.observed if isinstance(given, ObservesAnswers) else None

    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"", flight: Flight | None = None
    ) -> HttpResponse:
        """Send one request, with credentials, to ``url`` or where that redirects within its origin.

        A redirect that is not followed is returned like any other answer: to another origin, without a method that
        stays the same, with credentials in its URL, or one too many.

        Args:
            flight: the call of this request; its timeout is paused while credentials are obtained.

        Raises:
            HttpConnectFailed, HttpConnectionLost: no answer.
        """
        request = HttpClientRequest(method, url, headers, body)
        if self._auth is None:
            response = await self._http.open(request)
        else:
            response = await self._send(request, headers, flight)
        if response.status < 300 or response.status >= 400:
            return response
        for _ in range(MAX_REDIRECTS):
            moved = _redirect_within(method, url, response)
            if moved is None:
                break
            await read_some(response, ERROR_BODY_BYTES)
            await response.aclose()
            logger.debug("%s of %s is redirected to %s", method, url.partition("?")[0], moved.partition("?")[0])
            url = moved
            response = await self._send(HttpClientRequest(method, url, headers, body), headers, flight)
        return response

    async def _send(
        self, request: HttpClientRequest, headers: Mapping[str, str], flight: Flight | None
    ) -> HttpResponse:
        """Send a request with credentials, again where the server's challenge could be met.

        A sign-in may wait for a user, so the call's timeout is paused meanwhile.
        """
        auth = self._auth
        if auth is None:
            return await self._http.open(request)
        attempts = 0
        while True:
            request.headers = {**headers, **await off_the_clock(flight, auth.headers(request))}
            response = await self._http.open(request)
            if self._observe is not None:
                self._observe(request, response.status, response.headers)
            if response.status not in (401, 403) or attempts >= MAX_CHALLENGES:
                return response
            attempts += 1
            said = await read_some(response, ERROR_BODY_BYTES)
            challenged = auth.challenged(request, response.status, response.headers)
            if not await off_the_clock(flight, challenged):
                return Emptied(response, said)
            await response.aclose()


def media_type(response: HttpResponse) -> str:
    """Return the media type of an answer in lower case, without parameters; ``""`` if it names none."""
    # The headers of aiohttp's answer are copied when they are asked for.
    named = response.content_type if type(response) is AiohttpResponse else response.headers.get("content-type", "")
    return named.partition(";")[0].strip().lower()


def status_error(response: HttpResponse, said: str, url: str) -> HttpStatusError:
    """Return the error for a response with an HTTP error status and no JSON-RPC error in its body."""
    proxy = response.proxy if isinstance(response, CameThroughProxy) else None
    return HttpStatusError(response.status, response.headers, said, url, proxy=proxy)


def is_same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have one scheme, host and port; a port that is not written is the scheme's own."""
    try:
        return _origin(urlsplit(one)) == _origin(urlsplit(other))
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _redirect_within(method: str, url: str, response: HttpResponse) -> str | None:
    """Where a redirect leads, if it is one that may be followed.

    From ``http`` to ``https`` on one host and the default ports counts as staying, as with other clients.
    """
    location = response.headers.get("location")
    if location is None or response.status not in (_REDIRECTS_GET if method == "GET" else _KEEPS_METHOD):
        return None
    try:
        moved = urljoin(url, location.strip()).partition("#")[0]
        here, there = urlsplit(url), urlsplit(moved)
        if (there.username, there.password) not in ((None, None), (here.username, here.password)):
            return None
        if _origin(here) == _origin(there):
            return moved
        is_upgrade = _origin(here) == ("http", there.hostname, 80) and _origin(there) == ("https", here.hostname, 443)
        return moved if is_upgrade else None
    except ValueError:
        return None
