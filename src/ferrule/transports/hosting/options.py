"""The keyword arguments of serving, for type checkers and editors.

Their meaning, units and defaults are documented at `HttpOptions`, `run_http` and `run_stdio`; a test compares names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence

    from ferrule.stores.events import EventStore
    from ferrule.stores.store import Store
    from ferrule.transports.asgi.health import ReadyCheck
    from ferrule.transports.asgi.options import Authenticate, Documents
    from ferrule.transports.hosting.uvicorn_server import HttpLimits

__all__ = ["AsgiOptions", "HttpRunOptions", "RunOptions", "ServingOptions", "StdioOptions"]


class AsgiOptions(TypedDict, total=False):
    """The options of an endpoint: `HttpOptions`."""

    path: str
    legacy: bool
    stateless: bool
    response_mode: Literal["auto", "json", "sse"]
    allowed_hosts: Sequence[str] | None
    allowed_origins: Sequence[str] | None
    trusted_proxies: Sequence[str]
    loopback: bool
    max_body_bytes: int
    disconnect_grace_s: float
    keep_alive_s: float | None
    max_sessions: int
    session_idle_s: float | None
    event_store: EventStore | None
    shared: Store | None
    retry_ms: int
    resume_s: float
    authenticate: Authenticate | None
    documents: Documents | None
    health_path: str | None
    ready_path: str | None
    ready_check: ReadyCheck | None
    clock: Callable[[], float]


class ServingOptions(TypedDict, total=False):
    """The options of `run_http`, without the application and the address."""

    sockets: Sequence[socket.socket] | None
    limits: HttpLimits | None
    on_notice: Callable[[], object] | None
    on_drain: Callable[[], Awaitable[None]] | None
    on_started: Callable[[str, int], None] | None
    access_log: bool
    log_level: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None


class StdioOptions(TypedDict, total=False):
    """The options of `run_stdio`, without the server."""

    max_message_bytes: int
    drain_s: float
    watch_parent: bool


class HttpRunOptions(AsgiOptions, ServingOptions, total=False):
    """The options of ``run("http")``."""


class RunOptions(HttpRunOptions, StdioOptions, total=False):
    """The options of ``run``, for ``"http"`` and for ``"stdio"``."""
