"""For a function host with ASGI: nothing is kept between requests."""

from ferrule import MCPServer

app = MCPServer("foundry", store=None, state_keys=["a secret of 32 bytes or more, from the platform"])


@app.tool
def melt(metal: str) -> str:
    return f"{metal} is liquid"


handler = app.asgi(legacy=False, allowed_hosts=["mcp.example.com"], health_path=None, ready_path=None)
