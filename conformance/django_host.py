"""The server under test inside a Django project: its endpoint is a view of the URLconf."""

from __future__ import annotations

import socket
from types import ModuleType
from typing import Any

__all__ = ["serve", "server_kind"]

_urlconf: Any = ModuleType("urlconf")
_urlconf.urlpatterns = []


def server_kind() -> Any:
    """Set up a project without a database, and return the class of its server."""
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="only for the conformance suite, which keeps nothing",
        ALLOWED_HOSTS=["localhost", "127.0.0.1"],
        ROOT_URLCONF=_urlconf,
        INSTALLED_APPS=["ferrule.django"],
        MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
        MCP={"NAME": "ferrule-conformance", "REQUIRE_LOGIN": False},
    )
    django.setup()
    from ferrule.django import DjangoServer

    return DjangoServer


def serve(server: Any, interface: str, port: int, *, retry_ms: int) -> None:
    """Serve the project by uvicorn (``"asgi"``) or waitress (``"wsgi"``), at a free port for 0."""
    from ferrule.django.views import DjangoEndpoint

    given = {"path": "/", "loopback": True}
    endpoint = DjangoEndpoint(server.wsgi(**given), server.asgi(**given, retry_ms=retry_ms), lambda request: {})
    _urlconf.urlpatterns.append(endpoint.pattern("mcp", "endpoint"))
    if interface == "wsgi":
        from django.core.wsgi import get_wsgi_application
        from waitress.server import create_server

        made: Any = create_server(get_wsgi_application(), host="127.0.0.1", port=port, threads=8)
        print(f"serving http://localhost:{made.effective_port}/mcp", flush=True)
        made.run()
        return
    import uvicorn
    from django.core.asgi import get_asgi_application

    with socket.create_server(("127.0.0.1", port)) as listening:
        print(f"serving http://localhost:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(get_asgi_application(), lifespan="off", log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])
