"""A low-level server whose sessions differ: each has tools of its own, and says in which process it runs."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio

from ferrule import Server
from ferrule.kernel.changes.bus import Event


def make_server(eras: tuple[str, ...] = ()) -> Server[Any]:
    """Legacy only, unless modern revisions are named."""
    server: Server[Any] = Server("sessions", list_changed=["tools"], resource_updates=True, logging=True)
    server.modern_versions = eras
    grown: dict[str | None, list[str]] = {}

    def mine(ctx: Any) -> list[str]:
        return grown.setdefault(ctx.session.connection.session_id, ["grow", "touch", "ask"])

    async def tools(ctx: Any) -> Any:
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in mine(ctx)]}

    async def call(ctx: Any) -> Any:
        name = ctx.params["name"]
        if name == "grow":
            mine(ctx).append(f"more{len(mine(ctx))}")
            await ctx.session.notify("notifications/tools/list_changed")
        elif name == "touch":
            server.bus.publish(Event.resource_updated("note://1"))
        elif name == "ask":
            await ctx.session.notify("notifications/message", {"level": "info", "data": ctx.params.get("arguments")})
            await anyio.sleep(0.05)
        return {"content": [{"type": "text", "text": f"{os.getpid()}"}]}

    async def read(ctx: Any) -> Any:
        return {"contents": [{"uri": ctx.params["uri"], "text": "x"}]}

    async def resources(ctx: Any) -> Any:
        return {"resources": [{"uri": "note://1", "name": "one"}]}

    for method, handler in (("tools/list", tools), ("tools/call", call), ("resources/read", read)):
        server.add_request_handler(method, handler, params_type=dict[str, Any], trusted=True)
    server.add_request_handler("resources/list", resources, params_type=dict[str, Any], trusted=True)
    return server


if __name__ == "__main__":
    from ferrule.transports.hosting.running import run

    if len(sys.argv) > 1:
        with open(sys.argv[1], "a") as starts:
            starts.write(f"{os.getpid()}\n")
    run(make_server(tuple(sys.argv[2:])))
