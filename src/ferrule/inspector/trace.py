"""Records every message of a connection with its time, at the streams of the process or at the HTTP library.

For a process the two streams are wrapped, for a URL the `HttpClient` below the client. The record therefore has what
was really sent: ids, progress tokens, cancellations, sessions, challenges. Nothing is delayed or changed.

The feed has one event per message; the message itself is kept here, within a bound, until the page requests it.
Credentials in headers are not kept; the content of messages is, as in a recording of `ferrule trace`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ferrule.inspector.values import decode_any_number
from ferrule.kernel.dispatch import StreamMessage
from ferrule.transports.http.backend import HttpClient, HttpClientRequest, HttpResponse
from ferrule.wire.codec import encode, encode_str, to_builtins
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.sse import EventReader, ServerSentEvent
from ferrule.wire.types import META_SUBSCRIPTION_ID

if TYPE_CHECKING:
    from ferrule.inspector.feed import Feed

__all__ = ["ConnectionTrace", "MessageStore", "TracedInput", "TracedOutput", "TracingHttpClient"]

Direction = Literal["out", "in"]

MAX_KEPT_BYTES: Final = 96 << 20
MAX_MESSAGE_BYTES: Final = 64 << 20
ENTRY_BYTES: Final = 500
"""Approximate memory of a message in bytes besides its text; counted because a server may send many short ones."""
MAX_OPEN: Final = 1000
"""Open requests, progress tokens and tasks whose numbers are kept; a peer may leave them open for ever."""
_LISTEN: Final = "subscriptions/listen"
_SECRET_HEADER: Final = re.compile(
    r"authorization|cookie|dpop|token|secret|password|credential|key|^x-auth", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Where a message belongs in a session: connection, direction, time, and whether it is a message or HTTP only."""

    connection: str
    direction: Direction
    at_ms: float
    is_message: bool


class MessageStore:
    """Keeps the newest messages.

    Args:
        max_bytes: bound for all messages together.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[int, tuple[bytes, Mapping[str, Any] | None]] = OrderedDict()
        self._places: dict[int, MessagePlace] = {}
        self._bytes = 0
        self._number = 0

    @property
    def last(self) -> int:
        """The number of the newest message."""
        return self._number

    def put(self, text: bytes, http: Mapping[str, Any] | None, place: MessagePlace | None = None) -> int:
        """Keep a message and return its number."""
        self._number += 1
        if place is not None:
            self._places[self._number] = place
        self._kept[self._number] = (text, http)
        self._bytes += _size_of(text, http)
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            number, kept = self._kept.popitem(last=False)
            self._bytes -= _size_of(*kept)
            self._places.pop(number, None)
        return self._number

    def of_connection(self, connection: str) -> list[tuple[MessagePlace, bytes]]:
        """Return the kept messages of a connection, without what is HTTP only."""
        return [
            (place, self._kept[number][0])
            for number, place in self._places.items()
            if place.connection == connection and place.is_message
        ]

    def get(self, number: int) -> tuple[bytes, Mapping[str, Any] | None] | None:
        """Return a message and its HTTP facts (method, URL, status, headers), or ``None`` if it is no longer kept."""
        return self._kept.get(number)

    def clear(self) -> None:
        """Remove all messages; numbers continue."""
        self._kept.clear()
        self._places.clear()
        self._bytes = 0


def _size_of(text: bytes, http: Mapping[str, Any] | None) -> int:
    headers: Mapping[str, str] = {} if http is None else http.get("headers") or {}
    return ENTRY_BYTES + len(text) + sum(len(name) + len(value) + 100 for name, value in headers.items())


class ConnectionTrace:
    """The messages of one connection.

    Args:
        connection: the name of the connection.
        feed: receives an event for each message.
        store: keeps the messages.
    """

    def __init__(self, connection: str, feed: Feed, store: MessageStore) -> None:
        self._connection = connection
        self._feed = feed
        self._store = store
        self._requests: OrderedDict[tuple[Direction, str], tuple[float, str, int]] = OrderedDict()
        self._of_token: OrderedDict[tuple[Direction, str], int] = OrderedDict()
        self._of_task: OrderedDict[str, int] = OrderedDict()

    def note(
        self, direction: Direction, message: Any, *, text: bytes | None = None, of: int | None = None, **http: Any
    ) -> int:
        """Record a decoded message and return its number.

        Args:
            direction: ``"out"`` to the server, ``"in"`` from it.
            message: the message.
            text: its JSON if it is known already.
            of: the number of the request in whose response it came, for HTTP.
            http: facts of HTTP.
        """
        if text is None:
            text = encode(message)
        facts = self._describe(direction, message, of)
        number = self._keep(direction, text, facts, http or None)
        if is_mapping(message) and "id" in message and "method" in message:
            self._remember(direction, message, number, facts["method"])
        return number

    def note_text(self, direction: Direction, text: bytes, *, of: int | None = None, **http: Any) -> int:
        """Record a message as it was received, as `note` does; text that is not JSON is recorded as raw text."""
        try:
            message = decode_any_number(text)
        except DecodeError:
            return self._keep(direction, encode(text[:65536].decode("utf-8", "replace")), {"what": "raw"}, http or None)
        return self.note(direction, message, text=text, of=of, **http)

    def note_http(self, direction: Direction, title: str, **http: Any) -> None:
        """Record an HTTP exchange without a message: opening a stream, ending a session, a challenge, a sign-in."""
        self._keep(direction, b"null", {"what": "http", "method": title}, http)

    def _keep(self, direction: Direction, text: bytes, facts: dict[str, Any], http: Mapping[str, Any] | None) -> int:
        place = MessagePlace(self._connection, direction, self._feed.now_ms(), facts["what"] != "http")
        number = self._store.put(text, http, place)
        status = {} if http is None or "status" not in http else {"status": http["status"]}
        self._feed.publish_event(
            "message",
            connection=self._connection,
            number=number,
            direction=direction,
            bytes=len(text),
            **facts,
            **status,
        )
        return number

    def _remember(self, direction: Direction, message: Mapping[str, Any], number: int, method: str) -> None:
        """Keep what ties later messages to this request: its id, and its progress token."""
        self._requests[direction, encode_str(message["id"])[:200]] = (self._feed.now_ms(), method, number)
        _bound(self._requests)
        token = _meta_of(message.get("params")).get("progressToken")
        if token is not None:
            self._of_token[direction, encode_str(token)[:200]] = number
            _bound(self._of_token)

    def _describe(self, direction: Direction, message: Any, of: int | None) -> dict[str, Any]:
        if is_list(message):
            return {"what": "batch", "method": f"{len(message)} messages"}
        if not is_mapping(message):
            return {"what": "raw"}
        body = message
        method, id = body.get("method"), body.get("id")
        key = encode_str(id)[:200]
        if method is not None:
            name = str(method)[:200]
            facts: dict[str, Any] = {"what": "notification" if "id" not in body else "request", "method": name}
            if "id" in body:
                facts["id"] = key
            return facts | _subject(body.get("params")) | self._belongs(direction, name, body.get("params"), of)
        facts = {"what": "error" if "error" in body else "result", "id": key}
        asked = self._requests.pop(("in" if direction == "out" else "out", key), None)
        if asked is not None:
            started_ms, name, number = asked
            facts |= {"took_ms": round(self._feed.now_ms() - started_ms, 3), "method": name, "of": number}
            self._note_task(name, number, body.get("result"))
        if is_mapping(body.get("result")) and body["result"].get("isError") is True:
            facts["is_error"] = True
        return facts

    def _note_task(self, method: str, number: int, result: Any) -> None:
        """Keep which request made a task, so that the requests for its state are shown under that one."""
        if is_mapping(result) and not method.startswith("tasks/"):
            task = result.get("task")
            id = task.get("taskId") if is_mapping(task) else result.get("taskId")
            if isinstance(id, str):
                self._of_task[id] = number
                _bound(self._of_task)

    def _belongs(self, direction: Direction, method: str, params: Any, of: int | None) -> dict[str, Any]:
        """Return ``of``: the number of the request that a notification or a further request belongs to, if known."""
        other: Direction = "in" if direction == "out" else "out"
        given: Mapping[str, Any] = params if is_mapping(params) else {}
        found: int | None = None
        if method == "notifications/progress":
            found = self._of_token.get((other, encode_str(given.get("progressToken"))[:200]))
        elif method == "notifications/cancelled":
            request = self._requests.get((direction, encode_str(given.get("requestId"))[:200]))
            found = None if request is None else request[2]
        elif isinstance(given.get("taskId"), str):
            found = self._of_task.get(given["taskId"])
        if found is None:
            listener = _meta_of(params).get(META_SUBSCRIPTION_ID)
            request = None if listener is None else self._requests.get((other, encode_str(listener)[:200]))
            found = request[2] if request is not None else of
        if (
            found is None
            and direction == "in"
            and (method == "notifications/message" or not method.startswith("notifications/"))
        ):
            # What a server says or asks on a pipe names no request; it is unambiguous while one runs.
            running = [
                number for (side, _), (_, name, number) in self._requests.items() if side == "out" and name != _LISTEN
            ]
            found = running[0] if len(running) == 1 else None
        return {} if found is None else {"of": found}


def _meta_of(params: Any) -> Mapping[str, Any]:
    meta = params.get("_meta") if is_mapping(params) else None
    return meta if is_mapping(meta) else {}


def _bound(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > MAX_OPEN:
        kept.popitem(last=False)


def _subject(params: Any) -> dict[str, Any]:
    """Return the name, URI, task id, message or level of a request's parameters, at most 120 characters."""
    if is_mapping(params):
        for name in ("name", "uri", "taskId", "message", "level"):
            if isinstance(params.get(name), str):
                return {"subject": params[name][:120]}
    return {}


# -- a process --------------------------------------------------------------------------------------------------------


class TracedOutput:
    """A read stream that records what it returns, or the lines of a process as they were written.

    A number that is too large for a double is passed on as infinity: the page shows its text, and the call ends.
    """

    def __init__(self, stream: Any, trace: ConnectionTrace) -> None:
        self._stream = stream
        self._trace = trace
        self._is_recorded = False

    def decode(self, line: bytes) -> Any:
        """Record a line, and return its JSON value; in place of `ServerOutput.decode` of a process."""
        self._trace.note_text("in", line)
        message = decode_any_number(line)
        self._is_recorded = True
        return message

    def __getattr__(self, name: str) -> Any:
        # Python calls this for attributes of the stream that this class does not define.
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        """Return the next item of the wrapped stream."""
        self._is_recorded = False
        item = await self._stream.receive()
        if self._is_recorded:
            return item
        if isinstance(item, Exception):
            self._trace.note_text("in", str(item).encode())
        else:
            self._trace.note("in", to_builtins(item.message if isinstance(item, StreamMessage) else item))
        return item


class TracedInput:
    """A write stream that records what is sent."""

    encodes = False  # the dispatcher then passes every message to `send` as JSON values

    def __init__(self, stream: Any, trace: ConnectionTrace) -> None:
        self._stream = stream
        self._trace = trace

    async def send(self, item: Any, /) -> None:
        """Record the item and send it to the wrapped stream."""
        self._trace.note_text("out", encode(item.message if isinstance(item, StreamMessage) else item))
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._stream.aclose()


# -- a URL ------------------------------------------------------------------------------------------------------------


class TracingHttpClient:
    """An `HttpClient` that records the messages that another one sends and receives.

    Args:
        client: sends the requests; closed with this one.
        trace: records the messages.
        endpoint: the server's URL. Requests to another origin belong to a sign-in; only their address is recorded.
    """

    def __init__(self, client: HttpClient, trace: ConnectionTrace, endpoint: str) -> None:
        self._client = client
        self._trace = trace
        self._endpoint = endpoint.partition("?")[0]

    async def open(self, request: HttpClientRequest) -> HttpResponse:
        """Send a request with the wrapped client and return the response, both recorded."""
        address = request.url.partition("?")[0]
        about: dict[str, Any] = {"method": request.method, "url": address, "headers": _kept_headers(request.headers)}
        is_message = request.method == "POST" and _media_type(request.headers) == "application/json"
        number: int | None = None
        if is_message and self._is_ours(address):
            number = self._trace.note_text("out", request.body, **about)
        else:
            self._trace.note_http("out", f"{request.method} {_path(address)}", **about)
        try:
            response = await self._client.open(request)
        except Exception as error:
            self._trace.note_http("in", f"failed: {error}"[:300], **about)
            raise
        answer = {"status": response.status, "headers": _kept_headers(response.headers)}
        kind = _media_type(response.headers)
        if not self._is_ours(address) or kind not in ("application/json", "text/event-stream"):
            if response.status != 202 or not is_message:
                self._trace.note_http("in", f"{response.status} {request.method} {_path(address)}", **answer)
            return response
        if kind == "text/event-stream" and request.method == "GET":
            self._trace.note_http("in", f"{response.status} stream open", **answer)
        return _TracedResponse(response, self._trace, answer, is_stream=kind == "text/event-stream", of=number)

    async def aclose(self) -> None:
        """Close the wrapped client."""
        await self._client.aclose()

    def _is_ours(self, address: str) -> bool:
        return _origin(address) == _origin(self._endpoint) and "/.well-known/" not in address


class _TracedResponse:
    def __init__(
        self,
        response: HttpResponse,
        trace: ConnectionTrace,
        about: dict[str, Any],
        *,
        is_stream: bool,
        of: int | None,
    ) -> None:
        self._of = of
        self._response = response
        self._trace = trace
        self._about = about
        self._reader = EventReader(MAX_MESSAGE_BYTES) if is_stream else None
        self._pieces: list[bytes] | None = None if is_stream else []
        self._size = 0

    @property
    def status(self) -> int:
        """Status of the wrapped response."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the wrapped response."""
        return self._response.headers

    async def receive(self) -> bytes:
        """Return the next chunk of the wrapped response; ``b""`` at its end."""
        piece = await self._response.receive()
        if self._reader is not None:
            for event in self._reader.feed(piece):
                if isinstance(event, ServerSentEvent) and event.data:
                    self._trace.note_text("in", event.data, of=self._of, **self._about)
        elif self._pieces is not None:
            self._take(piece)
        return piece

    def _take(self, piece: bytes) -> None:
        assert self._pieces is not None
        if piece and self._size <= MAX_MESSAGE_BYTES:
            self._pieces.append(piece)
            self._size += len(piece)
        elif not piece:
            self._finish()

    def _finish(self) -> None:
        pieces, self._pieces = self._pieces, None
        if pieces:
            self._trace.note_text("in", b"".join(pieces), of=self._of, **self._about)

    async def aclose(self) -> None:
        """Record what was received and close the wrapped response."""
        self._finish()
        await self._response.aclose()


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: "(not kept)" if _SECRET_HEADER.search(name) else value for name, value in headers.items()}


def _origin(url: str) -> tuple[str, str]:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _path(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).path or "/"
