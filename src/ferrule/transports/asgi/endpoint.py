"""The HTTP endpoint: one URL for both eras, as an ASGI application.

Order of the checks, cheapest and safest first: path, Origin and Host, method, content type and Accept, authentication,
body size, JSON. Then the era is determined for each request by its body and headers:

===================================================  ===================================================
a POST whose                                         is
===================================================  ===================================================
``params._meta`` holds a key of the modern envelope  modern (one that names a legacy version: -32022)
method is ``initialize``                             legacy; -32022 where only the modern era is served
version header names a modern revision               modern (its checks then report what is missing)
method is ``server/discover``, without a session     modern
version header is unknown, without a session         modern, -32022
anything else                                        legacy
===================================================  ===================================================

The callable starts its server's lifespan on first use, follows ASGI lifespan events where a host sends them, and can
start again after a shutdown. It serves below any mounting prefix (``root_path``), with and without a slash at the end,
never with a redirect.

``__call__`` runs for every request, so rare cases are in methods of their own.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from ferrule.kernel.concurrency.yielding import move_to_loop
from ferrule.kernel.fast_path.fast_tools import fast_tools_of
from ferrule.kernel.gauges import gauges_of
from ferrule.kernel.server import Server
from ferrule.protocol.era import is_handshake_version
from ferrule.protocol.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER, has_modern_envelope
from ferrule.transports.asgi.fast_path import ModernFastPath
from ferrule.transports.asgi.gate import HttpGate
from ferrule.transports.asgi.headers.media import accepts, is_json_content_type
from ferrule.transports.asgi.modern.endpoint import ModernEndpoint
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.asgi.replies import KeepAlive, RawHeaders, Receive, Send, close_websocket
from ferrule.transports.asgi.request import BEGINS_IN_THREAD_KEY, IncomingRequest
from ferrule.transports.asgi.runtime import AsyncioRuntime, Runtime, ThreadRuntime
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.headers import MCP_SESSION_ID_HEADER
from ferrule.wire.jsonrpc import (
    InvalidMessage,
    JsonRpcErrorCode,
    message_kind,
    readable_id,
)
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from ferrule.transports.asgi.legacy.endpoint import LegacyEndpoint

__all__ = ["HttpEndpoint"]

# Real clients send a few different pairs; others are checked in each request.
_MEMO_LIMIT = 256
_INVALID = int(JsonRpcErrorCode.INVALID_REQUEST)


class _HeaderNames(dict[bytes, str]):
    """Header names as text, each stored once: they recur in every request and stay in memory with open streams."""

    def __missing__(self, name: bytes) -> str:
        text = name.decode("latin-1")
        if len(self) < _MAX_NAMES and len(name) <= _MAX_NAME_BYTES:  # bounded, because clients choose the names
            self[name] = text
        return text


_MAX_NAMES: Final = 256
_MAX_NAME_BYTES: Final = 64
_NAMES = _HeaderNames()


class HttpEndpoint(HttpGate):
    """The ASGI callable of one server.

    Args:
        server: the served server.
        options: the settings; ``None`` takes the defaults.

    Attributes:
        plain_calls: the fast path of plain calls; ``None`` without one.
        modern, legacy: the endpoints of the two eras; ``legacy`` is ``None`` if it is turned off.
    """

    serves_public_documents: ClassVar[bool] = True

    def __init__(self, server: Server[Any], options: HttpOptions | None = None) -> None:
        super().__init__(server, options)
        options = self.options
        keep_alive = KeepAlive(options.keep_alive_s)
        self.modern = ModernEndpoint(server, keep_alive, options.disconnect_grace_s)
        self.legacy = self._legacy_endpoint(keep_alive)
        tools = fast_tools_of(server)
        self.plain_calls = None if tools is None else ModernFastPath(tools, server, self.modern, self.life)
        gauges = gauges_of(server)
        gauges.add("streams", keep_alive, len)
        if self.legacy is not None:
            gauges.add("sessions", self.legacy, lambda side: len(side.sessions))
        # Both spellings: a redirect would lose the body or the token of a POST in some clients.
        route = options.path.rstrip("/")
        self._paths = {route, route + "/"}
        # Raw (content type, Accept) pairs that passed; bounded, because clients choose them.
        self._known_media: set[tuple[str | None, str | None]] = set()

    @property
    def spoken_versions(self) -> tuple[str, ...]:
        """The protocol versions that this endpoint serves, newest first."""
        legacy = () if self.legacy is None else HANDSHAKE_PROTOCOL_VERSIONS
        return (*super().spoken_versions, *reversed(legacy))

    def _legacy_endpoint(self, keep_alive: KeepAlive) -> "LegacyEndpoint | None":
        """Return the endpoint of the handshake revisions; ``None`` if they are turned off or were removed."""
        if not self.options.legacy or not HANDSHAKE_PROTOCOL_VERSIONS:
            return None
        # The one import of the legacy folder in this layer.
        from ferrule.transports.asgi.legacy.endpoint import LegacyEndpoint

        return LegacyEndpoint(self.server, self.options, keep_alive, self.life)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        raw_headers = scope["headers"]
        # Latin-1 never fails (RFC 9110, section 5.5); spaces around a value are not part of it.
        headers = {_NAMES[name]: value.strip().decode("latin-1") for name, value in raw_headers}
        request = IncomingRequest(scope, receive, send, headers)
        # Some ASGI servers parse the body of such a request as the next one.
        if "upgrade" in headers or "expect" in headers:
            self._end_with_answer(request)
        if scope["path"] not in self._paths and not self._is_ours(scope):
            await self._serve_elsewhere(request)
            return
        # A repeated name makes the dict shorter than the list.
        if len(headers) != len(raw_headers) and not await self._join_headers(request):
            return
        host, origin = headers.get("host"), headers.get("origin")
        is_known = (host, origin) in self.security.known_pairs and origin is None and not self.security.reads_forwarded
        if is_known:
            request.authority = host
        elif not await self._admit(request, origin):
            return
        if scope["method"] != "POST":
            await self._serve_verb(request)
            return
        media = (headers.get("content-type"), headers.get("accept"))
        # Before authentication, since it is cheap; a wrong content type may come from a web page (`media`).
        if media not in self._known_media and not await self._check_media(request):
            return
        runtime = self.life.running_on
        begins_in_thread = scope.get(BEGINS_IN_THREAD_KEY)
        # Another event loop may run by now, under serverless hosts and in tests.
        if runtime is None or not runtime.is_live():
            runtime = await self._start(request)
            if runtime is None:
                return
        if self.options.authenticate is not None and not await self._authenticate(request):
            return
        # The body is read only after authentication: anonymous clients cannot make the server store it.
        message = await request.receive()
        if message["type"] != "http.request":
            return  # the client disconnected before it sent a body
        body: bytes = message.get("body", b"")
        # Most bodies arrive in one message, which needs no copy.
        if message.get("more_body", False) or len(body) > self._max_body_bytes:
            whole = await self._read_body(request, body, message.get("more_body", False))
            if whole is None:
                return
            body = whole
        # Where a plain call of this client would be one; the body says later which era the request belongs to.
        is_legacy = MCP_SESSION_ID_HEADER in headers or (self.options.stateless and MCP_METHOD_HEADER not in headers)
        plain_calls = self.plain_calls if self.legacy is None or not is_legacy else self.legacy.plain_calls
        if plain_calls is not None and begins_in_thread is None:
            serving = plain_calls.try_serve(request, body, runtime)
            if serving is not None:
                await serving
                return
        try:
            decoded = decode(body)
        except DecodeError as error:
            await request.refuse(400, int(JsonRpcErrorCode.PARSE_ERROR), str(error))
            return
        if begins_in_thread is not None:
            runtime = await _runtime_of(begins_in_thread, decoded, runtime)
        del message, body  # a listen request stays open for hours: release the body
        if type(decoded) is dict:
            await self._dispatch(request, decoded, runtime)  # pyright: ignore[reportUnknownArgumentType]
        else:
            await self._serve_array(request, decoded, runtime)

    # --- the era ----------------------------------------------------------------------------------------------------

    def _dispatch(self, request: IncomingRequest, message: dict[str, Any], runtime: Runtime) -> Awaitable[None]:
        """Determine the era of a request; return an awaitable that serves it."""
        headers = request.headers
        state = self.life.state
        method, params = message.get("method"), message.get("params")
        if not has_modern_envelope(params):
            version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
            # Only the legacy era has session ids, so that the other members of the request do not matter.
            has_session = MCP_SESSION_ID_HEADER in headers
            is_modern = version in self.server.modern_versions or (method == "server/discover" and not has_session)
            is_unknown = version is not None and not is_handshake_version(version) and not has_session
            if method == "initialize" or not (is_modern or is_unknown):
                if self.legacy is None:
                    return self._refuse_legacy(request, message)
                return self.legacy.serve_post(request, message, runtime, state)
            if is_unknown and not is_modern:
                return self._refuse_version(request, message, version)
        id = message.get("id")
        # What `message_kind` checks, for a request in its usual form, without the call.
        if (type(id) is int or type(id) is str) and type(method) is str and method and message.get("jsonrpc") == "2.0":
            if type(params) is dict:
                return self.modern.serve_request(request, message, runtime, state)
            if params is None:
                # The check of the envelope then reports the missing keys: more precise than "invalid request".
                message["params"] = {}
        try:
            kind = message_kind(message)
        except InvalidMessage as error:
            return request.refuse(400, error.code, str(error), id=error.id)
        if kind == "request":
            return self.modern.serve_request(request, message, runtime, state)
        if kind == "notification":
            return self.modern.serve_notification(request, message, runtime, state)
        # 2026-07-28, "Overview": the server sends no requests.
        return request.refuse(400, _INVALID, "A client sends no responses in this era")

    async def _serve_array(self, request: IncomingRequest, body: Any, runtime: Runtime) -> None:
        """Serve a body that is not an object: a batch in 2025-03-26, an error in all other revisions."""
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        is_legacy = MCP_SESSION_ID_HEADER in request.headers or self.options.stateless
        if isinstance(body, list) and is_legacy and self.legacy and version not in self.server.modern_versions:
            await self.legacy.serve_post(request, body, runtime, self.life.state)
            return
        what = "A batch of messages is not accepted here" if isinstance(body, list) else "A message is an object"
        await request.refuse(400, _INVALID, what)

    async def _refuse_legacy(self, request: IncomingRequest, body: Mapping[str, Any]) -> None:
        """Refuse a legacy message where only the modern era is served; the error lists the supported versions."""
        params: Any = body.get("params")
        requested: Any = cast("dict[str, Any]", params).get("protocolVersion") if isinstance(params, dict) else None
        # "Versioning": the error names the supported versions. Legacy clients show their user nothing else.
        await self._refuse_version(request, body, requested)

    async def _refuse_version(self, request: IncomingRequest, body: Mapping[str, Any], requested: Any) -> None:
        supported = list(self.server.modern_versions)
        await request.refuse(
            400,
            int(JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION),
            f"Unsupported protocol version; this server speaks {', '.join(supported)}",
            id=readable_id(body),
            data={"supported": supported, "requested": requested},
        )

    # --- rare cases -------------------------------------------------------------------------------------------------

    async def _serve_other(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self.health.is_draining = False
            await self.life.serve_lifespan(receive, send, self._forget)
        elif scope["type"] == "websocket":
            await close_websocket(send)

    def _is_ours(self, scope: Mapping[str, Any]) -> bool:
        """Return whether the path is this endpoint's; ASGI hosts differ in whether ``path`` includes ``root_path``."""
        path, root = scope["path"], scope.get("root_path", "").rstrip("/")
        return bool(root) and path.startswith(root) and path[len(root) :] in self._paths

    async def _serve_verb(self, request: IncomingRequest) -> None:
        method = request.scope["method"]
        origin = request.headers.get("origin")
        if method == "OPTIONS":
            headers: RawHeaders = [(b"allow", self._allowed())]
            if origin is not None:
                wanted = request.headers.get("access-control-request-headers")
                request.reply_headers = self.security.preflight_headers(origin, wanted)
            await request.reply_empty(204, headers)
            return
        names_modern = request.headers.get(MCP_PROTOCOL_VERSION_HEADER) in self.server.modern_versions
        # The modern era has POST only ("Streamable HTTP").
        if method not in ("GET", "DELETE") or self.legacy is None or names_modern:
            await request.reply_empty(405, [(b"allow", self._allowed())])
            return
        runtime = await self._start(request)
        if runtime is None:
            return
        if self.options.authenticate is not None and not await self._authenticate(request):
            return
        if method == "DELETE":
            await self.legacy.serve_delete(request)
        elif self.is_ending and not self.options.stateless:
            await self._refuse_ending(request)
        elif accepts(request.headers.get("accept", ""), "text/event-stream"):
            await self.legacy.serve_get(request, runtime)
        else:
            await request.refuse(406, _INVALID, "A client that opens a stream accepts text/event-stream")

    def _allowed(self) -> bytes:
        return b"POST, OPTIONS" if self.legacy is None or self.options.stateless else b"GET, POST, DELETE, OPTIONS"

    async def _check_media(self, request: IncomingRequest) -> bool:
        content_type, accept = request.headers.get("content-type"), request.headers.get("accept")
        if content_type is None or not is_json_content_type(content_type):
            await request.refuse(415, _INVALID, "The content type of a message is application/json")
            return False
        wanted = ["application/json"]
        if self.options.response_mode != "json":
            wanted.append("text/event-stream")
        if not all(accepts(accept or "", media_type) for media_type in wanted):
            await request.refuse(406, _INVALID, f"A client accepts {' and '.join(wanted)}")
            return False
        if len(self._known_media) < _MEMO_LIMIT:
            self._known_media.add((content_type, accept))
        return True

    def _begin(self, runtime: Runtime) -> None:
        super()._begin(runtime)
        self.modern.is_ending = False

    # --- the end ----------------------------------------------------------------------------------------------------

    def announce_drain(self) -> None:
        """Announce a shutdown: the readiness probe fails from now on. Requests are served as before."""
        self.health.is_draining = True

    async def drain(self) -> None:
        """Begin the shutdown: end the streams in the protocol's way; requests in flight may finish."""
        await super().drain()
        # First: load balancers must see it before the connections close.
        self.announce_drain()
        self.modern.end_streams()
        if self.legacy is not None:
            await self.legacy.end_streams()

    async def aclose(self) -> None:
        """End the streams and sessions and stop the server's lifespan. A later request starts it again."""
        await self.drain()
        # Streams and sessions end before the lifespan, which closes what they use.
        await self._forget()
        await self.life.stop()
        self.health.is_draining = False

    async def _forget(self) -> None:
        if self.legacy is not None:
            await self.legacy.end_sessions()


async def _runtime_of(is_served_in_thread: Callable[[Any], bool], message: Any, runtime: Runtime) -> Runtime:
    """Return the runtime of a request that its thread has begun; the event loop goes on if the thread cannot."""
    if isinstance(runtime, AsyncioRuntime) and is_served_in_thread(message):
        return ThreadRuntime(runtime)
    await move_to_loop()
    return runtime
