import os

from ferrule import MCPServer
from ferrule.auth import ResourceServer, StaticTokens

TOKEN = os.environ["MCP_TOKEN"]
PUBLIC_URL = os.environ.get("PUBLIC_URL", "http://127.0.0.1:8000/mcp")  # as clients use it

app = MCPServer(
    "stock",
    store=os.environ.get("STORE", "memory:"),
    auth=ResourceServer(StaticTokens({TOKEN: {"subject": "client"}}), resource=PUBLIC_URL),
)


@app.tool
def count(part: str) -> int:
    """Count the pieces of a part."""
    return len(part)


if __name__ == "__main__":
    app.run(
        "http",
        host=os.environ.get("HOST", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8000")),
        allowed_hosts=["127.0.0.1", "localhost", *os.environ.get("ALLOWED_HOSTS", "").split()],
        access_log=True,
    )
