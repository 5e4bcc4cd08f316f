"""One HTTP exchange of a client with its server: credentials, and redirects within the origin.

Both HTTP transports use this module, so that one rule holds for each POST, GET and DELETE: credentials, headers and
session of a server are sent to its origin only. A redirect is followed for one request; the next request is sent to the
configured URL again.
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
"""Maximum number of times that one request is repeated because of a 401 or 403."""
MAX_REDIRECTS: Final = 10
"""Maximum number of redirects of one request."""
ERROR_BODY_BYTES: Final = 64 * 1024
"""Bytes that are read of the body of an error, a redirect or a response that is not needed."""

# The others may turn a POST into a GET (RFC 9110, section 15.4), which would lose the message.
_KEEPS_METHOD: Final = frozenset({307, 308})
_REDIRECTS_GET: Final = frozenset({301, 302, 303, 307, 308})
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


class HttpSender:
    """Sends the requests of one connection.

    Args:
        http: sends the HTTP requests.
        auth: the credentials; ``None`` for none.
    """

    def __init__(self, http: HttpClient, auth: HttpAuth | None) -> None:
        self._http = http
        self._auth = auth
        given: object = auth
        self._observe = given.observed if isinstance(given, ObservesAnswers) else None

    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"", flight: Flight | None = None
    ) -> HttpResponse:
        """Send one request with credentials, follow redirects within the origin, and return the response.

        A redirect to another origin (but from ``http`` to ``https`` on the default ports), one that changes the method,
        one with credentials in its URL, and one above `MAX_REDIRECTS` are not followed but returned.

        Args:
            method, url, headers, body: the method, the URL, the headers and the body of the request.
            flight: the call of this request; its time-out is paused while credentials are obtained.

        Raises:
            HttpConnectFailed, HttpConnectionLost: there is no response.
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
            try:
                await read_some(response, ERROR_BODY_BYTES)
            finally:
                await response.aclose()
            logger.debug("%s of %s is redirected to %s", method, url.partition("?")[0], moved.partition("?")[0])
            url = moved
            response = await self._send(HttpClientRequest(method, url, headers, body), headers, flight)
        return response

    async def _send(
        self, request: HttpClientRequest, headers: Mapping[str, str], flight: Flight | None
    ) -> HttpResponse:
        """Send a request with credentials, and again if `HttpAuth.challenged` has new ones.

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
            try:
                said = await read_some(response, ERROR_BODY_BYTES)
                challenged = auth.challenged(request, response.status, response.headers)
                has_others = await off_the_clock(flight, challenged)
            except BaseException:  # the user has refused, or the call was cancelled while one signed in
                await response.aclose()
                raise
            if not has_others:
                return Emptied(response, said)
            await response.aclose()


def media_type(response: HttpResponse) -> str:
    """Return the media type of a response in lower case, without parameters; ``""`` if it has none."""
    # `headers` of an aiohttp response makes a copy.
    named = response.content_type if type(response) is AiohttpResponse else response.headers.get("content-type", "")
    return named.partition(";")[0].strip().lower()


def status_error(response: HttpResponse, said: str, url: str) -> HttpStatusError:
    """Return the error for a response with an HTTP error status and no JSON-RPC error in its body."""
    proxy = response.proxy if isinstance(response, CameThroughProxy) else None
    return HttpStatusError(response.status, response.headers, said, url, proxy=proxy)


def is_same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port; the default port may be left out."""
    try:
        return _origin(urlsplit(one)) == _origin(urlsplit(other))
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _redirect_within(method: str, url: str, response: HttpResponse) -> str | None:
    """Return the target of a redirect that may be followed; ``None`` for others.

    A redirect from ``http`` to ``https`` on the same host with default ports is allowed, as in other clients.
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
