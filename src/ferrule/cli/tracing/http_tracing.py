"""A proxy between an HTTP host and an HTTP server, which forwards every request and records every message.

The host connects to this address in place of the server's. Paths, queries, headers and bodies are forwarded unchanged,
without the headers of one connection (``Host``, ``Connection``) and without compression, so that recordings are
readable.

An event stream is forwarded piece by piece, and the request to the server ends when the host disconnects, as the
protocol requires.

A web page must not reach the server through this address, since its requests would get the headers that are added here.
Requests of pages of another machine are refused by their ``Origin``, those to a rebound name by their ``Host``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import anyio

from ferrule.cli.tracing.recording import Recorder
from ferrule.protocol.errors import FerruleError
from ferrule.transports.asgi.body import BodyTooLarge, ClientGone, read_body, refuse_body
from ferrule.transports.asgi.security import is_loopback_name, split_host
from ferrule.transports.http.backend import HttpClient, HttpClientRequest, HttpResponse
from ferrule.wire.sse import EventReader, ServerSentEvent

__all__ = ["HttpTrace"]

MAX_BODY_BYTES: Final = 64 << 20
_OF_ONE_CONNECTION: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "host", "keep-alive", "proxy-connection",
        "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip


class HttpTrace:
    """An ASGI application that forwards to one endpoint.

    Args:
        url: the URL of the endpoint. Other paths of its server (such as authorization metadata) are forwarded too.
        recorder: records each message of the endpoint.
        http: the HTTP client for requests to the server.
        headers: headers to add to each request; with lower-case names.
        is_local: accept only requests whose ``Host`` is this machine and whose ``Origin``, if any, is a page of it, so
            that other web pages cannot reach the server through this address.
    """

    def __init__(
        self,
        url: str,
        recorder: Recorder,
        http: HttpClient,
        *,
        headers: Mapping[str, str] | None = None,
        is_local: bool = True,
    ) -> None:
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path or "/"
        self._recorder = recorder
        self._http = http
        self._added = dict(headers or {})
        self._is_local = is_local

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if self._is_local and not _is_from_here(headers):
            await _answer(send, 403, b"This address is for programs on this machine")
            return
        try:
            body = await read_body(receive, b"", MAX_BODY_BYTES)
        except ClientGone:
            return
        except BodyTooLarge as error:
            await refuse_body(receive, send, b'{"error":"The body is too large"}', [], error.has_more)
            return
        is_traced = scope["path"] == self._path
        if is_traced and body:
            self._recorder.note("client", body)
        query = scope["query_string"].decode("latin-1")
        url = f"{self._origin}{scope['raw_path'].decode('latin-1')}{f'?{query}' if query else ''}"
        kept = {name: value for name, value in headers.items() if name not in _OF_ONE_CONNECTION}
        request = HttpClientRequest(scope["method"], url, {**kept, **self._added, "accept-encoding": "identity"}, body)
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await self._pass_on(request, send, is_traced)
            group.cancel_scope.cancel()

    async def _pass_on(self, request: HttpClientRequest, send: Any, is_traced: bool) -> None:
        try:
            response = await self._http.open(request)
        except (FerruleError, OSError) as error:
            self._recorder.note("server", f"no answer: {error}".encode())
            await _answer(send, 502, f"ferrule trace: {error}".encode())
            return
        try:
            await self._pass_back(response, send, is_traced)
        except FerruleError as error:  # the server's response broke off, so the one to the host is broken off too
            self._recorder.note("server", f"broken off: {error}".encode())
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _pass_back(self, response: HttpResponse, send: Any, is_traced: bool) -> None:
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name not in _OF_ONE_CONNECTION
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        hearing = _ResponseReader(self._recorder, kind == "text/event-stream", response.status) if is_traced else None
        while piece := await response.receive():
            if hearing is not None:
                hearing.feed(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if hearing is not None:
            hearing.finish()
        await send({"type": "http.response.body", "body": b""})


class _ResponseReader:
    """Finds the messages in the body of a response, and records them."""

    def __init__(self, recorder: Recorder, is_stream: bool, status: int) -> None:
        self._recorder = recorder
        self._status = status
        self._events = EventReader(MAX_BODY_BYTES) if is_stream else None
        self._body = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        if self._events is None:
            if len(self._body) < MAX_BODY_BYTES:
                self._body += piece
            return
        for event in self._events.feed(piece):
            if isinstance(event, ServerSentEvent) and event.data:
                self._recorder.note("server", event.data)

    def finish(self) -> None:
        """Record the rest, after the body has ended."""
        if self._body:
            self._recorder.note("server", bytes(self._body))
        elif self._events is None and self._status >= 400:
            self._recorder.note("server", f"HTTP {self._status}".encode())


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_from_here(headers: Mapping[str, str]) -> bool:
    """Return whether the ``Host`` of a request is this machine, and its ``Origin``, if any, a page of it."""
    if not _names_this_machine(headers.get("host", "")):
        return False
    origin = headers.get("origin")
    if origin is not None:
        return _names_this_machine(origin.partition("://")[2])
    return headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _names_this_machine(authority: str) -> bool:
    return is_loopback_name(split_host(authority)[0])
