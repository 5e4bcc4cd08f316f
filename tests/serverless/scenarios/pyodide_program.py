"""A server as a Worker runs it: on an event loop that is there already, without threads and sockets."""

import json
import sys
from typing import Any

import ferrule.serverless
from ferrule import Context, MCPServer

app = MCPServer("foundry", store=None)


@app.tool
async def melt(metal: str, ctx: Context) -> str:
    """Melt a metal."""
    await ctx.progress(1)
    return f"{metal} is liquid"


@app.resource("metal://{name}")
async def metal(name: str) -> str:
    """Describe a metal."""
    return name


function = ferrule.serverless.handler(app, allowed_hosts=["mcp.example.com"], health_path=None, ready_path=None)
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


async def ask(method: str, params: dict[str, Any], version: str = "2026-07-28") -> Any:
    """Send one request and return its result."""
    is_modern = version == "2026-07-28"
    sent = {**params, "_meta": META} if is_modern else params
    headers = {
        "host": "mcp.example.com",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        **({"mcp-method": method, "mcp-name": params.get("name", params.get("uri", ""))} if is_modern else {}),
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}).encode()
    request = ferrule.serverless.FunctionRequest(method="POST", path="/mcp", headers=list(headers.items()), body=body)
    response = await function.respond(request)
    assert response.status == 200, response
    return json.loads(response.body)["result"]


async def main() -> None:
    """Both eras."""
    found: dict[str, Any] = {"platform": sys.platform}
    for version in ("2026-07-28", "2025-11-25"):
        called = await ask("tools/call", {"name": "melt", "arguments": {"metal": "brass"}}, version)
        read = await ask("resources/read", {"uri": "metal://tin"}, version)
        found[version] = [called["content"][0]["text"], read["contents"][0]["text"]]
    print(json.dumps(found))


await main()  # noqa: F704  # pyright: ignore - Pyodide runs a program inside its event loop
