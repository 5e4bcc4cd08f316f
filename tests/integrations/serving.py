"""Applications behind a real socket, served by uvicorn as their users serve them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from ferrule import Client

__all__ = ["over_http", "under_uvicorn"]


@asynccontextmanager
async def under_uvicorn(app: Any, **options: Any) -> AsyncIterator[str]:
    """The origin of an application that uvicorn serves, its lifespan included, until the block ends."""
    config = uvicorn.Config(app, port=0, ws="none", lifespan="on", log_config=None, **options)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
        if serving.done():
            await serving
            raise RuntimeError("the application did not start")
    port: int = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def over_http(
    app: Any, mode: str = "auto", headers: dict[str, str] | None = None, path: str = "/mcp", **options: Any
) -> AsyncIterator[Any]:
    """A client of the endpoint at a path of an application that uvicorn serves."""
    async with under_uvicorn(app, **options) as origin, Client(origin + path, mode=mode, headers=headers) as client:
        yield client
