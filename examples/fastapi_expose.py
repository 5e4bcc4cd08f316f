"""A FastAPI application whose operations are tools, and whose endpoint is in the application itself.

python examples/fastapi_expose.py             calls it in this process and over HTTP, in both eras
python examples/fastapi_expose.py stdio       serves the tools to a host on this machine

In production: uvicorn --app-dir examples fastapi_expose:app
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from pydantic import BaseModel, Field

from ferrule import Client
from ferrule.expose import expose
from ferrule.integrations.fastapi import mount


class Order(BaseModel):
    """An order of the workshop."""

    item: str
    count: Annotated[int, Field(ge=1, le=100)] = 1


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Open what the handlers need; it runs once, also where only the tools are served."""
    yield {"orders": {1: Order(item="hinge", count=4)}}


app = FastAPI(title="workshop", lifespan=lifespan)


def staff(authorization: Annotated[str, Header()] = "") -> None:
    """Let only those in who have the token: it runs for tools as for everybody."""
    if authorization != "Bearer staff":
        raise HTTPException(403, "Only staff may order")


@app.get("/orders/{number}", tags=["orders"])
async def show_order(number: int, request: Request) -> Order:
    """Show an order."""
    orders: dict[int, Order] = request.state.orders
    if number not in orders:
        raise HTTPException(404, f"There is no order {number}")
    return orders[number]


@app.post("/orders", tags=["orders"], status_code=201, dependencies=[Depends(staff)])
async def place_order(order: Order, request: Request) -> dict[str, int]:
    """Order an item of the stock."""
    orders: dict[int, Order] = request.state.orders
    number = max(orders) + 1
    orders[number] = order
    return {"number": number}


@app.get("/metrics")
async def metrics() -> str:
    """What no model needs: it has no tag that is exposed."""
    return "up 1"


mcp = expose(app, include="tag:orders", forward_headers=("authorization",))
mount(app, mcp, loopback=True)


async def show_tools(client: Client) -> None:
    """Call everything once."""
    print(f"  tools:    {', '.join(sorted(tool.name for tool in await client.list_tools()))}")
    print(f"  order 1:  {(await client.call_tool('show_order', {'number': 1})).text}")
    missing = (await client.call_tool("show_order", {"number": 7})).text
    print(f"  order 7:  {missing.splitlines()[-1]}")
    placed = await client.call_tool("place_order", {"item": "screw", "count": 40})
    print(f"  ordering: {placed.text.splitlines()[-1]}")


async def main() -> None:
    """Show the server in this process, and inside the application under uvicorn."""
    print("in this process")
    async with Client(mcp) as client:
        await show_tools(client)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    for mode in ("2025-11-25", "2026-07-28"):
        print(f"{mode} over HTTP, as staff")
        async with Client(url, mode=mode, headers={"Authorization": "Bearer staff"}) as client:
            await show_tools(client)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    if sys.argv[1:] == ["stdio"]:
        mcp.run("stdio")
    else:
        asyncio.run(main())
