"""A server as a function."""

# --8<-- [start:code]
import ferrule.serverless
from ferrule import MCPServer

app = MCPServer("foundry", store=None, state_keys=["a secret of 32 bytes or more, from the platform"])


@app.tool
def melt(metal: str) -> str:
    return f"{metal} is liquid"


handler = ferrule.serverless.handler(app, allowed_hosts=["mcp.example.com"], health_path=None, ready_path=None)


# --8<-- [end:code]


# --8<-- [start:other]
from ferrule.serverless import FunctionRequest, FunctionResponse


async def fetch(method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> FunctionResponse:
    return await handler.respond(FunctionRequest(method=method, path=path, headers=headers, body=body))


# --8<-- [end:other]


async def check(mode: str) -> None:
    """In both eras."""
    import json

    from ferrule.wire.revisions import LATEST_MODERN_VERSION

    is_modern = mode == "auto"
    params: dict[str, object] = {"name": "melt", "arguments": {"metal": "brass"}}
    headers = {"host": "mcp.example.com", "content-type": "application/json"}
    headers["accept"] = "application/json, text/event-stream"
    headers["mcp-protocol-version"] = LATEST_MODERN_VERSION if is_modern else "2025-11-25"
    if is_modern:
        headers |= {"mcp-method": "tools/call", "mcp-name": "melt"}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    response = await fetch("POST", "/mcp", list(headers.items()), body)
    assert json.loads(response.body)["result"]["content"][0]["text"] == "brass is liquid"
    await handler.aclose()
