"""The checks that every HTTP request passes before its message is read: origin, headers, authentication, body size.

Shared by the Streamable HTTP endpoint and the deprecated HTTP+SSE one. A check that refuses a request sends the
response itself and returns ``False`` or ``None``; it raises nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from ferrule.kernel.concurrency.yielding import move_to_loop
from ferrule.kernel.protection import hooks_of
from ferrule.kernel.server import Server
from ferrule.stores.blobs import probe
from ferrule.transports.asgi.body import BodyTooLarge, ClientGone, read_body, refuse_body
from ferrule.transports.asgi.context import HttpContext, HttpRefusal, raw_headers
from ferrule.transports.asgi.health import Health, ReadyCheck
from ferrule.transports.asgi.lifecycle import LifespanRunner
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.asgi.public_documents import (
    ENDPOINT_PATH_KEY,
    PROXY_HEADERS,
    DocumentRequest,
    PublicDocuments,
)
from ferrule.transports.asgi.replies import LastAnswer, send_document
from ferrule.transports.asgi.request import IncomingRequest
from ferrule.transports.asgi.runtime import Runtime, current_runtime
from ferrule.transports.asgi.security import SecurityPolicy
from ferrule.transports.asgi.signals import ShutdownSignals
from ferrule.wire.jsonrpc import JsonRpcError, JsonRpcErrorCode, encode_error

__all__ = ["HttpGate"]

log = logging.getLogger("ferrule.http")

_INVALID = int(JsonRpcErrorCode.INVALID_REQUEST)
# Allowed once only: with two different values a proxy and this server could read different requests (RFC 9110, 5.3).
_SINGLE_HEADERS = frozenset(
    {"host", "origin", "content-type", "content-length", "authorization", "last-event-id", "x-forwarded-host"}
)


class HttpGate:
    """The checks of one endpoint, with their options and state.

    Args:
        server: the served server; its protection, if any, supplies the hooks (`ferrule.kernel.protection`).
        options: the settings; ``None`` takes the defaults.
        paths: the endpoint's paths below the mounting prefix, the main one first; without any, that of the options.

    Attributes:
        paths: every path below the mounting prefix that does not return 404: of the endpoint with and without a final
            slash, of the protected resource's metadata, of health and readiness.
        options: the settings, with the hooks of the server's protection.
        server: the served server.
        life: runs the server's lifespan.
        security: the Origin and Host rules.
        health: the documents of health and readiness.
        is_ending: whether a shutdown has begun; no stream is opened any more.
        serves_public_documents: whether this kind of endpoint serves the public documents of its server.
    """

    serves_public_documents: ClassVar[bool] = False

    def __init__(self, server: Server[Any], options: HttpOptions | None = None, *paths: str) -> None:
        options = options or HttpOptions()
        # The main route without a slash: metadata documents are derived from it (RFC 9728, section 3.1).
        routes = [path.rstrip("/") for path in paths or (options.path,)]
        authenticate, documents = hooks_of(server.protection, options.authenticate, options.documents, routes[0])
        self.options = options = replace(options, authenticate=authenticate, documents=documents)
        self.server = server
        self.is_ending = False
        self._signals = ShutdownSignals(self._on_shutdown_signal)
        self.life = LifespanRunner(server, self._begin, self._signals.leave)
        self.security = SecurityPolicy(
            loopback=options.loopback,
            allowed_hosts=options.allowed_hosts,
            allowed_origins=options.allowed_origins,
            trusted_proxies=options.trusted_proxies,
        )
        self.health = Health(self.life.start, _checks(options), options.clock)
        self._max_body_bytes = options.max_body_bytes
        beside = [*(() if server.protection is None else server.protection.document_paths(routes[0]))]
        self._public: PublicDocuments | None = None
        self._public_paths: frozenset[str] = frozenset()
        if self.serves_public_documents:
            public = self._public = server.attachments.get(PublicDocuments)  # type: ignore[type-abstract]
            if public is not None:
                self._public_paths = frozenset(public.paths(routes[0]))
                beside += self._public_paths
        beside += [path for path in (options.health_path, options.ready_path) if path]
        served = [path for route in routes for path in (route, f"{route}/") if path]
        self.paths: tuple[str, ...] = tuple(dict.fromkeys([*served, *beside]))

    def answers(self, scope: Mapping[str, Any]) -> bool:
        """Return whether an HTTP request is for the endpoint or one of its other documents (`paths`).

        For a host application that routes requests itself. Paths of its own ``documents`` hook are not included.

        Args:
            scope: the ASGI scope.
        """
        if scope["type"] != "http":
            return False
        path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
        own = path[len(root) :] if path == root or path.startswith(f"{root}/") else path
        return (own or "/") in self.paths

    def _begin(self, runtime: Runtime) -> None:
        self.is_ending = False
        self._signals.follow(runtime)

    def _on_shutdown_signal(self) -> None:
        if not self.is_ending:
            # In a task: a callback of the event loop cannot wait.
            current_runtime().spawn(self.drain)

    async def drain(self) -> None:
        """Begin the shutdown: end the streams in the protocol's way; requests in flight may finish."""
        self.is_ending = True

    async def _refuse_ending(self, request: IncomingRequest) -> None:
        """Refuse a new stream during the shutdown: it would never end."""
        code = int(JsonRpcErrorCode.INTERNAL_ERROR)
        # After a second the load balancer sends the request to another instance.
        await request.refuse(503, code, "The server is shutting down", headers=[(b"retry-after", b"1")])

    def _end_with_answer(self, request: IncomingRequest) -> None:
        """Close the connection after the response to a request with ``Upgrade`` or ``Expect``; see `LastAnswer`."""
        # HTTP/2 has no such ambiguity, and no `Connection` header.
        if str(request.scope.get("http_version", "1.1")).startswith("1"):
            last = LastAnswer(request.receive, request.send, is_last="upgrade" in request.headers)
            request.receive, request.send = last.receive, last.send

    async def _join_headers(self, request: IncomingRequest) -> bool:
        """Join repeated headers that may be lists; refuse repeated headers that must be one value."""
        headers = request.headers
        seen: dict[str, list[str]] = {}
        for raw_name, raw_value in request.scope["headers"]:
            seen.setdefault(raw_name.decode("latin-1").lower(), []).append(raw_value.strip().decode("latin-1"))
        headers.clear()
        for name, values in seen.items():
            if len(values) > 1 and (name in _SINGLE_HEADERS or name.startswith("mcp-")):
                code = JsonRpcErrorCode.HEADER_MISMATCH if name.startswith("mcp-") else JsonRpcErrorCode.INVALID_REQUEST
                await request.refuse(400, int(code), f"The {name} header is given more than once")
                return False
            # RFC 9110, section 5.3; cookies have their own separator (RFC 6265, section 5.4).
            headers[name] = "; ".join(values) if name == "cookie" else ", ".join(values)
        return True

    async def _admit(self, request: IncomingRequest, origin: str | None) -> bool:
        host = self.security.effective_host(request.headers, request.scope.get("client"))
        refusal = self.security.refuse(host, origin)
        if refusal is not None:
            await request.refuse(403, _INVALID, refusal)
            return False
        request.authority = host
        if origin is not None:
            request.reply_headers = self.security.cors_headers(origin)
        if self.security.reads_forwarded:
            socket = request.scope.get("client")
            client = self.security.effective_client(request.headers, socket)
            if client is not None:
                # A copy: the scope belongs to the host application. Port 0, because proxies do not forward it.
                request.scope = {**request.scope, "client": (client, 0)}
            scheme = self.security.effective_scheme(request.headers, socket)
            if scheme is not None:
                request.scope = {**request.scope, "scheme": scheme}
        return True

    async def _serve_elsewhere(self, request: IncomingRequest) -> None:
        """Serve a request for another path than the endpoint's."""
        documents = self.options.documents
        # Documents of an application take precedence over the probes: the application chose their paths.
        found = None if documents is None else documents(request.context())
        if found is None:
            own = _path_below_mount(request.scope)
            if own in self._public_paths:
                await self._serve_public(request, own)
                return
            if own == self.options.health_path:
                await self.health.serve_alive(request)
                return
            if own == self.options.ready_path:
                await self.health.serve_ready(request)
                return
            await request.refuse(404, _INVALID, "There is no MCP endpoint here")
            return
        status, body, headers = found
        raw = raw_headers(headers)
        await (request.reply(status, body, raw) if body else request.reply_empty(status, raw))

    @property
    def spoken_versions(self) -> tuple[str, ...]:
        """The protocol versions that this endpoint serves, newest first."""
        return tuple(reversed(self.server.modern_versions))

    async def _serve_public(self, request: IncomingRequest, path: str) -> None:
        """Serve a public document, to a host that this endpoint serves."""
        if self._public is None or not await self._join_if_repeated(request):
            return
        security, scope, client = self.security, request.scope, request.scope.get("client")
        host = security.effective_host(request.headers, client)
        refusal = security.refuse(host, None)  # any origin may read it
        if refusal is not None:
            await request.refuse(403, _INVALID, refusal)
            return
        scheme = security.effective_scheme(request.headers, client) or scope.get("scheme", "http")
        is_own = host is not None and security.names(host)
        # A proxy that is not trusted may have put its own name, of the inner network, in place of the public one.
        is_behind = any(name in request.headers for name in PROXY_HEADERS) and not security.trusts(client)
        own_path = f"{str(scope.get('root_path', '')).rstrip('/')}{self.options.path.rstrip('/')}"
        found = self._public.answer(
            DocumentRequest(
                method=scope["method"],
                path=path,
                headers=request.headers,
                endpoint_path=scope.get(ENDPOINT_PATH_KEY) or own_path or "/",
                origin=f"{scheme}://{host}" if is_own and not is_behind else None,
                versions=self.spoken_versions,
            )
        )
        await send_document(request.send, scope["method"], *found)

    async def _join_if_repeated(self, request: IncomingRequest) -> bool:
        return len(request.headers) == len(request.scope["headers"]) or await self._join_headers(request)

    async def _authenticate(self, request: IncomingRequest, context: HttpContext | None = None) -> bool:
        authenticate = self.options.authenticate
        context = request.context() if context is None else context
        try:
            request.principal = await authenticate(context) if authenticate is not None else None
        except HttpRefusal as refusal:
            # The hook decides what a client may know; every other exception is only logged.
            await request.refuse(refusal.status, _INVALID, refusal.message, headers=refusal.headers)
            return False
        except OSError as error:  # a store or an issuer cannot be reached: the client may retry
            log.error("a request could not be authenticated: %s", error)
            message = "Authentication is not available at the moment; try again"
            await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), message)
            return False
        except Exception as error:
            log.error("the authenticate hook failed", exc_info=error)
            await request.refuse(
                500, int(JsonRpcErrorCode.INTERNAL_ERROR), "The server could not authenticate the request"
            )
            return False
        return True

    async def _start(self, request: IncomingRequest) -> Runtime | None:
        """Start the server's lifespan and return the running loop's runtime; ``None`` if the request was refused."""
        await move_to_loop()
        try:
            await self.life.start()
        except Exception as exc:
            log.error("the server's lifespan failed to start", exc_info=exc)
            await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), "The server could not start")
            return None
        return current_runtime()

    async def _read_body(self, request: IncomingRequest, first: bytes, more: bool) -> bytes | None:
        """Return the whole body; ``None`` if the request was refused or its client disconnected."""
        declared = request.headers.get("content-length", "0")
        limit = self._max_body_bytes
        try:
            # 20 digits: `int` of a very long number takes long, and no limit has more.
            if len(first) > limit or (declared.isascii() and declared.isdigit() and int(declared[:20]) > limit):
                raise BodyTooLarge(more)
            return await read_body(request.receive, first, limit) if more else first
        except BodyTooLarge as refusal:
            error = encode_error(None, JsonRpcError(_INVALID, f"The body is larger than {limit} bytes"))
            await refuse_body(request.receive, request.send, error, request.reply_headers or [], refusal.has_more)
        except ClientGone:
            log.info("a client disconnected before its request was complete")
        return None


def _path_below_mount(scope: Mapping[str, Any]) -> str:
    """Return the path below the mounting prefix; ASGI hosts differ in whether ``path`` includes ``root_path``."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _checks(options: HttpOptions) -> tuple[ReadyCheck, ...]:
    if options.ready_check is not None:
        return (options.ready_check,)
    if options.shared is not None:
        return (partial(probe, options.shared.blobs),)
    return ()
