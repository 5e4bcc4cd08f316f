"""A protected MCP server: one line, ``auth=``, and scopes where a tool needs more than being known.

Run it beside ``issuer.py``: ``python server.py --issuer http://localhost:9100 --port 9000``.
"""

from __future__ import annotations

import argparse

from ferrule import Context, MCPServer
from ferrule.auth import JwtTokens, ResourceServer

DRAWERS = {"left": 3, "right": 5}


def make_server(issuer: str, resource: str) -> MCPServer[None]:
    """The server.

    Args:
        issuer: whose tokens it takes.
        resource: its own URL, as clients use it; tokens must be meant for it.
    """
    auth = ResourceServer(JwtTokens(issuer), resource=resource, required_scopes=["drawers:read"])
    app: MCPServer[None] = MCPServer("drawers", version="1.0", auth=auth)

    @app.tool
    async def count(drawer: str) -> int:
        """How many parts are in a drawer."""
        return DRAWERS[drawer]

    @app.tool(scopes=["drawers:write"])
    async def put(drawer: str, parts: int) -> int:
        """Put parts into a drawer: needs one scope more, which a client asks its user for when it gets here."""
        DRAWERS[drawer] += parts
        return DRAWERS[drawer]

    @app.tool
    async def whoami(ctx: Context) -> str:
        """Who calls."""
        return f"{ctx.principal.subject}, through {ctx.principal.client_id}"

    @app.tool(allow=lambda principal: principal.subject == "admin")
    async def empty() -> str:
        """Empty every drawer; for anybody but the administrator this tool does not exist."""
        DRAWERS.update(dict.fromkeys(DRAWERS, 0))
        return "empty"

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--issuer", default="http://localhost:9100")
    parser.add_argument("--port", type=int, default=9000)
    arguments = parser.parse_args()
    resource = f"http://localhost:{arguments.port}/mcp"
    make_server(arguments.issuer, resource).run("http", port=arguments.port)
