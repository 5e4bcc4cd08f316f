"""Streamable HTTP, the client's side, both eras: one POST per message, answers as JSON or as an event stream.

*Modern* (2026-07-28): every request is complete in itself; its headers mirror its body; cancelling it is closing its
response. *Legacy*: a session id, ``notifications/cancelled``, one standing GET stream for what the server says
unasked, and streams that break off and are resumed with ``Last-Event-ID``.

What never happens here: a call that waits for the GET stream (they share nothing but the id), a request sent twice
by itself, a redirect followed to another origin, a GET stream reopened without end. A lost session is reported as
`SessionLost`; making a new one is the client's affair, since only it can repeat the handshake.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar, cast

import anyio

from ferrule.kernel.dispatch import CallOptions, OnNotify, OnRequest, ProgressSender, TransportContext
from ferrule.protocol.correlation import IdSequence, cancelled_request_id
from ferrule.protocol.errors import (
    ConnectionClosed,
    LocalError,
    RequestTimeout,
    error_from_exception,
)
from ferrule.protocol.inbound import NAME_PARAMS, PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background, BackgroundTask
from ferrule.transports.http_bodies import Emptied, finish, read_all, read_some
from ferrule.transports.http_client import HttpClient, HttpConnectionLost, HttpRequest, HttpResponse
from ferrule.transports.http_errors import (
    HttpAuth,
    HttpCallOptions,
    HttpRemoteError,
    HttpStatusError,
    SessionLost,
    retry_delay_s,
)
from ferrule.transports.http_flight import Flight, off_the_clock, result_of, with_token
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
    RequestId,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    message_kind,
)
from ferrule.wire.revisions import REVISIONS
from ferrule.wire.sse import EventReader, EventTooLong

if TYPE_CHECKING:
    from ferrule.wire.sse import ServerSentEvent

__all__ = [
    "HttpAuth",
    "HttpCallOptions",
    "HttpRemoteError",
    "HttpStatusError",
    "SessionLost",
    "StreamableHttp",
    "retry_delay_s",
]

logger = logging.getLogger("ferrule.client.http")

T = TypeVar("T")

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 << 20
MAX_IDLE_REOPENS: Final = 5
"""GET streams in a row that ended without a message before the client stops reopening them."""
MAX_CHALLENGES: Final = 3
"""Times that one request is sent again because of a 401 or 403."""
MAX_RESUMES: Final = 20
"""Attempts in a row, without anything new, to resume the stream of one call."""
_SETTLED_STREAM_S: Final = 30.0
"""A GET stream that lived this long was worth having, even if it was silent."""
_ERROR_BODY_BYTES: Final = 64 * 1024
_GOODBYE_S: Final = 3.0
_ACCEPT: Final = "application/json, text/event-stream"


class _Asked(ProgressSender):
    """The dispatch context of a message from the server."""

    __slots__ = ("_http", "cancel_requested", "request_id", "transport")

    def __init__(self, http: StreamableHttp, request_id: RequestId | None, params: Mapping[str, Any] | None) -> None:
        self._http = http
        self._gate = None
        self.request_id = request_id
        self.transport = http.transport
        self.progress_params = params
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
    """One endpoint. Made, used and closed from any task.

    Args:
        url: of the endpoint.
        http: sends the requests.
        on_request: serves requests from the server (legacy).
        on_notify: takes its notifications.
        background: where its tasks live.
        headers: added to every request.
        auth: credentials.
        max_message_bytes: larger answers and events are refused.

    Attributes:
        version: the negotiated revision; ``None`` until then.
        session_id: of a legacy session; ``None`` without one.
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
        self.version: str | None = None
        self.session_id: str | None = None
        self._http = http
        self._on_request = on_request
        self._on_notify = on_notify
        self._background = background
        self._auth = auth
        self._observe: Callable[[HttpRequest, int, Mapping[str, str]], None] | None = getattr(auth, "observed", None)
        self._max_bytes = max_message_bytes
        self._ids = IdSequence()
        self._flights: dict[int, Flight] = {}
        self._served: dict[RequestId, BackgroundTask] = {}
        self._listening: BackgroundTask | None = None
        self._first_listen = anyio.Event()
        self._is_closed = False
        self._base = {"content-type": "application/json", "accept": _ACCEPT, "accept-encoding": "identity"}
        self._base.update({name.lower(): value for name, value in (headers or {}).items()})

    @property
    def is_modern(self) -> bool:
        """Which era was settled; the legacy rules hold until then."""
        return self.version is not None and REVISIONS[self.version].is_modern

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called."""
        return self._is_closed

    # -- requests -------------------------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the server and wait; see `ferrule.kernel.dispatch.Outbound`.

        Raises:
            HttpRemoteError, RemoteError: it answered with an error.
            HttpStatusError: it answered with an HTTP error only.
            SessionLost: the session is gone.
            RequestTimeout, ConnectionClosed: no answer.
        """
        if self._is_closed:
            raise ConnectionClosed(f"The connection to {self.url} is closed")
        options = opts or {}
        flight = Flight(self._ids.next(), method, options)
        headers, is_modern = self._headers_for(method, params, cast("HttpCallOptions", options).get("headers"))
        if flight.on_progress is not None or flight.resets:
            params = with_token(params, flight.id)
        body = encode_request(flight.id, method, params)
        self._flights[flight.id] = flight
        is_answered = False
        try:
            with flight.scope:
                flight.result = await self._exchange(flight, headers, body)
                is_answered = True
        except (FerruleError, OSError):
            is_answered = True  # so did the failure: there is nothing left to withdraw
            raise
        finally:
            del self._flights[flight.id]
            is_withdrawn = not is_answered and flight.stray is None
            if is_withdrawn and not is_modern and method != "initialize" and not self._is_closed:
                self._background.start(self._withdraw(flight.id), "ferrule-withdraw")
        if not is_answered:
            if flight.stray is not None:
                return cast("dict[str, Any]", result_of(flight.stray))
            if flight.reason is not None:
                raise flight.reason
            raise RequestTimeout(method, flight.timeout_s or 0.0)
        return cast("dict[str, Any]", flight.result)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tell the server something. What it answers, and whether it can be reached, is logged and no more."""
        headers, _ = self._headers_for(method, params, None)
        try:
            await self._post_quietly(headers, encode_notification(method, params))
        except (FerruleError, OSError) as error:
            logger.debug("%s did not reach the server: %s", method, error)

    def _headers_for(
        self, method: str, params: Mapping[str, Any] | None, extra: Mapping[str, str] | None
    ) -> tuple[dict[str, str], bool]:
        """The headers of a POST, and whether it is a modern one."""
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
                headers.update(extra)
            return headers, True
        if self.version is not None and method != "initialize":
            headers[MCP_PROTOCOL_VERSION_HEADER] = self.version
        if self.session_id is not None and method != "initialize":
            headers[MCP_SESSION_ID_HEADER] = self.session_id
        return headers, False

    async def _exchange(self, flight: Flight, headers: Mapping[str, str], body: bytes) -> Any:
        response = await self._open("POST", headers, body, flight)
        is_ours = True
        try:
            status = response.status
            if not 200 <= status < 300:
                raise await self._failure(response, headers)
            if flight.method == "initialize":
                self.session_id = response.headers.get(MCP_SESSION_ID_HEADER) or None
            kind = response.headers.get("content-type", "")
            if kind.startswith("text/event-stream"):
                answer = await self._read_call_stream(response, flight)
                is_ours = answer is None
                if answer is None:
                    answer = await self._resume_or_fail(flight)
                return result_of(answer)
            data = await read_all(response, self._max_bytes)
            if kind.startswith("application/json") or (data and not kind):
                return await self._read_json(data, flight)
        finally:
            if is_ours:
                await response.aclose()
        what = f"content of type {kind!r}" if data else "no content"
        raise HttpStatusError(status, response.headers, f"{what} where an answer was due", self.url)

    async def _read_json(self, data: bytes, flight: Flight) -> Any:
        try:
            message = decode(data)
        except DecodeError as error:
            raise ConnectionClosed(
                f"The server at {self.url} answered {flight.method} with broken JSON: {error}"
            ) from error
        messages = message if _is_batch(message) else [message]  # batches: 2025-03-26
        answer = None
        for one in messages:
            if (found := await self._take(one, flight)) is not None:
                answer = found
        if answer is None:
            raise ConnectionClosed(
                f"The server at {self.url} answered {flight.method} with something that is no answer"
            )
        return result_of(answer)

    async def _failure(self, response: HttpResponse, sent: Mapping[str, str]) -> Exception:
        """The error for an HTTP error status."""
        data = await read_some(response, _ERROR_BODY_BYTES)
        session_id = sent.get(MCP_SESSION_ID_HEADER)
        if response.status == 404 and session_id is not None:
            return SessionLost(session_id)
        try:
            message = decode(data)
            error = cast("dict[str, Any]", message)["error"]
            raised = HttpRemoteError(error["message"], code=error["code"])
        except (DecodeError, KeyError, TypeError, ValueError):
            return HttpStatusError(response.status, response.headers, data.decode("utf-8", "replace"), self.url)
        if "data" in error:
            raised.data = error["data"]
        raised.http_status = response.status
        raised.challenge = response.headers.get("www-authenticate")
        return raised

    # -- one HTTP exchange ------------------------------------------------------------------------------------------

    async def _open(
        self, method: str, headers: Mapping[str, str], body: bytes = b"", flight: Flight | None = None
    ) -> HttpResponse:
        """Send one request with credentials; follows one redirect within the origin."""
        request = HttpRequest(method, self.url, headers, body)
        if self._auth is None:
            response = await self._http.open(request)
        else:
            response = await self._authorized(request, headers, flight)
        if response.status in (307, 308) and (moved := _same_origin(self.url, response.headers.get("location"))):
            await read_some(response, _ERROR_BODY_BYTES)
            await response.aclose()
            logger.info("%s redirects to %s; that URL is used from now on", self.url, moved)
            self.url = moved
            request = HttpRequest(method, moved, headers, body)
            if self._auth is None:
                return await self._http.open(request)
            return await self._authorized(request, headers, flight)
        return response

    async def _authorized(
        self, request: HttpRequest, headers: Mapping[str, str], flight: Flight | None
    ) -> HttpResponse:
        """Send a request with credentials, again where the server's challenge could be met.

        Getting credentials may take a person's time, so a call's clock stands still meanwhile.
        """
        auth = cast("HttpAuth", self._auth)
        attempts = 0
        while True:
            request.headers = {**headers, **await off_the_clock(flight, auth.headers(request))}
            response = await self._http.open(request)
            if self._observe is not None:
                self._observe(request, response.status, response.headers)
            if response.status not in (401, 403) or attempts >= MAX_CHALLENGES:
                return response
            attempts += 1
            said = await read_some(response, _ERROR_BODY_BYTES)
            challenged = auth.challenged(request, response.status, response.headers)
            if not await off_the_clock(flight, challenged):
                return Emptied(response, said)
            await response.aclose()

    async def _post_quietly(self, headers: Mapping[str, str], body: bytes) -> None:
        response = await self._open("POST", headers, body)
        try:
            if response.status >= 300:
                logger.debug("The server answered a notification or response with HTTP %d", response.status)
            await read_some(response, _ERROR_BODY_BYTES)
        finally:
            await response.aclose()

    # -- event streams ----------------------------------------------------------------------------------------------

    async def _read_call_stream(self, response: HttpResponse, flight: Flight) -> Mapping[str, Any] | None:
        """Messages until the answer to a call; ``None``: the stream ended without it, and the flight says from where
        to go on. With an answer the response has found another owner."""
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
        if reader is not None and reader.last_event_id and not self.is_modern:
            return await self._resume(reader, flight)
        raise ConnectionClosed(
            f"The server at {self.url} ended the stream of {flight.method} without an answer"
        ) from flight.lost

    async def _read_stream(self, response: HttpResponse, reader: EventReader, flight: Flight | None) -> Any:
        """Take messages until the answer to ``flight``, which is returned, or the end of the stream: ``None``."""
        while chunk := await response.receive():
            for event in reader.feed(chunk):
                if isinstance(event, EventTooLong):
                    raise ConnectionClosed(
                        f"An event from {self.url} is longer than max_message_bytes ({self._max_bytes})"
                    )
                if not event.data or event.event not in ("message", ""):
                    continue
                message = self._decoded(event)
                if message is not None and (answer := await self._take(message, flight)) is not None:
                    return answer
        return None

    def _decoded(self, event: ServerSentEvent) -> Any:
        try:
            return decode(event.data)
        except DecodeError as error:
            logger.warning("Skipped an event from %s that is not JSON: %s", self.url, error)
            return None

    async def _resume(self, reader: EventReader, flight: Flight) -> Mapping[str, Any]:
        """Go on with a call's stream over GET, waiting as long as the server asked (2025-11-25, "SSE polling")."""
        attempt = 0
        last_id, retry_ms = reader.last_event_id, reader.retry_ms
        while attempt < MAX_RESUMES:
            await anyio.sleep(retry_delay_s(attempt, hint_ms=retry_ms))
            attempt += 1
            fresh = EventReader(self._max_bytes)
            fresh.last_event_id, fresh.retry_ms = last_id, retry_ms
            try:
                response = await self._open("GET", self._get_headers(last_id))
            except (HttpConnectionLost, LocalError) as error:
                logger.debug("Resuming %s failed: %s", flight.method, error)
                continue
            try:
                if response.status != 200 or not response.headers.get("content-type", "").startswith("text/event"):
                    raise await self._failure(response, self._get_headers(last_id))
                answer = await self._read_stream(response, fresh, flight)
                if answer is not None:
                    return cast("Mapping[str, Any]", answer)
            except HttpConnectionLost:
                pass
            finally:
                await response.aclose()
            if fresh.last_event_id != last_id:
                attempt = 0
            last_id, retry_ms = fresh.last_event_id, fresh.retry_ms
        raise ConnectionClosed(f"The stream of {flight.method} could not be resumed after {MAX_RESUMES} attempts")

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

    async def _take(self, message: Any, flight: Flight | None) -> Mapping[str, Any] | None:
        """Act on one message; the message itself if it answers ``flight``."""
        try:
            kind = message_kind(message)
        except InvalidMessage as error:
            logger.warning("Skipped something from %s that is no message: %s", self.url, error)
            return None
        if kind == "response":
            id = message.get("id")
            if flight is not None and (id == flight.id or id == str(flight.id) or (id is None and "error" in message)):
                return cast("Mapping[str, Any]", message)
            self._take_stray(id, cast("Mapping[str, Any]", message))
            return None
        method, params = message["method"], message.get("params")
        if kind == "request":
            self._serve(message["id"], method, params)
        elif method == "notifications/progress" and params is not None and await self._take_progress(params):
            pass
        else:
            if method == "notifications/cancelled" and (served := self._served.get(cancelled_request_id(params) or "")):
                served.cancel()
            await self._tell(method, params)
        return None

    def _take_stray(self, id: Any, message: Mapping[str, Any]) -> None:
        """An answer on a stream of another request, or on the standing one: some legacy servers do that."""
        other = self._flights.get(id) if type(id) is int else None
        if other is None:
            logger.debug("Dropped an answer to nothing: id %r", id)
            return
        other.stray = message
        other.scope.cancel()

    async def _take_progress(self, params: Mapping[str, Any]) -> bool:
        token = params.get("progressToken")
        flight = self._flights.get(token) if type(token) is int else None
        if flight is None:
            return False
        await flight.progressed(params)
        return True

    async def _tell(self, method: str, params: Mapping[str, Any] | None) -> None:
        try:
            await self._on_notify(_Asked(self, None, params), method, params)
        except Exception:
            logger.exception("The handling of %s failed", method)

    def _serve(self, id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        if self.is_modern:
            logger.warning("Ignored %s from %s: servers of this revision send no requests", method, self.url)
            return
        self._served[id] = self._background.start(self._serve_one(id, method, params), f"ferrule-{method}")

    async def _serve_one(self, id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        try:
            try:
                result = await self._on_request(_Asked(self, id, params), method, params)
                body = encode_response(id, to_builtins({} if result is None else result))
            except Exception as error:
                if not isinstance(error, FerruleError):
                    logger.exception("Serving %s failed", method)
                body = encode_error(id, error_from_exception(error))
            headers, _ = self._headers_for(method, None, None)
            try:
                await self._post_quietly(headers, body)
            except (FerruleError, OSError) as error:
                logger.warning("The answer to %s did not reach the server: %s", method, error)
        finally:
            self._served.pop(id, None)

    async def _withdraw(self, id: int) -> None:
        """Legacy: a disconnect is no cancellation, so say it."""
        with anyio.move_on_after(_GOODBYE_S):
            await self.notify("notifications/cancelled", {"requestId": id, "reason": "The caller no longer waits"})

    # -- the standing stream (legacy) -------------------------------------------------------------------------------

    def start_listening(self) -> None:
        """Keep a GET stream open for what the server says outside calls; 405 means that it has none."""
        if self._listening is None and not self._is_closed:
            self._first_listen = anyio.Event()
            self._listening = self._background.start(self._listen(), "ferrule-listen")

    async def wait_listening(self, timeout_s: float) -> None:
        """Wait until the server has answered the GET, either way: what it asks before that may be lost."""
        with anyio.move_on_after(timeout_s):
            await self._first_listen.wait()

    def stop_listening(self) -> None:
        """Close the GET stream."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _listen(self) -> None:
        last_id, retry_ms, idle = "", None, 0
        while idle < MAX_IDLE_REOPENS:
            reader = EventReader(self._max_bytes)
            reader.last_event_id, reader.retry_ms = last_id, retry_ms
            started = anyio.current_time()
            taken = _Counter()
            if not await self._listen_once(reader, taken):
                return
            last_id, retry_ms = reader.last_event_id, reader.retry_ms
            worthwhile = taken.count or anyio.current_time() - started >= _SETTLED_STREAM_S
            idle = 0 if worthwhile else idle + 1
            await anyio.sleep(retry_delay_s(idle, hint_ms=retry_ms))
        logger.info("%s closed its event stream %d times at once; it is not reopened", self.url, idle)

    async def _listen_once(self, reader: EventReader, taken: _Counter) -> bool:
        """Read one GET stream to its end; whether another may be opened."""
        try:
            response = await self._open("GET", self._get_headers(reader.last_event_id))
        except (FerruleError, OSError) as error:
            logger.debug("The event stream of %s could not be opened: %s", self.url, error)
            self._first_listen.set()
            return not self._is_closed
        self._first_listen.set()
        try:
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            if response.status != 200 or not is_stream:
                logger.debug("%s has no event stream (HTTP %d)", self.url, response.status)
                return response.status >= 500
            while chunk := await response.receive():
                for event in reader.feed(chunk):
                    if isinstance(event, EventTooLong) or not event.data or event.event not in ("message", ""):
                        continue
                    taken.count += 1
                    message = self._decoded(event)
                    if message is not None:
                        await self._take(message, None)
        except (FerruleError, OSError) as error:
            logger.debug("The event stream of %s broke: %s", self.url, error)
        finally:
            await response.aclose()
        return not self._is_closed

    async def wait_closed(self) -> None:
        """HTTP has no connection that could end: waits for ever."""
        await anyio.sleep_forever()

    # -- the end ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Fail what is under way, end a legacy session with DELETE, and let go. Any task; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stop_listening()
        for flight in list(self._flights.values()):
            flight.reason = ConnectionClosed(f"The connection to {self.url} was closed during {flight.method}")
            flight.scope.cancel()
        session_id, self.session_id = self.session_id, None
        if session_id is not None and not self.is_modern:
            await self._end_session(session_id)

    async def _end_session(self, session_id: str) -> None:
        headers = {**self._get_headers(), MCP_SESSION_ID_HEADER: session_id, "accept": _ACCEPT}
        with anyio.move_on_after(_GOODBYE_S):
            try:
                response = await self._open("DELETE", headers)
                await read_some(response, _ERROR_BODY_BYTES)
                await response.aclose()
            except (FerruleError, OSError) as error:
                logger.debug("The session could not be ended: %s", error)


class _Counter:
    count = 0


def _is_batch(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _same_origin(url: str, location: str | None) -> str | None:
    """Where a redirect leads, if that is the same scheme, host and port."""
    if location is None:
        return None
    from urllib.parse import urljoin, urlsplit

    moved = urljoin(url, location)
    one, other = urlsplit(url), urlsplit(moved)
    same = (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)
    return moved if same and moved != url else None
