"""The endpoint in a Starlette or FastAPI application: as routes, with and without the slash and without a redirect.

Starlette's own ``Mount`` answers ``/mcp`` with a redirect to ``/mcp/`` before the endpoint is called, and behind a TLS
proxy a redirect loses https and the credential. Exact routes need no redirect.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ferrule.transports.asgi.gate import HttpGate

if TYPE_CHECKING:
    from ferrule.app.server import MCPServer

__all__ = ["mcp_routes", "mount"]


def mcp_routes(endpoint: HttpGate) -> list[Any]:
    """Exact routes for an endpoint (or an `SseEndpoint`) and what stands beside it: every path of ``endpoint.paths``.

    These are the path of its options with and without a slash; with ``auth=`` the metadata that its challenge names
    (``/.well-known/oauth-protected-resource``, alone and with the endpoint's path after it); ``/healthz`` and
    ``/readyz``, unless ``health_path=None`` and ``ready_path=None`` say that the host has its own. A route of the host
    that stands before these wins.

    The host's lifespan does not reach a route: the endpoint starts itself with its first request. To end it with the
    host, await ``endpoint.aclose()`` in the host's lifespan, or use `mount`.

    Example: ``Starlette(routes=[*mcp_routes(app.asgi(path="/mcp"))])``, or
    ``fastapi_app.router.routes.extend(mcp_routes(app.asgi(path="/tools/mcp")))``; below a prefix
    ``Mount("/api", routes=mcp_routes(app.asgi(path="/mcp")))``.

    Raises:
        ImportError: Starlette is not installed.
    """
    from starlette.routing import Route  # lazy: only a program that has Starlette calls this

    served: Any = endpoint
    return [Route(path, served, include_in_schema=False) for path in endpoint.paths]


def mount(app: Any, server: MCPServer[Any], path: str = "/mcp", **options: Any) -> HttpGate:
    """Serve a server at a path of a Starlette or FastAPI application, and return its endpoint.

    The server starts with the application, so that what is wrong with it stops the application's start, and ends with
    it. Where the application's lifespan does not run, because the application is itself mounted in another one, the
    server starts with its first request. Health pages stay the application's own business unless ``health_path=`` and
    ``ready_path=`` name paths.

    Args:
        app: the application. Its middleware runs for the endpoint, too.
        server: the server that is served; it may be the exposed application itself.
        path: the path of the endpoint.
        options: the options of `MCPServer.asgi`: ``allowed_hosts``, ``allowed_origins`` …

    Raises:
        TypeError: there is no such option.
        ImportError: Starlette is not installed.
    """
    given: dict[str, Any] = {"health_path": None, "ready_path": None, **options, "path": path}
    endpoint = server.asgi(**given)
    # Before the application's own routes: one of them may match every path.
    app.router.routes[:0] = mcp_routes(endpoint)
    original = app.router.lifespan_context

    @asynccontextmanager
    async def with_endpoint(host: Any) -> AsyncGenerator[Any]:
        async with original(host) as state:
            await endpoint.life.start()
            try:
                yield state
            finally:
                await endpoint.aclose()

    app.router.lifespan_context = with_endpoint
    return endpoint
