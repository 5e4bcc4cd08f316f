"""FastAPI with an MCP endpoint: bearer tokens, several workers, limits.

uvicorn fastapi_workers:app --workers 2 --port 8000
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ferrule import Context, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.integrations.starlette import mcp_routes
from ferrule.middleware import RateLimit

KEYS = {"key-of-ada": {"subject": "ada"}, "key-of-bob": {"subject": "bob"}}  # from your settings
URL = os.environ.get("PUBLIC_URL", "http://127.0.0.1:8000/tools/mcp")  # as clients use it

mcp = MCPServer(
    "stock",
    auth=ResourceServer(StaticTokens(KEYS), resource=URL),
    middleware=[RateLimit(30, per_s=60)],  # for each user, counted in the store by all workers together
    store=os.environ.get("STORE", "sqlite:///state.db"),  # sessions of all workers
    state_keys=[os.environ.get("STATE_KEY", "a development key of 32 bytes or more")],  # answers reach any worker
)


@mcp.tool(timeout_s=20, max_concurrent=4)
async def reserve(part: str, ctx: Context) -> str:
    """Reserve a part, if the user agrees."""
    if not await ctx.confirm(f"Reserve {part}?"):
        return "Nothing was reserved."
    return f"{part} is reserved for {ctx.principal.subject}"


@mcp.tool(annotations={"readOnlyHint": True})
def worker() -> int:
    """Say which process works."""
    return os.getpid()


endpoint = mcp.asgi(path="/tools/mcp", max_body_bytes=1_000_000)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    await endpoint.aclose()


app = FastAPI(lifespan=lifespan)
app.router.routes.extend(mcp_routes(endpoint))


@app.get("/")
async def hello() -> str:
    return "the host"
