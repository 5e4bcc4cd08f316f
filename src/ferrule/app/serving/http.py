"""An `MCPServer` over HTTP: its endpoint, one process that serves it, or several on one port.

`ferrule.app.serving.workers` checks the needs of several workers before the first of them starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ferrule.app.serving.workers import check_can_scale, make_payload
from ferrule.stores.blobs import probe
from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.hosting.running import run_endpoint
from ferrule.transports.hosting.uvicorn_server import HttpLimits, announce, bind, log_to_stderr

if TYPE_CHECKING:
    from ferrule.app.serving.workers import ServedApplication

__all__ = ["http_options", "make_endpoint", "serve_http", "serve_workers"]


def make_endpoint(app: ServedApplication, options: dict[str, Any]) -> HttpEndpoint:
    """Return the ASGI application; ``options`` are those of `HttpOptions`."""
    return HttpEndpoint(app.lowlevel, http_options(app, options))


def http_options(app: ServedApplication, options: dict[str, Any]) -> HttpOptions:
    """Return the settings of an endpoint, with the store of its application."""
    if app.store is not None and app.store.sessions is not None and app.store.channel is not None:
        options.setdefault("shared", app.store)
        options.setdefault("event_store", app.store.events)
    # A worker whose shared store cannot be written to is not ready: a load balancer then uses another one.
    if app.store is not None and app.store.is_shared and options.get("ready_check") is None:
        options["ready_check"] = partial(probe, app.store.blobs)
    return HttpOptions(**options)


def serve_http(app: ServedApplication, host: str, port: int, options: dict[str, Any]) -> None:
    """Serve in this process until a signal comes; ``options`` are those of `HttpOptions` and `run_http`."""
    run_endpoint(app.asgi, host, port, options)


def serve_workers(
    app: ServedApplication,
    host: str,
    port: int,
    workers: int,
    options: dict[str, Any],
    load: Callable[[], Any] | None = None,
) -> None:
    """Serve in several processes, which import ``app`` again, until a signal comes.

    Args:
        workers: number of processes.
        options: those of `HttpOptions` and `run_http`.
        load: returns the application in a worker, where it cannot be imported by a name; must be picklable.

    Raises:
        WorkerError: the workers lack a shared store, or cannot import ``app``.
        OSError: the address cannot be bound.
    """
    from ferrule.transports.hosting.workers import find_target, run_workers

    check_can_scale(app, options)
    path, is_tls = options.get("path") or HttpOptions().path, options.get("ssl_certfile") is not None
    on_started = options.pop("on_started", None) or partial(announce, path=path, is_tls=is_tls)
    log_to_stderr(options.get("log_level", "warning"))
    limits = options.get("limits") or HttpLimits()
    # Bound before the workers start, so that they inherit the sockets and the system distributes connections.
    sockets = bind(host, port)
    port = sockets[0].getsockname()[1]
    try:
        run_workers(
            find_target(app) if load is None else load,
            workers,
            sockets,
            make_payload(app, host, port, options),
            drain_s=limits.notice_s + limits.drain_s,
            on_started=lambda: on_started(host, port),
        )
    finally:
        for sock in sockets:
            sock.close()
