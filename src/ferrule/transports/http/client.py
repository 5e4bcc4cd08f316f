"""The client of Streamable HTTP in both eras: one POST for each message, responses as JSON or as an event stream.

*Modern* (2026-07-28): each request is complete in itself; its headers mirror its body; it is cancelled by closing its
response. *Legacy*: a session id, ``notifications/cancelled``, one GET stream for messages outside calls, and streams
that are resumed with ``Last-Event-ID`` after a disconnect.

No call waits for the GET stream, no request is repeated automatically, no redirect to another origin is followed, and a
GET stream is not reopened for ever. A lost session is reported as `SessionLost`; the caller opens a new one, since only
it can repeat the handshake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

import anyio

from ferrule.kernel.concurrency.cancellation import failure_of, run_interruptible
from ferrule.kernel.concurrency.plain_requests import Deadlines, PlainScope
from ferrule.kernel.dispatch import CallOptions, OnNotify, OnRequest, ProgressSender, TransportContext
from ferrule.protocol.correlation import IdSequence, cancelled_request_id, own_id
from ferrule.protocol.errors import (
    ConnectionClosed,
    InternalError,
    error_from_exception,
)
from ferrule.protocol.inbound import NAME_PARAMS, PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background, BackgroundTask
from ferrule.transports.http.backend import (
    HttpClient,
    HttpConnectFailed,
    HttpConnectionLost,
    HttpProtocolError,
    HttpResponse,
    without_secrets,
)
from ferrule.transports.http.bodies import finish, read_all, read_some
from ferrule.transports.http.errors import (
    HttpAuth,
    HttpRemoteError,
    HttpStatusError,
    SessionLost,
    retry_after_s,
    retry_delay_s,
)
from ferrule.transports.http.listening import PASSING_STATUSES, StandingStream
from ferrule.transports.http.pending_request import Flight, result_of, with_token
from ferrule.transports.http.sending import ERROR_BODY_BYTES, HttpSender, media_type, status_error
from ferrule.wire.codec import decode, to_builtins
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.headers import (
    LAST_EVENT_ID_HEADER,
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    MCP_SESSION_ID_HEADER,
    encode_header_value,
)
from ferrule.wire.jsonrpc import (
    InvalidMessage,
    JsonRpcErrorCode,
    RequestId,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    message_kind,
    shown_text,
)
from ferrule.wire.plain_answers import (
    EncodedResult,
    decode_encoded_answer,
    decode_plain_answer,
    encoded_result,
    plain_result,
)
from ferrule.wire.revisions import REVISIONS
from ferrule.wire.sse import EventReader, EventTooLong

if TYPE_CHECKING:
    from ferrule.wire.sse import ServerSentEvent
    from ferrule.wire.types import ToolResult

__all__ = [
    "HttpAuth",
    "HttpRemoteError",
    "HttpStatusError",
    "SessionLost",
    "StreamableHttp",
    "retry_delay_s",
]

logger = logging.getLogger("ferrule.client.http")

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 << 20
MAX_RESUMES: Final = 20
"""Successive attempts to resume the stream of one call without a new event."""
MAX_SERVED: Final = 1024
"""Requests of a legacy server in flight; further ones are refused."""
_GOODBYE_S: Final = 3.0
_DELIVERIES: Final = 4
_DELIVERY_WAIT_S: Final = 0.1
"""How often a message that must arrive is posted, and seconds before the second time; each further wait is doubled."""
_UNAVAILABLE: Final = 503
# The ping only improves an error message: it must not double the time-out of the call.
_PING_S: Final = 10.0
_BOM: Final = b"\xef\xbb\xbf"
_ACCEPT: Final = "application/json, text/event-stream"


class _Asked(ProgressSender):
    """The dispatch context of a message from the server."""

    __slots__ = ("_http", "cancel_requested", "request_id", "transport")

    def __init__(self, http: StreamableHttp, request_id: RequestId | None, params: Mapping[str, Any] | None) -> None:
        super().__init__(params)
        self._http = http
        self.request_id = request_id
        self.transport = http.transport
        self.cancel_requested = False

    @property
    def can_send_request(self) -> bool:
        return True

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        return await self._http.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self._http.notify(method, params)


class StreamableHttp:
    """The channel to one endpoint. It may be made, used and closed in any task.

    Args:
        url: the URL of the endpoint.
        http: sends the HTTP requests.
        on_request: serves requests of the server (legacy).
        on_notify: handles notifications of the server.
        background: runs the tasks of this channel.
        headers: headers to add to every request.
        auth: the credentials; ``None`` for none.
        max_message_bytes: larger responses and events are refused.

    Attributes:
        version: the negotiated revision; ``None`` until then.
        session_id: the id of a legacy session; ``None`` without one.
        keeps_encoded: whether `send_plain` returns an `EncodedResult` in place of a typed one.
    """

    transport = TransportContext("http")

    def __init__(
        self,
        url: str,
        http: HttpClient,
        *,
        on_request: OnRequest,
        on_notify: OnNotify,
        background: Background,
        headers: Mapping[str, str] | None = None,
        auth: HttpAuth | None = None,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self.url = url
        self._where = without_secrets(url)
        self.version: str | None = None
        self.session_id: str | None = None
        self._sender = HttpSender(http, auth)
        self._on_request = on_request
        self._on_notify = on_notify
        self._background = background
        self._max_bytes = max_message_bytes
        self._ids = IdSequence()
        self._flights: dict[int, Flight] = {}
        self._served: dict[RequestId, BackgroundTask] = {}
        self._listening: BackgroundTask | None = None
        self._first_listen = anyio.Event()
        self._is_closed = False
        self.keeps_encoded = False
        self._scopes: dict[int, PlainScope] = {}
        self._deadlines: Deadlines | None = None
        # No compression: a proxy or server that compresses would buffer an event stream.
        self._base = {"content-type": "application/json", "accept": _ACCEPT, "accept-encoding": "identity"}
        # The user's headers take precedence.
        self._base.update({name.lower(): value for name, value in (headers or {}).items()})

    @property
    def is_stateless(self) -> bool:
        """Whether the revision in use has no sessions over HTTP; false until one is settled."""
        return self.version is not None and REVISIONS[self.version].http == "stateless"

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called."""
        return self._is_closed

    # -- requests -------------------------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result; see `ferrule.kernel.dispatch.Outbound`.

        Raises:
            HttpRemoteError, RemoteError: the server sent an error response.
            HttpStatusError: the server sent an HTTP error without a JSON-RPC error.
            SessionLost: the server no longer has the session.
            RequestTimeout, ConnectionClosed: no response came.
        """
        if self._is_closed:
            raise ConnectionClosed(f"The connection to {self._where} is closed")
        options = opts or {}
        flight = Flight(self._ids.next(), method, options)
        if "on_id" in options:
            options["on_id"](flight.id)
        headers, is_stateless = self._headers_for(method, params, options.get("headers"))
        if flight.on_progress is not None or flight.resets:
            params = with_token(params, flight.id)
        body = encode_request(flight.id, method, params)
        return cast("dict[str, Any]", await self._run(flight, headers, body, is_stateless))

    # -- plain calls ----------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """Return the id of the next request."""
        return self._ids.next()

    def call_headers(self, name: str, meta: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the headers of a ``tools/call`` with this name and ``_meta``; valid as long as the session."""
        return self._headers_for("tools/call", {"name": name, "_meta": meta} if meta else {"name": name}, None)[0]

    async def send_plain(
        self, id: int, headers: Mapping[str, str], body: bytes, options: CallOptions
    ) -> ToolResult | dict[str, Any]:
        """Send an encoded ``tools/call``, on asyncio, and return its result: typed if it has the usual form.

        Args:
            id: the id of the request.
            headers: the result of `call_headers`.
            body: the encoded request.
            options: the time-outs; other options are ignored.

        Raises:
            LocalError, RemoteError: as `send_raw_request`.
        """
        if self._is_closed:
            raise ConnectionClosed(f"The connection to {self._where} is closed")
        deadlines = self._deadlines
        if deadlines is None:
            deadlines = self._deadlines = Deadlines(asyncio.get_running_loop(), self._scopes)
        self._scopes[id] = scope = PlainScope(deadlines)
        try:
            flight = Flight(id, "tools/call", options, scope, deadlines.now())
            return cast("ToolResult", await self._run(flight, headers, body, self.is_stateless))
        finally:
            del self._scopes[id]

    async def _run(self, flight: Flight, headers: Mapping[str, str], body: bytes, is_stateless: bool) -> Any:
        """Send a request and return its result."""
        method = flight.method
        self._flights[flight.id] = flight
        is_answered = False
        try:
            with flight.scope:
                flight.result = await self._exchange(flight, headers, body)
                is_answered = True
        except (FerruleError, OSError):
            is_answered = True  # the exchange has failed: there is nothing to cancel at the server
            raise
        finally:
            del self._flights[flight.id]
            # Modern requests are cancelled by closing the response, which `_exchange` has done.
            is_withdrawn = not is_answered and flight.stray is None
            if is_withdrawn and not is_stateless and method != "initialize" and not self._is_closed:
                self._background.start(self._withdraw(flight.id), "ferrule-withdraw")
        if not is_answered:
            if flight.stray is not None:
                return cast("dict[str, Any]", result_of(flight.stray))
            if flight.reason is not None:
                try:
                    raise flight.reason
                finally:
                    del flight  # the traceback of its reason holds this frame
            raise flight.timed_out()
        return flight.result

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification. A refusal or a connection error is logged, not raised."""
        headers, _ = self._headers_for(method, params, None)
        try:
            body = encode_notification(method, params)
            # Without this one a session gets no changes, and a second one does nothing.
            is_needed = method == "notifications/initialized"
            status = await (self._deliver(headers, body) if is_needed else self._post_quietly(headers, body))
            if status >= 300:
                logger.debug("%s answered %s with HTTP %d", self._where, method, status)
        except (FerruleError, OSError) as error:
            logger.debug("%s did not reach the server: %s", method, error)

    def _headers_for(
        self, method: str, params: Mapping[str, Any] | None, extra: Mapping[str, str] | None
    ) -> tuple[dict[str, str], bool]:
        """Return the headers of a POST, and whether it is a modern one."""
        headers = dict(self._base)
        meta = None if params is None else params.get("_meta")
        version = cast("Mapping[str, Any]", meta).get(PROTOCOL_VERSION_KEY) if isinstance(meta, Mapping) else None
        if isinstance(version, str):
            headers[MCP_PROTOCOL_VERSION_HEADER] = version
            headers[MCP_METHOD_HEADER] = method
            name = (
                params.get(NAME_PARAMS.get(method, "taskId" if method.startswith("tasks/") else "")) if params else None
            )
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = encode_header_value(name)
            if extra:
                # Mirrored params, which belong to this call.
                headers.update(extra)
            return headers, True
        # The handshake itself must not name a version: the server may support another one (2025-06-18).
        if self.version is not None and method != "initialize":
            headers[MCP_PROTOCOL_VERSION_HEADER] = self.version
        if self.session_id is not None and method != "initialize":
            headers[MCP_SESSION_ID_HEADER] = self.session_id
        return headers, False

    async def _exchange(self, flight: Flight, headers: Mapping[str, str], body: bytes) -> Any:
        response = await self._sender.open("POST", self.url, headers, body, flight)
        # Whether this function closes the response.
        is_ours = True
        try:
            status = response.status
            if not 200 <= status < 300:
                raise await self._failure(response, headers, flight)
            # Taken before the body: its messages may already need the session.
            if flight.method == "initialize":
                self.session_id = response.headers.get(MCP_SESSION_ID_HEADER) or None
            kind = media_type(response)
            if kind == "text/event-stream":
                answer = await self._read_call_stream(response, flight)
                is_ours = answer is None
                if answer is None:
                    answer = await self._resume_or_fail(flight)
                return result_of(answer)
            data = await read_all(response, self._max_bytes)
            if kind == "application/json" or (data and not kind):
                return await self._read_json(data, flight)
        finally:
            if is_ours:
                await response.aclose()
        what = f"content of type {kind!r}" if data else "no content"
        raise status_error(response, f"{what} where an answer was due", self.url)

    async def _read_json(self, data: bytes, flight: Flight) -> Any:
        if flight.is_plain:
            result = (_encoded_result if self.keeps_encoded else _plain_result)(data, flight.id)
            if result is not None:
                return result
        try:
            message = decode(data.removeprefix(_BOM))
        except DecodeError as error:
            raise ConnectionClosed(
                f"The server at {self._where} answered {flight.method} with broken JSON: {error}"
            ) from error
        answer = await self._take_all(message, flight)
        if answer is None:
            raise ConnectionClosed(
                f"The server at {self._where} answered {flight.method} with something that is not an answer"
            )
        return result_of(answer)

    async def _failure(
        self, response: HttpResponse, sent: Mapping[str, str], flight: Flight | None = None
    ) -> Exception:
        """Return the error for an HTTP error status."""
        data = await read_some(response, ERROR_BODY_BYTES)
        status, answer = response.status, _error_answer(data)
        session_id = sent.get(MCP_SESSION_ID_HEADER)
        if session_id is not None and await self._is_lost(status, answer, sent, flight):
            return SessionLost(session_id)
        if answer is None:
            return status_error(response, data.decode("utf-8", "replace"), self.url)
        error = answer["error"]
        raised = HttpRemoteError(error["message"], code=error["code"])
        if "data" in error:
            raised.data = error["data"]
        raised.http_status = status
        raised.challenge = response.headers.get("www-authenticate")
        return raised

    async def _is_lost(
        self, status: int, answer: Mapping[str, Any] | None, sent: Mapping[str, str], flight: Flight | None
    ) -> bool:
        """Return whether an error means that the server does not know the session any more.

        404 and 410 do, unless the error is an unknown method. 400 may: some servers send it after a restart for each
        unknown session, but also for a request that they cannot read. A ping distinguishes the two.
        """
        is_answer = flight is not None and answer is not None and own_id(answer.get("id")) == flight.id
        if status in (404, 410):
            return not (
                is_answer and answer is not None and answer["error"]["code"] == JsonRpcErrorCode.METHOD_NOT_FOUND
            )
        if status != 400 or flight is None or is_answer:
            return False
        with anyio.move_on_after(_PING_S):
            response = await self._open("POST", sent, encode_request(self._ids.next(), "ping"))
            try:
                await read_some(response, ERROR_BODY_BYTES)
                return response.status in (400, 404, 410)
            finally:
                await response.aclose()
        return False

    # -- one HTTP exchange ------------------------------------------------------------------------------------------

    async def _open(
        self, method: str, headers: Mapping[str, str], body: bytes = b"", flight: Flight | None = None
    ) -> HttpResponse:
        return await self._sender.open(method, self.url, headers, body, flight)

    async def _post_quietly(self, headers: Mapping[str, str], body: bytes) -> int:
        """Post a message that gets no response, and return the HTTP status."""
        response = await self._open("POST", headers, body)
        try:
            await read_some(response, ERROR_BODY_BYTES)
        finally:
            await response.aclose()
        return response.status

    async def _deliver(self, headers: Mapping[str, str], body: bytes) -> int:
        """Post a message that the server may get twice, up to `_DELIVERIES` times, and return the last HTTP status.

        Another process of the server takes it when the one that had the connection has ended.
        """
        wait_s = _DELIVERY_WAIT_S
        for _ in range(_DELIVERIES - 1):
            try:
                status = await self._post_quietly(headers, body)
                if status != _UNAVAILABLE:
                    return status
            except HttpProtocolError:
                raise  # it has an answer, though a broken one
            except (HttpConnectFailed, HttpConnectionLost) as error:
                logger.debug("%s; the message is sent again", error)
            await anyio.sleep(wait_s)
            wait_s *= 2
        return await self._post_quietly(headers, body)

    # -- event streams ----------------------------------------------------------------------------------------------

    async def _read_call_stream(self, response: HttpResponse, flight: Flight) -> Mapping[str, Any] | None:
        """Read messages until the response to a call, and return it; ``None`` if the stream ends before.

        Then ``flight.reader`` has the event id to resume from. If there is a response, the rest of the stream is read
        and closed in the background.
        """
        reader = flight.reader = EventReader(self._max_bytes)
        try:
            answer = cast("Mapping[str, Any] | None", await self._read_stream(response, reader, flight))
        except HttpConnectionLost as error:
            flight.lost = error
            return None
        if answer is not None:
            self._background.start(finish(response), "ferrule-finish")
        return answer

    async def _resume_or_fail(self, flight: Flight) -> Mapping[str, Any]:
        reader = flight.reader
        if reader is not None and reader.last_event_id and not self.is_stateless:
            return await self._resume(reader, flight)
        raise ConnectionClosed(
            f"The server at {self._where} ended the stream of {flight.method} without an answer"
        ) from flight.lost

    async def _read_stream(self, response: HttpResponse, reader: EventReader, flight: Flight | None) -> Any:
        """Handle messages until the response to ``flight``, and return it; ``None`` at the end of the stream."""
        while chunk := await response.receive():
            for event in reader.feed(chunk):
                if isinstance(event, EventTooLong):
                    raise ConnectionClosed(
                        f"An event from {self._where} is longer than max_message_bytes ({self._max_bytes})"
                    )
                if not event.data or event.event not in ("message", ""):
                    continue
                message = self._decoded(event)
                if message is not None and (answer := await self._take_all(message, flight)) is not None:
                    return answer
        return None

    def _decoded(self, event: ServerSentEvent) -> Any:
        try:
            return decode(event.data.removeprefix(_BOM))
        except DecodeError as error:
            logger.warning("Skipped an event from %s that is not JSON: %s", self._where, error)
            return None

    async def _resume(self, reader: EventReader, flight: Flight) -> Mapping[str, Any]:
        """Resume a call's stream over GET, after the time that the server requested (2025-11-25, "SSE polling")."""
        attempt = 0
        last_id, retry_ms = reader.last_event_id, reader.retry_ms
        pause_s = retry_delay_s(0, hint_ms=retry_ms)
        while attempt < MAX_RESUMES:
            await anyio.sleep(pause_s)
            attempt += 1
            fresh = EventReader(self._max_bytes, last_event_id=last_id, retry_ms=retry_ms)
            failed, after_s = "", 0.0
            try:
                response = await self._open("GET", self._get_headers(last_id))
                try:
                    if response.status in PASSING_STATUSES:
                        failed, after_s = f"HTTP {response.status}", retry_after_s(response.headers)
                    elif response.status != 200 or media_type(response) != "text/event-stream":
                        raise await self._lost_on_the_way(response, last_id, flight)
                    elif (answer := await self._read_stream(response, fresh, flight)) is not None:
                        return cast("Mapping[str, Any]", answer)
                finally:
                    await response.aclose()
            except (HttpConnectionLost, HttpConnectFailed, OSError) as error:
                failed = str(error)
            # A new event arrived: the server works, so that the count starts again.
            if fresh.last_event_id != last_id:
                attempt = 0
            last_id, retry_ms = fresh.last_event_id, fresh.retry_ms
            pause_s = retry_delay_s(attempt, hint_ms=retry_ms)
            if failed:
                pause_s = max(pause_s, after_s, retry_delay_s(attempt, hint_ms=None))
                level = logging.WARNING if attempt == 1 else logging.DEBUG
                logger.log(level, "The stream of %s could not be resumed (%s); trying again", flight.method, failed)
        raise ConnectionClosed(f"The stream of {flight.method} could not be resumed after {MAX_RESUMES} attempts")

    async def _lost_on_the_way(self, response: HttpResponse, last_id: str, flight: Flight) -> Exception:
        """Return the error for a refused resumption.

        Not `SessionLost`: after that error the client sends the call again, and this one may have been executed.
        """
        error = await self._failure(response, self._get_headers(last_id))
        if not isinstance(error, SessionLost):
            return error
        lost = ConnectionClosed(
            f"The server at {self._where} forgot the session in which {flight.method} was under way"
        )
        lost.__cause__ = error
        return lost

    def _get_headers(self, last_event_id: str = "") -> dict[str, str]:
        headers = {**self._base, "accept": "text/event-stream"}
        del headers["content-type"]
        if self.version is not None:
            headers[MCP_PROTOCOL_VERSION_HEADER] = self.version
        if self.session_id is not None:
            headers[MCP_SESSION_ID_HEADER] = self.session_id
        if last_event_id:
            headers[LAST_EVENT_ID_HEADER] = last_event_id
        return headers

    # -- messages ---------------------------------------------------------------------------------------------------

    async def _take_all(self, message: Any, flight: Flight | None) -> Mapping[str, Any] | None:
        """Handle a message, or each message of an array (2025-03-26); return the response to ``flight``, if any."""
        if not _is_batch(message) or self.is_stateless:
            return await self._take(message, flight)
        answer = None
        for one in message:
            if (found := await self._take(one, flight)) is not None:
                answer = found
        return answer

    async def _take(self, message: Any, flight: Flight | None) -> Mapping[str, Any] | None:
        """Handle one message; return it if it is the response to ``flight``."""
        try:
            kind = message_kind(message)
        except InvalidMessage as error:
            logger.warning("Skipped something from %s that is not a message: %s", self._where, error)
            return None
        if kind == "response":
            own = own_id(message.get("id"))
            # An error without an id on the stream of a call can only mean that call.
            is_ours = own == flight.id or (own is None and "error" in message) if flight is not None else False
            if is_ours:
                return cast("Mapping[str, Any]", message)
            self._take_stray(own, cast("Mapping[str, Any]", message))
            return None
        method, params = message["method"], message.get("params")
        if kind == "request":
            await self._serve(message["id"], method, params)
        elif method == "notifications/progress" and params is not None and await self._take_progress(params):
            pass
        else:
            id = cancelled_request_id(params) if method == "notifications/cancelled" else None
            if id is not None and (served := self._served.get(id)) is not None:
                served.cancel()
            await self._handle_notification(method, params)
        return None

    def _take_stray(self, id: int | None, message: Mapping[str, Any]) -> None:
        """Handle a response on the stream of another request, or on the GET stream: some legacy servers do that."""
        other = None if id is None else self._flights.get(id)
        if other is None:
            logger.debug("Dropped an answer to nothing: id %r", message.get("id"))
            return
        other.stray = message
        other.scope.cancel()

    async def _take_progress(self, params: Mapping[str, Any]) -> bool:
        token = params.get("progressToken")
        flight = None if (own := own_id(token)) is None else self._flights.get(own)
        if flight is None:
            return False
        await flight.progressed(params)
        return True

    async def _handle_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        asked = _Asked(self, None, params)
        try:
            await run_interruptible(self._on_notify(asked, method, params), asked)
        except BaseException as error:
            logger.error("The handling of %s failed", method, exc_info=failure_of(error, asked))
        finally:
            asked.interruption = None

    async def _serve(self, id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        if self.is_stateless:
            logger.warning(
                "Ignored %s from %s: servers of this revision send no requests", shown_text(method), self._where
            )
            return
        if len(self._served) < MAX_SERVED:
            self._served[id] = self._background.start(self._serve_one(id, method, params), f"ferrule-{method}")
            return
        logger.warning(
            "Refused %s from %s: %d requests of it are being served", shown_text(method), self._where, MAX_SERVED
        )
        refusal = InternalError("Too many requests are in flight").to_error()
        # The stream is not read meanwhile, which slows a server that sends too many requests.
        with anyio.move_on_after(_GOODBYE_S):
            await self._answer(method, encode_error(id, refusal))

    async def _serve_one(self, id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        asked = _Asked(self, id, params)
        try:
            try:
                result = await run_interruptible(self._on_request(asked, method, params), asked)
                body = encode_response(id, to_builtins({} if result is None else result))
            except BaseException as error:
                failure = failure_of(error, asked)
                if not isinstance(failure, FerruleError):
                    logger.error("Serving %s failed", method, exc_info=failure)
                body = encode_error(id, error_from_exception(failure))
                del failure  # its traceback holds this frame
            await self._answer(method, body)
        finally:
            asked.interruption = None
            self._served.pop(id, None)

    async def _answer(self, method: str, body: bytes) -> None:
        headers, _ = self._headers_for(method, None, None)
        try:
            status = await self._deliver(headers, body)
            if status >= 300:
                logger.warning("%s refused the answer to %s with HTTP %d", self._where, method, status)
        except (FerruleError, OSError) as error:
            logger.warning("The answer to %s did not reach the server: %s", method, error)

    async def _withdraw(self, id: int) -> None:
        """Send ``notifications/cancelled`` (legacy), since a disconnect is not a cancellation there."""
        with anyio.move_on_after(_GOODBYE_S):
            await self.notify("notifications/cancelled", {"requestId": id, "reason": "The caller no longer waits"})

    # -- the standing stream (legacy) -------------------------------------------------------------------------------

    def start_listening(self) -> None:
        """Keep a GET stream open for messages outside calls; does nothing if the server has none (405)."""
        if self._listening is None and not self._is_closed:
            stream = StandingStream(
                self._where, lambda id: self._open("GET", self._get_headers(id)), self._take_unasked, self._max_bytes
            )
            self._first_listen = stream.is_answered
            self._listening = self._background.start(stream.run(), "ferrule-listen")

    async def wait_listening(self, timeout_s: float) -> None:
        """Wait until the server has responded to the GET, for ``timeout_s`` seconds at most.

        Requests that the server sends before that may be lost.
        """
        with anyio.move_on_after(timeout_s):
            await self._first_listen.wait()

    def stop_listening(self) -> None:
        """Close the GET stream."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _take_unasked(self, event: ServerSentEvent) -> None:
        message = self._decoded(event)
        if message is not None:
            await self._take_all(message, None)

    async def wait_closed(self) -> None:
        """Wait forever: HTTP has no connection whose end could be reported."""
        await anyio.sleep_forever()

    # -- the end ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Fail pending requests, end a legacy session with DELETE, and release the connection. Any task; idempotent."""
        if self._is_closed:
            return
        # First: no request may start while the others are being ended.
        self._is_closed = True
        self.stop_listening()
        if self._deadlines is not None:
            self._deadlines.close()
        for flight in list(self._flights.values()):
            flight.reason = ConnectionClosed(f"The connection to {self._where} was closed during {flight.method}")
            flight.scope.cancel()
        session_id, self.session_id = self.session_id, None
        if session_id is not None and not self.is_stateless:
            await self._end_session(session_id)

    async def _end_session(self, session_id: str) -> None:
        headers = {**self._get_headers(), MCP_SESSION_ID_HEADER: session_id, "accept": _ACCEPT}
        with anyio.move_on_after(_GOODBYE_S):
            try:
                response = await self._open("DELETE", headers)
                try:
                    await read_some(response, ERROR_BODY_BYTES)
                finally:
                    await response.aclose()
            except (FerruleError, OSError) as error:
                logger.debug("The session could not be ended: %s", error)


def _plain_result(data: bytes, id: int) -> ToolResult | None:
    try:
        answer = decode_plain_answer(data)
    except Exception:  # not a result of the usual form
        return None
    return plain_result(answer, data) if answer.id == id else None


def _encoded_result(data: bytes, id: int) -> EncodedResult | None:
    try:
        answer = decode_encoded_answer(data)
    except Exception:  # not a result of the usual form
        return None
    return encoded_result(answer, data) if answer.id == id else None


def _error_answer(data: bytes) -> Mapping[str, Any] | None:
    """Return the JSON-RPC error response in a body; ``None`` if there is none."""
    try:
        message: Any = decode(data.removeprefix(_BOM))
        error = message["error"]
        return message if type(error["code"]) is int and type(error["message"]) is str else None
    except (DecodeError, KeyError, TypeError, ValueError, IndexError):
        return None


def _is_batch(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
