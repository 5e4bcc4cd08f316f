"""Starlette: the endpoint beside other routes, at /mcp and /mcp/, and once more mounted under a prefix.

uvicorn --app-dir examples/mounting starlette_app:app --port 8000
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from ferrule import MCPServer
from ferrule.integrations.starlette import mcp_routes

mcp = MCPServer("mounted", version="1.0")


@mcp.tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


endpoint = mcp.asgi(path="/mcp")
# Under a Mount the endpoint finds itself by root_path; /inner/mcp and /inner/mcp/ are both served.
inner = mcp.asgi(path="/mcp")


async def hello(request: Request) -> PlainTextResponse:
    """A route of the host."""
    return PlainTextResponse("the host")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """End the endpoints with the host; they start by themselves."""
    yield
    await endpoint.aclose()
    await inner.aclose()


app = Starlette(
    routes=[Route("/", hello), *mcp_routes(endpoint), Mount("/inner", app=inner)],
    lifespan=lifespan,
)
