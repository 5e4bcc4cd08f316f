"""A Flask application with its endpoint, as a host imports it: ``tests.integrations.flask.hosted:app``."""

from __future__ import annotations

import os
import threading
from typing import Any

import flask

from ferrule import Context
from ferrule.expose import expose
from ferrule.integrations.flask import mount

app = flask.Flask("shop")


@app.get("/items/<int:number>")
def item(number: int) -> dict[str, Any]:
    """Show an item."""
    return {"number": number, "pid": os.getpid(), "host": flask.request.host, "thread": threading.current_thread().name}


mcp = expose(app, include="item")


@mcp.tool
def plain(number: int) -> int:
    """Work in a thread."""
    return number + 1


@mcp.tool
async def calls_back(number: int, ctx: Context) -> Any:
    """Call the application by another tool."""
    await ctx.progress(1, 2)
    with app.test_client() as client:
        return client.get(f"/items/{number}").get_json()


endpoint = mount(app, mcp, "/mcp", allowed_hosts=["127.0.0.1:*", "127.0.0.1"])
