"""`instrument`: traces and metrics of a server, a client, a gateway or a group, by one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.integrations.opentelemetry.client import ClientMetrics, ClientTracing
from ferrule.integrations.opentelemetry.metrics import Metrics
from ferrule.integrations.opentelemetry.payloads import Payloads
from ferrule.integrations.opentelemetry.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ferrule.client.settings import ClientMiddleware
    from ferrule.kernel.server import Server

__all__ = ["instrument"]

TargetT = TypeVar("TargetT")


def instrument(
    target: TargetT,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    payloads: Payloads | bool = False,
    uri_in_names: bool = False,
) -> TargetT:
    """Add traces and metrics after OpenTelemetry's conventions for MCP to a server or a client, and return it.

    They are added as the outermost middleware. A gateway, and a server that `ferrule.proxy` has made, get those of a
    server for what their clients send and those of a client for what they send to the servers behind.

    Args:
        target: an `MCPServer`, a `Server`, a `Client`, a `ClientGroup` or a `Gateway`. A group must not be connected.
        tracer_provider, meter_provider: ``None`` for the program's global ones.
        payloads: record arguments and results on spans, too: ``True`` for the defaults of `Payloads`.
        uri_in_names: put the URIs of resources into the names of spans.

    Raises:
        ImportError: the API is not installed (install ``ferrule[otel]``).
        TypeError: ``target`` is none of these.
        ValueError: it was instrumented before.
    """
    chosen = Payloads() if payloads is True else payloads or None
    servers, clients = list(_servers(target)), list(_clients(target))
    if not servers and not clients:
        raise TypeError(f"instrument() takes a server, a client, a group or a gateway, not {type(target).__name__}")
    if any(isinstance(each, Tracing) for server in servers for each in server.middleware) or any(
        isinstance(each, ClientTracing) for middleware in clients for each in middleware
    ):
        raise ValueError("It is instrumented already: each request would have two spans")
    for server in servers:
        traces = Tracing(tracer_provider, payloads=chosen, uri_in_names=uri_in_names)
        server.middleware[:0] = [traces, Metrics(meter_provider)]
    for middleware in clients:
        sends = ClientTracing(tracer_provider, payloads=chosen, uri_in_names=uri_in_names)
        middleware[:0] = [sends, ClientMetrics(meter_provider)]
    return target


def _servers(target: Any) -> Iterator[Server[Any]]:
    """Yield the server whose requests are received."""
    given: Any = target  # its type arguments do not matter, and type checkers cannot know them
    from ferrule.app.server import MCPServer
    from ferrule.client.gateway.gateway import Gateway
    from ferrule.kernel.server import Server

    if isinstance(target, MCPServer):
        yield given.lowlevel
    elif isinstance(target, Gateway):
        yield target.server
    elif isinstance(target, Server):
        yield given


def _clients(target: Any) -> Iterator[list[ClientMiddleware]]:
    """Yield the lists of middleware of what is sent."""
    given: Any = target
    from ferrule.client.client import Client
    from ferrule.client.gateway.gateway import Gateway
    from ferrule.client.gateway.proxy import Proxy
    from ferrule.client.groups.group import ClientGroup
    from ferrule.kernel.server import Server

    if isinstance(target, (Client, ClientGroup)):
        yield target.middleware
    elif isinstance(target, Gateway):
        yield target.client_middleware
    elif isinstance(target, Server):
        proxy = given.attachments.get(Proxy)
        if proxy is not None:
            yield proxy.client_middleware
