"""Every setting of the HTTP endpoint, in one frozen value."""

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
"""What else is served beside the endpoint: a request to status, body and headers; ``None`` where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Settings of one endpoint.

    Attributes:
        path: where the endpoint is, below the mounting prefix; with and without a slash at its end.
        legacy: serve the handshake revisions (2024-11-05 to 2025-11-25) beside the modern one.
        stateless: legacy requests without sessions: no session id, no GET stream (405), no question to the client.
        response_mode: legacy answers. ``"auto"``: JSON, or an event stream if a handler sends a message before it
            answers; ``"json"``: always JSON, and such messages are dropped; ``"sse"``: always an event stream, which a
            client can resume. Modern answers are always ``"auto"``.
        allowed_hosts, allowed_origins, trusted_proxies, loopback: see
            `SecurityPolicy`.
        max_body_bytes: a larger request body is answered 413.
        disconnect_grace_s: how long a handler may run before the endpoint starts to watch for a vanished client.
        keep_alive_s: longest silence of an open stream before a comment is written; ``None`` writes none.
        max_sessions: live legacy sessions; at this number a new one displaces the one that has been idle longest, and
            gets 503 when none is idle.
        session_idle_s: seconds without anything in flight after which a legacy session is forgotten; ``None``: never.
        event_store: keeps what was sent on legacy streams for clients that reconnect; ``None`` turns resuming off.
        shared: a store through which legacy sessions are shared with other workers; with ``event_store`` of the same.
        retry_ms: reconnection time in milliseconds sent to legacy clients of event streams.
        resume_s: seconds beyond ``retry_ms`` that a question waits for a legacy client that lost its stream and has not
            come back; then it fails with `ConnectionClosed`.
        authenticate: who sends this request; its result is ``HttpContext.principal``, and a legacy session belongs to
            the principal that opened it. Any value with equality will do; ``None`` means no one in particular.
        documents: JSON documents at other paths, such as the metadata of a protected resource; asked for a request that
            is not the endpoint's.
        health_path, ready_path: where the process says that it is alive, and whether it may be sent requests; below
            the mounting prefix, for anybody to ask; ``None`` serves none. A document of the same path goes first.
        ready_check: what must hold to be ready beside a started server, ``async () -> bool``; ``None`` looks
            whether the store can be written to and read, where there is one outside this process.
        clock: monotonic seconds, for the idle time of sessions.
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
