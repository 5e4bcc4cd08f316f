"""The transports of the old SDK: what a server opens, hands to ``Server.run``, or mounts in its web application.

The "streams" that they give out carry no messages: `Server.run` asks them to serve, and Ferrule's own transport does.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from ferrule_compat.models import Model

if TYPE_CHECKING:
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.sse.server import SseEndpoint
    from ferrule_compat.lowlevel import Server

__all__ = [
    "SseServerTransport",
    "StreamableHTTPASGIApp",
    "StreamableHTTPSessionManager",
    "TransportSecuritySettings",
    "http_options",
    "stdio_server",
]

Scope = MutableMapping[str, Any]
_SSE_PATH = "/sse"


class _Streams:
    """Stands for both streams of a transport; `serve` is called with the server and what it tells its clients."""

    def __init__(self, serve: Callable[[Server, Any], Awaitable[None]]) -> None:
        self.serve = serve

    async def __aenter__(self) -> _Streams:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def aclose(self) -> None:
        """Do nothing: the transport ends by itself."""


class TransportSecuritySettings(Model):
    """Which hosts and origins an HTTP server accepts; without the protection it accepts any."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: ClassVar[list[str]] = []
    allowed_origins: ClassVar[list[str]] = []


def http_options(security: Any) -> dict[str, Any]:
    """Return the settings as options of Ferrule's endpoints."""
    if security is None or not security.enable_dns_rebinding_protection:
        return {"allowed_hosts": ["*"], "allowed_origins": ["*"]}
    # There ":*" means any port, and here a name alone does.
    hosts = [host.removesuffix(":*") for host in security.allowed_hosts]
    return {"allowed_hosts": hosts, "allowed_origins": list(security.allowed_origins)}


@asynccontextmanager
async def stdio_server(stdin: Any = None, stdout: Any = None) -> AsyncIterator[tuple[_Streams, _Streams]]:
    """Serve over stdin and stdout.

    Args:
        stdin, stdout: open files of the system in place of the process's own, such as the real stdout of a server that
            has put another file there.

    Raises:
        TypeError: a given file is none of the system's.
    """
    given = None if stdin is None and stdout is None else (_descriptor(stdin, 0), _descriptor(stdout, 1))

    async def serve(server: Server, options: Any) -> None:
        application = server.application(options)
        if given is None:
            await application.run_async("stdio")
        else:
            application.check()
            await _serve_descriptors(application.lowlevel, *given)

    streams = _Streams(serve)
    yield streams, streams


def _descriptor(file: Any, default: int) -> int:
    if file is None:
        return default
    try:
        return int(getattr(file, "wrapped", file).fileno())
    except (AttributeError, OSError) as error:
        raise TypeError("ferrule-compat serves files of the system; stdio_server() was given another stream") from error


async def _serve_descriptors(server: Any, stdin_fd: int, stdout_fd: int) -> None:
    from ferrule.kernel.runner import serve_dual_era_loop
    from ferrule.transports.stdio.server import stdio_streams

    # Copies: Ferrule closes what it serves, and the files belong to the program.
    reading, writing = stdio_streams(os.dup(stdin_fd), os.dup(stdout_fd))
    try:
        async with server.lifespan() as state:
            await serve_dual_era_loop(server, reading, writing, lifespan_state=state)
        await writing.flush()
    finally:
        await reading.aclose()
        await writing.aclose()


class SseServerTransport:
    """The transport of 2024-11-05 for a web application: a route for the stream and one for messages.

    Args:
        endpoint: path of the messages, below the place where the application is mounted.
        security_settings: hosts and origins that are accepted; ``None`` for any.
        max_request_body_size: a larger message is refused.
    """

    def __init__(
        self, endpoint: str, security_settings: Any = None, max_request_body_size: int = 4 * 1024 * 1024
    ) -> None:
        if "://" in endpoint or endpoint.startswith("//") or "?" in endpoint or "#" in endpoint:
            raise ValueError(f"{endpoint!r} is no path such as '/messages/'")
        self._path = "/" + endpoint.strip("/")
        self._options = {**http_options(security_settings), "max_body_bytes": max_request_body_size}
        self._endpoints: dict[int, SseEndpoint] = {}

    @asynccontextmanager
    async def connect_sse(self, scope: Scope, receive: Any, send: Any) -> AsyncIterator[tuple[_Streams, _Streams]]:
        """Serve the stream of one client: ``async with transport.connect_sse(…) as streams: await server.run(…)``."""

        async def serve(server: Server, options: Any) -> None:
            root = str(scope.get("root_path", "")).rstrip("/")
            endpoint = self._endpoint_for(server, options)
            try:
                await endpoint({**scope, "path": root + _SSE_PATH}, receive, send)
            finally:
                if not len(endpoint):  # the last client: applications may make a server for each
                    self._endpoints.pop(id(server), None)
                    await endpoint.life.stop()

        streams = _Streams(serve)
        yield streams, streams

    def _endpoint_for(self, server: Server, options: Any) -> SseEndpoint:
        from ferrule.transports.asgi.options import HttpOptions
        from ferrule.transports.sse.server import SseEndpoint

        found = self._endpoints.get(id(server))
        if found is None:
            application = server.application(options)
            application.check()
            settings = HttpOptions(**self._options)
            made = SseEndpoint(application.lowlevel, settings, sse_path=_SSE_PATH, message_path=self._path)
            found = self._endpoints[id(server)] = made
        return found

    async def handle_post_message(self, scope: Scope, receive: Any, send: Any) -> None:
        """Take one message of a client: an ASGI application for the route of messages."""
        inner = {**scope, "root_path": "", "path": self._path}
        for endpoint in list(self._endpoints.values()):
            refused: list[Any] = []

            async def send_unless_unknown(message: Any, refused: list[Any] = refused) -> None:
                if refused or message.get("status") == 404:
                    refused.append(message)
                else:
                    await send(message)

            # It knows the session before it reads the message, so that another one can still read it.
            await endpoint(inner, receive, send_unless_unknown)
            if not refused:
                return
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"Could not find session"})


class StreamableHTTPSessionManager:
    """Serves a server over Streamable HTTP, in both eras; `handle_request` is an ASGI application.

    Args:
        app: the server.
        event_store, retry_interval: have no effect: Ferrule keeps events itself.
        json_response: answer with JSON and never with an event stream.
        stateless: handshake clients get no sessions.
        security_settings: hosts and origins that are accepted; ``None`` for any.
        session_idle_timeout: seconds after which an unused session ends; ``None`` for never.
        max_sessions: bound for sessions; ``None`` for Ferrule's.
        max_request_body_size: a larger request is refused.
    """

    def __init__(
        self,
        app: Server,
        event_store: Any = None,
        json_response: bool = False,
        stateless: bool = False,
        security_settings: Any = None,
        retry_interval: int | None = None,
        session_idle_timeout: float | None = 1800.0,
        max_sessions: int | None = None,
        max_request_body_size: int = 4 * 1024 * 1024,
    ) -> None:
        self.app = app
        self.json_response = json_response
        self.stateless = stateless
        self._options: dict[str, Any] = {
            **http_options(security_settings),
            "path": "/",
            "response_mode": "json" if json_response else "auto",
            "stateless": stateless,
            "session_idle_s": session_idle_timeout,
            "max_body_bytes": max_request_body_size,
            **({} if max_sessions is None else {"max_sessions": max_sessions}),
        }
        self._endpoint: HttpEndpoint | None = None

    @property
    def endpoint(self) -> HttpEndpoint:
        """Ferrule's endpoint; made on first use."""
        if self._endpoint is None:
            self._endpoint = self.app.application().asgi(**self._options)
        return self._endpoint

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep the server's lifespan open; without it the first request opens it."""
        endpoint = self.endpoint
        try:
            yield
        finally:
            await endpoint.aclose()

    async def handle_request(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve one request, whatever its path: the host's routes have chosen it."""
        await self.endpoint({**scope, "path": "/", "root_path": ""}, receive, send)


class StreamableHTTPASGIApp:
    """The ASGI application of a session manager."""

    def __init__(self, session_manager: StreamableHTTPSessionManager) -> None:
        self.session_manager = session_manager

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve one request."""
        await self.session_manager.handle_request(scope, receive, send)
