"""A server for a pod: everything that differs between places comes from the environment."""

from __future__ import annotations

import os

from ferrule import MCPServer
from ferrule.transports.hosting.uvicorn_server import HttpLimits

app = MCPServer(
    "foundry",
    store=os.environ.get("FOUNDRY_STORE", "memory:"),  # redis://…: the same for all
    state_keys=[os.environ.get("FOUNDRY_STATE_KEY", "a development key of 32 bytes or more")],
)


@app.tool
def melt(metal: str) -> str:
    return f"{metal} is liquid"


if __name__ == "__main__":
    app.run(
        "http",
        host=os.environ.get("FOUNDRY_HOST", "0.0.0.0"),
        port=int(os.environ.get("PORT", "8000")),
        allowed_hosts=["mcp.example.com"],
        limits=HttpLimits(notice_s=5, drain_s=20),
        on_started=lambda host, port: print(f"serving {port}", flush=True),
    )
