"""A configuration with three servers, two of which have a tool of the same name, and entries that cannot be used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

SERVER = """
import os
from ferrule import MCPServer
app = MCPServer({name!r})

@app.tool
def add(text: str = "") -> str:
    \"\"\"Add it.\"\"\"
    return {name!r} + text + os.environ.get("KEY", "")

@app.tool
def {own}() -> str:
    \"\"\"Only here.\"\"\"
    return {own!r}
"""


def write_configuration(folder: Path) -> Path:
    """Write the servers and ``mcp.json``; return its path."""
    servers: dict[str, object] = {}
    for name, own in (("notes", "pin"), ("shop", "order")):
        (folder / f"{name}.py").write_text(SERVER.format(name=name, own=own))
        servers[name] = {"command": sys.executable, "args": ["-m", "ferrule", "run", str(folder / f"{name}.py")]}
    servers["broken"] = {"command": "no-such-program-at-all"}
    servers["web"] = {"url": "http://127.0.0.1:9/mcp"}
    servers["odd"] = {"comand": "x"}
    servers["off"] = {"command": "x", "disabled": True}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path
