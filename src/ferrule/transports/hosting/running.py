"""`run` and `asgi` as functions, for servers without these methods.

`MCPServer` has both as methods, which also use this module; a low-level `Server`, such as one that `proxy` makes, has
none, because the kernel imports no transport.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, cast, runtime_checkable

from ferrule._options import check_options
from ferrule.transports.hosting.by_name import transport_named

if TYPE_CHECKING:
    from ferrule.kernel.server import Server
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.hosting.options import AsgiOptions, RunOptions

__all__ = ["RunsItself", "asgi", "run", "run_async", "run_endpoint", "serve_endpoint"]

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


@runtime_checkable
class RunsItself(Protocol):
    """A server that has the functions of this module as methods: `MCPServer`, which belongs to a higher layer."""

    def run(self, transport: Any, *, host: str, port: int, **options: Any) -> None:
        """See `run`."""
        ...

    async def run_async(self, transport: Any, *, host: str, port: int, **options: Any) -> None:
        """See `run_async`."""
        ...

    def asgi(self, **options: Any) -> HttpEndpoint:
        """See `asgi`."""
        ...


def run(
    server: Server[Any],
    transport: Literal["stdio", "http"] = "stdio",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    **options: Unpack[RunOptions],
) -> None:
    """Serve a server until the input ends (stdio) or a signal arrives, in this process only; see `MCPServer.run`.

    Args:
        server: a `Server`, such as `proxy` makes; for an `MCPServer` its own method is called.
        transport: ``"stdio"`` or ``"http"``.
        host, port: the address for HTTP; port 0 means a free port.
        options: the options of `run_stdio`; or of `HttpOptions` and `run_http`.

    Raises:
        OSError: the address cannot be bound.
        TypeError: the transport does not have one of the options.
        ValueError: there is no such transport.
    """
    given: object = server
    if isinstance(given, RunsItself):
        given.run(transport, host=host, port=port, **options)
        return
    found = transport_named(transport)
    found.check("run", options)
    found.run(server, partial(asgi, server), host, port, cast("dict[str, Any]", options))


async def run_async(
    server: Server[Any],
    transport: Literal["stdio", "http"] = "stdio",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    **options: Unpack[RunOptions],
) -> None:
    """As `run`, inside a running event loop (a notebook, an async program), until cancelled; it handles no signals.

    HTTP needs asyncio (or uvloop); stdio also works on trio.

    Raises:
        OSError: the address cannot be bound.
        TypeError: the transport does not have one of the options.
        ValueError: there is no such transport.
    """
    given: object = server
    if isinstance(given, RunsItself):
        await given.run_async(transport, host=host, port=port, **options)
        return
    found = transport_named(transport)
    found.check("run_async", options)
    await found.serve(server, partial(asgi, server), host, port, cast("dict[str, Any]", options))


def asgi(server: Server[Any], **options: Unpack[AsgiOptions]) -> HttpEndpoint:
    """Return a server as an ASGI callable that serves both eras on one URL; see `MCPServer.asgi`.

    Args:
        options: see `HttpOptions`: ``path``, ``allowed_hosts``, ``allowed_origins`` …
    """
    given: object = server
    if isinstance(given, RunsItself):
        return given.asgi(**options)
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.asgi.options import HttpOptions
    from ferrule.transports.hosting.options import AsgiOptions

    check_options("asgi()", options, AsgiOptions)
    return HttpEndpoint(server, HttpOptions(**options))


def run_endpoint(make: Callable[..., HttpEndpoint], host: str, port: int, options: dict[str, Any]) -> None:
    """Serve an endpoint in this process until a signal arrives.

    Args:
        make: returns the endpoint; called with the options of `HttpOptions`.
        host, port: the address.
        options: the options of `HttpOptions` and of `run_http`.
    """
    from ferrule.transports.hosting.uvicorn_server import run_http
    from ferrule.transports.loops import refuse_in_running_loop
    from ferrule.transports.stdio.descriptors import open_missing_standard_fds

    refuse_in_running_loop()
    open_missing_standard_fds()  # otherwise sockets get their numbers, and the event loop aborts
    names = inspect.signature(run_http).parameters
    serving = {name: options.pop(name) for name in list(options) if name in names}
    options.setdefault("loopback", host in _LOOPBACK_HOSTS and options.get("allowed_hosts") is None)
    endpoint = make(**options)
    _end_streams_at_shutdown(endpoint, serving)
    run_http(endpoint, host=host, port=port, **serving)


async def serve_endpoint(make: Callable[..., HttpEndpoint], host: str, port: int, options: dict[str, Any]) -> None:
    """As `run_endpoint`, in the running asyncio loop, until cancelled; it handles no signals."""
    import functools

    from ferrule.transports.hosting.uvicorn_server import announce, log_to_stderr, run_http, serve_http

    names = inspect.signature(run_http).parameters
    serving = {name: options.pop(name) for name in list(options) if name in names}
    log_to_stderr(serving.pop("log_level", "warning"), serving.get("access_log", False))
    options.setdefault("loopback", host in _LOOPBACK_HOSTS and options.get("allowed_hosts") is None)
    endpoint = make(**options)
    _end_streams_at_shutdown(endpoint, serving)
    is_tls = serving.get("ssl_certfile") is not None
    if serving.get("on_started") is None:
        serving["on_started"] = functools.partial(announce, path=endpoint.options.path, is_tls=is_tls)
    try:
        await serve_http(endpoint, host=host, port=port, **serving)
    finally:
        await endpoint.aclose()


def _end_streams_at_shutdown(endpoint: HttpEndpoint, serving: dict[str, Any]) -> None:
    serving.setdefault("on_notice", endpoint.announce_drain)
    serving.setdefault("on_drain", endpoint.drain)
