"""The settings of the HTTP endpoint."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ferrule.stores.events import EventStore, MemoryEventStore
from ferrule.stores.store import Store
from ferrule.transports.asgi.context import HttpContext
from ferrule.transports.asgi.health import ReadyCheck

__all__ = ["Authenticate", "Documents", "HttpOptions"]

Authenticate = Callable[[HttpContext], Awaitable[Any]]
"""``async (context) -> principal``; raises `HttpRefusal` to answer 401 or 403."""

Documents = Callable[[HttpContext], tuple[int, bytes, list[tuple[str, str]]] | None]
"""``(context) -> (status, body, headers)``: a document at another path than the endpoint's; ``None`` for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Settings of one endpoint.

    Attributes:
        path: path of the endpoint below the mounting prefix; served with and without a final slash.
        legacy: serve the handshake revisions (2024-11-05 to 2025-11-25) beside the modern one.
        stateless: legacy requests without sessions: no session id, no GET stream (405), no request to the client.
        response_mode: legacy answers. ``"auto"``: JSON, or an event stream if a handler sends a message before it
            answers; ``"json"``: always JSON, and such messages are dropped; ``"sse"``: always an event stream, which a
            client can resume. Modern answers are always ``"auto"``.
        allowed_hosts, allowed_origins, trusted_proxies, loopback: see
            `SecurityPolicy`.
        max_body_bytes: a larger request body is refused with 413.
        disconnect_grace_s: seconds that a handler may run before the endpoint watches for the client's disconnect.
        keep_alive_s: longest idle time of an open stream in seconds before a comment is written; ``None`` writes none.
        max_sessions: bound for legacy sessions; a new one then replaces the one that has been idle longest, and gets
            503 if none is idle.
        session_idle_s: seconds without a request or stream after which a legacy session is removed; ``None``: never.
        event_store: keeps the events of legacy streams for clients that reconnect; ``None`` turns resumption off.
        shared: a store through which legacy sessions are shared with other workers; with ``event_store`` of the same.
        retry_ms: reconnection time in milliseconds sent to legacy clients of event streams.
        resume_s: seconds beyond ``retry_ms`` that a request to a legacy client waits for it to reconnect after its
            stream was lost; then it fails with `ConnectionClosed`.
        authenticate: returns the sender of a request, which becomes ``HttpContext.principal``; a legacy session belongs
            to the principal that opened it. Any value with equality; ``None`` means anonymous.
        documents: returns JSON documents at other paths, such as the metadata of a protected resource; called for
            requests to other paths than the endpoint's.
        health_path, ready_path: paths of the liveness and readiness probes below the mounting prefix, without
            authentication; ``None`` serves none. A document with the same path has precedence.
        ready_check: further condition for readiness, ``async () -> bool``; ``None`` checks that the store can be
            written and read, if it is outside this process.
        clock: returns monotonic seconds, for the idle time of sessions.
    """

    path: str = "/mcp"
    legacy: bool = True
    stateless: bool = False
    response_mode: Literal["auto", "json", "sse"] = "auto"
    allowed_hosts: Sequence[str] | None = None
    allowed_origins: Sequence[str] | None = None
    trusted_proxies: Sequence[str] = ()
    loopback: bool = False
    max_body_bytes: int = 4 * 1024 * 1024
    disconnect_grace_s: float = 0.02
    keep_alive_s: float | None = 15.0
    max_sessions: int = 10_000
    session_idle_s: float | None = 1800.0
    event_store: EventStore | None = field(default_factory=MemoryEventStore)
    shared: Store | None = None
    retry_ms: int = 1000
    resume_s: float = 15.0
    authenticate: Authenticate | None = None
    documents: Documents | None = None
    health_path: str | None = "/healthz"
    ready_path: str | None = "/readyz"
    ready_check: ReadyCheck | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        for path in (self.path, self.health_path, self.ready_path):
            if path and not path.startswith("/"):
                raise ValueError("path starts with a slash")
        if self.response_mode not in ("auto", "json", "sse"):
            raise ValueError("response_mode is auto, json or sse")
        if (
            self.max_body_bytes < 1
            or self.max_sessions < 1
            or min(self.retry_ms, self.disconnect_grace_s, self.resume_s) < 0
        ):
            raise ValueError("bounds of an HTTP endpoint are positive")
