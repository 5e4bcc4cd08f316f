"""Django's ASGI application with the endpoint under a prefix; Django serves everything else.

    uvicorn --app-dir examples/mounting django_asgi:app --port 8000 --lifespan off

Django passes no lifespan events on; the endpoint starts with its first request.
"""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from ferrule import MCPServer

mcp = MCPServer("mounted", version="1.0")


@mcp.tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def hello(request: HttpRequest) -> HttpResponse:
    """A view of the host."""
    return HttpResponse(b"the host")


urlpatterns = [path("", hello)]

# A real project has these in its settings module, and DJANGO_SETTINGS_MODULE names it.
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="only an example")
django.setup()

endpoint = mcp.asgi(path="/tools/mcp")
django_app = get_asgi_application()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The endpoint, its metadata and its health, Django everywhere else."""
    if endpoint.answers(scope):
        await endpoint(scope, receive, send)
    else:
        await django_app(scope, receive, send)
