"""The endpoint as routes of a Starlette or FastAPI application, with and without the slash and without a redirect.

Starlette's own ``Mount`` answers ``/mcp`` with a redirect to ``/mcp/`` before we are asked, and a redirect behind a TLS
terminator drops https and the credential. Exact routes have no such gap.
"""

from typing import Any

from ferrule.transports.asgi.gate import HttpGate

__all__ = ["mcp_routes"]


def mcp_routes(endpoint: HttpGate) -> list[Any]:
    """Exact routes for an endpoint (or an `SseEndpoint`) and what stands beside it: every path of ``endpoint.paths``.

    These are the path of its options with and without a slash; with ``auth=`` the metadata that its challenge names
    (``/.well-known/oauth-protected-resource``, alone and with the endpoint's path after it); ``/healthz`` and
    ``/readyz``, unless ``health_path=None`` and ``ready_path=None`` say that the host has its own. A route of the host
    that stands before these wins.

    The host's lifespan does not reach a route: the endpoint starts itself with its first request. To end it with the
    host, await ``endpoint.aclose()`` in the host's lifespan.

    Example: ``Starlette(routes=[*mcp_routes(app.asgi(path="/mcp"))])``, or
    ``fastapi_app.router.routes.extend(mcp_routes(app.asgi(path="/tools/mcp")))``; below a prefix
    ``Mount("/api", routes=mcp_routes(app.asgi(path="/mcp")))``.

    Raises:
        ImportError: Starlette is not installed.
    """
    from starlette.routing import Route  # lazy: only a program that has Starlette calls this

    served: Any = endpoint
    return [Route(path, served) for path in endpoint.paths]
