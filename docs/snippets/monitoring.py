"""Measurements for the operator of a server."""

# --8<-- [start:code]
from ferrule import MCPServer
from ferrule.integrations.opentelemetry import instrument

app = instrument(MCPServer("foundry"))


@app.tool
def melt(metal: str) -> str:
    return f"{metal} is liquid"


# --8<-- [end:code]


# --8<-- [start:ready]
async def furnace_is_hot() -> bool:
    return True


endpoint = app.asgi(health_path="/livez", ready_path="/ready", ready_check=furnace_is_hot)
# --8<-- [end:ready]


async def check(mode: str) -> None:
    """In both eras."""
    from typing import Any

    from ferrule import Client

    async def get(path: str) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
        await endpoint(scope, receive, send)
        return int(sent[0]["status"])

    assert await get("/livez") == 200
    assert await get("/ready") == 200
    assert await get("/healthz") == 404
    endpoint.announce_drain()
    assert await get("/ready") == 503
    await endpoint.aclose()
    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("melt", {"metal": "brass"})).text == "brass is liquid"
