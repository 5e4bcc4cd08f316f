"""FastAPI: the endpoint under a prefix, beside ordinary routes.

uvicorn --app-dir examples/mounting fastapi_app:app --port 8000
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ferrule import MCPServer
from ferrule.integrations.starlette import mcp_routes

mcp = MCPServer("mounted", version="1.0")


@mcp.tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


endpoint = mcp.asgi(path="/tools/mcp")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """End the endpoint with the host; it starts by itself."""
    yield
    await endpoint.aclose()


app = FastAPI(lifespan=lifespan)
app.router.routes.extend(mcp_routes(endpoint))


@app.get("/")
async def hello() -> str:
    """A route of the host."""
    return "the host"
