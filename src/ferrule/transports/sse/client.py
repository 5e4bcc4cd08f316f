"""The client of the HTTP+SSE transport of 2024-11-05: a GET stream for received messages, a URL for POSTs.

It is a stream pair: received messages are events of the GET stream, and each sent message is a POST. It is for old
servers only and is tried last. The POST endpoint must have the same origin as the URL: a server must not be able to
direct a client's messages and credentials to another one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import anyio

from ferrule.kernel.dispatch import StreamMessage, TransportContext
from ferrule.protocol.deprecations import warn_deprecated
from ferrule.protocol.errors import ConnectionClosed, LocalError
from ferrule.transports.background import Background
from ferrule.transports.http.backend import HttpClient, HttpResponse, without_secrets
from ferrule.transports.http.bodies import read_some
from ferrule.transports.http.pending_request import Flight
from ferrule.transports.http.sending import ERROR_BODY_BYTES, HttpSender, is_same_origin, media_type, status_error
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.sse import EventReader, EventTooLong

if TYPE_CHECKING:
    from ferrule.transports.http.client import HttpAuth

__all__ = ["SseConnection", "SseRefused", "connect_sse"]

logger = logging.getLogger("ferrule.client.http")

_TRANSPORT = TransportContext("sse")
_NOT_ABOUT_THE_URL: Final = frozenset({401, 403, 407, 429})
"""Statuses that depend on the caller or the time, so that they do not mean that there is no such server."""
# The stream is not read above these bounds: a server that sends faster than it is served is slowed.
_MAX_WAITING: Final = 1024
_MAX_WAITING_BYTES: Final = 4 << 20


class SseRefused(LocalError):
    """The URL is not an HTTP+SSE server, or its endpoint cannot be used."""


class SseConnection:
    """An open stream pair; both halves in one object.

    Attributes:
        endpoint: the URL for POSTs of messages.
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
        self._where = without_secrets(url)
        self._sender = HttpSender(http, auth)
        self._background = background
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._max_bytes = max_message_bytes
        self._messages: deque[tuple[StreamMessage, int]] = deque()
        self._waiting_bytes = 0
        self._came = anyio.Event()
        self._taken = anyio.Event()
        self._opened = anyio.Event()
        self._ended: Exception | None = None
        self._is_closed = False
        self._reader: Any = None

    async def open(self, timeout_s: float) -> None:
        """Open the event stream and wait for its ``endpoint`` event.

        Args:
            timeout_s: maximum time in seconds, without that of a sign-in.

        Raises:
            SseRefused: there is no such event stream, no endpoint, or one of another origin.
            HttpStatusError: the server refuses the caller, or has failed.
        """
        flight = Flight(0, "endpoint", {"timeout_s": timeout_s})
        with flight.scope:
            await self._open(flight)
        if not self.endpoint:
            await self.aclose()
            raise self._ended or SseRefused(f"{self._where} sent no endpoint within {timeout_s:g} s")

    async def _open(self, flight: Flight) -> None:
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        response = await self._request("GET", self._url, headers, flight=flight)
        status, kind = response.status, media_type(response)
        if status != 200 or kind != "text/event-stream":
            try:
                said = await read_some(response, ERROR_BODY_BYTES)
            finally:
                await response.aclose()
            if status >= 500 or status in _NOT_ABOUT_THE_URL:
                raise status_error(response, said.decode("utf-8", "replace"), self._url)
            raise SseRefused(f"{self._where} has no event stream (HTTP {status}, {kind or 'no content type'})")
        self._reader = self._background.start(self._read(response), "ferrule-sse-reader")
        await self._opened.wait()

    @property
    def ended(self) -> Exception | None:
        """Why the event stream has ended; ``None`` while it is open."""
        return self._ended

    @property
    def read_stream(self) -> SseConnection:
        """The receiving half."""
        return self

    @property
    def write_stream(self) -> SseConnection:
        """The sending half."""
        return self

    async def receive(self) -> StreamMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the GET stream has ended.
        """
        while not self._messages:
            if self._ended is not None or self._is_closed:
                raise anyio.EndOfStream from self._ended
            self._came = anyio.Event()
            await self._came.wait()
        message, size = self._messages.popleft()
        self._waiting_bytes -= size
        self._taken.set()
        return message

    async def send(self, item: StreamMessage) -> None:
        """Post one message. An error concerns only this message, since responses arrive on the event stream.

        Raises:
            anyio.ClosedResourceError: this side has closed, or the server has closed its stream.
            HttpStatusError: the server refused the message. With 404 or 410 the session has ended, and so have both
                halves.
            HttpConnectFailed, HttpConnectionLost: it cannot be reached; after `HttpConnectionLost` the server may have
                received the message.
        """
        if self._is_closed or self._ended is not None:
            raise anyio.ClosedResourceError from self._ended
        response = await self._request(
            "POST", self.endpoint, {"content-type": "application/json"}, encode(item.message)
        )
        try:
            said = await read_some(response, ERROR_BODY_BYTES)
        finally:
            await response.aclose()
        if response.status < 300:
            return
        error = status_error(response, said.decode("utf-8", "replace"), self.endpoint)
        if response.status in (404, 410):
            self._end(error)
        raise error

    def _end(self, error: Exception) -> None:
        """End both halves; ``error`` is the cause that `receive` raises."""
        self._ended = self._ended or error
        if self._reader is not None:
            self._reader.cancel()
        self._came.set()

    async def aclose(self) -> None:
        """Close the GET stream. Idempotent; any task."""
        self._is_closed = True
        if self._reader is not None:
            self._reader.cancel()
        self._came.set()

    async def _request(
        self, method: str, url: str, headers: dict[str, str], body: bytes = b"", flight: Flight | None = None
    ) -> HttpResponse:
        headers = {"accept-encoding": "identity", **self._headers, **headers}
        return await self._sender.open(method, url, headers, body, flight)

    async def _read(self, response: HttpResponse) -> None:
        reader = EventReader(self._max_bytes)
        try:
            while chunk := await response.receive():
                for event in reader.feed(chunk):
                    if isinstance(event, EventTooLong):
                        logger.warning("Skipped an event of %s that is longer than max_message_bytes", self._where)
                    elif event.event == "endpoint":
                        self._set_endpoint(event.data.decode("utf-8", "replace"))
                    elif event.event == "message" and event.data:
                        self._take(event.data)
                while len(self._messages) > _MAX_WAITING or self._waiting_bytes > _MAX_WAITING_BYTES:
                    self._taken = anyio.Event()
                    await self._taken.wait()
            self._ended = self._ended or ConnectionClosed(f"The server at {self._where} closed its event stream")
        except (FerruleError, OSError) as error:
            self._ended = self._ended or error
        finally:
            if self._ended is None:
                self._ended = ConnectionClosed("The connection is closed")
            self._opened.set()
            self._came.set()
            await response.aclose()

    def _set_endpoint(self, reference: str) -> None:
        try:
            found = urljoin(self._url, reference.strip())
            theirs = urlsplit(found)
        except ValueError as error:
            raise SseRefused(f"{self._where} names an endpoint that is not a URL") from error
        if not is_same_origin(self._url, found):
            raise SseRefused(f"{self._where} names an endpoint of another origin: {theirs.scheme}://{theirs.hostname}")
        self.endpoint = found
        self._opened.set()

    def _take(self, data: bytes) -> None:
        try:
            message = decode(data)
        except DecodeError as error:
            logger.warning("Skipped an event of %s that is not JSON: %s", self._where, error)
            return
        self._messages.append((StreamMessage(message, _TRANSPORT), len(data)))
        self._waiting_bytes += len(data)
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
    """Open a connection and return it.

    Args:
        url: the URL of the event stream.
        http: sends the requests.
        background: runs the task that reads.
        headers: added to every request.
        auth: credentials; ``None`` for none.
        max_message_bytes: larger events are skipped.
        timeout_s: maximum time in seconds until the endpoint is known.

    Raises:
        SseRefused: the URL is no such server.
        HttpStatusError: the server requires credentials, or has failed.
        HttpConnectFailed, HttpConnectionLost: it cannot be reached.
    """
    connection = SseConnection(url, http, background, headers or {}, auth, max_message_bytes)
    await connection.open(timeout_s)
    warn_deprecated("http+sse")
    return connection
