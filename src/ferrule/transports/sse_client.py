"""The two-endpoint transport of 2024-11-05, the client's side: one GET stream for everything, one URL to POST to.

A stream pair like any other: events of the GET stream are what is received, a POST is what is sent. It exists for
old servers only and is tried last. The POST endpoint must be of the same origin as the URL: a server must not be able
to send a client's messages, and its credentials, elsewhere.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import anyio

from ferrule.kernel.dispatch import StreamMessage, TransportContext
from ferrule.protocol.deprecations import warn_deprecated
from ferrule.protocol.errors import ConnectionClosed, LocalError
from ferrule.transports.background import Background
from ferrule.transports.http_client import HttpClient, HttpRequest, HttpResponse
from ferrule.transports.http_errors import HttpStatusError
from ferrule.transports.streamable_client import MAX_CHALLENGES
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.sse import EventReader, EventTooLong

if TYPE_CHECKING:
    from ferrule.transports.streamable_client import HttpAuth

__all__ = ["SseConnection", "SseRefused", "connect_sse"]

logger = logging.getLogger("ferrule.client.http")

_TRANSPORT = TransportContext("sse")
_MAX_ANSWER_BYTES = 64 * 1024


class SseRefused(LocalError):
    """The URL is no two-endpoint server."""


class SseConnection:
    """An open pair; both halves in one object.

    Attributes:
        endpoint: where messages are posted.
    """

    encodes = True

    def __init__(
        self,
        url: str,
        http: HttpClient,
        background: Background,
        headers: Mapping[str, str],
        auth: HttpAuth | None,
        max_message_bytes: int,
    ) -> None:
        self.endpoint = ""
        self._url = url
        self._http = http
        self._background = background
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._auth = auth
        self._max_bytes = max_message_bytes
        self._messages: deque[StreamMessage] = deque()
        self._came = anyio.Event()
        self._opened = anyio.Event()
        self._ended: Exception | None = None
        self._is_closed = False
        self._reader: Any = None

    async def open(self, timeout_s: float) -> None:
        """GET the URL and wait for its ``endpoint`` event."""
        response = await self._request("GET", self._url, {"accept": "text/event-stream", "cache-control": "no-store"})
        kind = response.headers.get("content-type", "")
        if response.status == 401:
            await response.aclose()
            raise HttpStatusError(401, response.headers, "", self._url)
        if response.status != 200 or not kind.startswith("text/event-stream"):
            await response.aclose()
            raise SseRefused(f"{self._url} has no event stream (HTTP {response.status}, {kind or 'no content type'})")
        self._reader = self._background.start(self._read(response), "ferrule-sse-reader")
        with anyio.move_on_after(timeout_s):
            await self._opened.wait()
        if not self.endpoint:
            await self.aclose()
            raise self._ended or SseRefused(f"{self._url} sent no endpoint within {timeout_s:g} s")

    @property
    def read_stream(self) -> SseConnection:
        """The receiving half."""
        return self

    @property
    def write_stream(self) -> SseConnection:
        """The sending half."""
        return self

    async def receive(self) -> StreamMessage:
        """The next message.

        Raises:
            anyio.EndOfStream: the GET stream has ended.
        """
        while not self._messages:
            if self._ended is not None or self._is_closed:
                raise anyio.EndOfStream from self._ended
            self._came = anyio.Event()
            await self._came.wait()
        return self._messages.popleft()

    async def send(self, item: StreamMessage) -> None:
        """Post one message.

        Raises:
            anyio.ClosedResourceError: this side has closed.
            anyio.BrokenResourceError: the server cannot be reached, or refuses the message.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        try:
            response = await self._request(
                "POST", self.endpoint, {"content-type": "application/json"}, encode(item.message)
            )
            try:
                while await response.receive():
                    pass
            finally:
                await response.aclose()
        except (FerruleError, OSError) as error:
            raise anyio.BrokenResourceError from error
        if response.status >= 400:
            raise anyio.BrokenResourceError from ConnectionClosed(f"{self.endpoint} answered HTTP {response.status}")

    async def aclose(self) -> None:
        """Close the GET stream. Idempotent; any task."""
        self._is_closed = True
        if self._reader is not None:
            self._reader.cancel()
        self._came.set()

    async def _request(self, method: str, url: str, headers: dict[str, str], body: bytes = b"") -> HttpResponse:
        request = HttpRequest(method, url, {"accept-encoding": "identity", **self._headers, **headers}, body)
        auth, own = self._auth, request.headers
        if auth is None:
            return await self._http.open(request)
        attempts = 0
        while True:
            request.headers = {**own, **await auth.headers(request)}
            response = await self._http.open(request)
            if response.status not in (401, 403) or attempts >= MAX_CHALLENGES:
                return response
            attempts += 1
            if not await auth.challenged(request, response.status, response.headers):
                return response
            await response.aclose()

    async def _read(self, response: HttpResponse) -> None:
        reader = EventReader(self._max_bytes)
        try:
            while chunk := await response.receive():
                for event in reader.feed(chunk):
                    if isinstance(event, EventTooLong):
                        logger.warning("Skipped an event of %s that is longer than max_message_bytes", self._url)
                    elif event.event == "endpoint":
                        self._set_endpoint(event.data.decode("utf-8", "replace"))
                    elif event.event == "message" and event.data:
                        self._take(event.data)
            self._ended = ConnectionClosed(f"The server at {self._url} closed its event stream")
        except (FerruleError, OSError) as error:
            self._ended = error
        finally:
            if self._ended is None:
                self._ended = ConnectionClosed("The connection is closed")
            self._opened.set()
            self._came.set()
            await response.aclose()

    def _set_endpoint(self, reference: str) -> None:
        found = urljoin(self._url, reference.strip())
        ours, theirs = urlsplit(self._url), urlsplit(found)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            raise SseRefused(f"{self._url} names an endpoint of another origin: {theirs.scheme}://{theirs.netloc}")
        self.endpoint = found
        self._opened.set()

    def _take(self, data: bytes) -> None:
        try:
            message = decode(data)
        except DecodeError as error:
            logger.warning("Skipped an event of %s that is not JSON: %s", self._url, error)
            return
        self._messages.append(StreamMessage(message, _TRANSPORT))
        self._came.set()


async def connect_sse(
    url: str,
    http: HttpClient,
    *,
    background: Background,
    headers: Mapping[str, str] | None = None,
    auth: HttpAuth | None = None,
    max_message_bytes: int = 64 << 20,
    timeout_s: float = 30.0,
) -> SseConnection:
    """Open the pair.

    Raises:
        SseRefused: the URL is no such server.
        HttpStatusError: it wants credentials.
        HttpConnectFailed, HttpConnectionLost: it cannot be reached.
    """
    connection = SseConnection(url, http, background, headers or {}, auth, max_message_bytes)
    await connection.open(timeout_s)
    warn_deprecated("http+sse")
    return connection
