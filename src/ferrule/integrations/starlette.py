"""The endpoint as routes of a Starlette or FastAPI application, with and without the slash and without a redirect.

Starlette's own ``Mount`` answers ``/mcp`` with a redirect to ``/mcp/`` before we are asked, and a redirect behind a TLS
terminator drops https and the credential. Two exact routes have no such gap.
"""

from typing import Any

from ferrule.transports.asgi import HttpEndpoint

__all__ = ["mcp_routes"]


def mcp_routes(endpoint: HttpEndpoint) -> list[Any]:
    """Two routes for ``endpoint``, at the path of its options.

    The host's lifespan does not reach a route: the endpoint starts itself with its first request. To end it with the
    host, await ``endpoint.aclose()`` in the host's lifespan.

    Example: ``Starlette(routes=[*mcp_routes(app.asgi(path="/mcp"))])``, or
    ``fastapi_app.router.routes.extend(mcp_routes(app.asgi(path="/tools/mcp")))``.

    Raises:
        ImportError: Starlette is not installed.
    """
    from starlette.routing import Route  # lazy: only a program that has Starlette calls this

    path = endpoint.options.path.rstrip("/")
    return [Route(path or "/", endpoint), *([Route(path + "/", endpoint)] if path else [])]
