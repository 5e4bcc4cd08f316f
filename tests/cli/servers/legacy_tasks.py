"""Tasks of 2025-11-25 by a server that shows them to every client; written by hand, over stdin and stdout."""

from __future__ import annotations

import json
import sys
from typing import Any

TASK = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None, "pollInterval": 20}
looks = 0


def state(name: str) -> dict[str, Any]:
    """``t1`` works when it is looked at first, and has ended then."""
    global looks
    looks += 1
    status = "cancelled" if name == "t2" else "working" if looks == 1 else "completed"
    return {"taskId": name, "status": status, "statusMessage": f"look {looks}", **TASK}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    name = params.get("taskId", "t1")
    if method == "initialize":
        tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": tasks},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    if method == "tools/call":
        return {"task": state("t1")}
    if method == "tasks/list":
        return {"tasks": [state("t1")], "nextCursor": "2"} if "cursor" not in params else {"tasks": [state("t2")]}
    if method == "tasks/result":
        return {"content": [{"type": "text", "text": f"the result of {name}"}]}
    if method in ("tasks/get", "tasks/cancel"):
        return state(name)
    raise KeyError(method)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
    try:
        reply["result"] = answer(asked["method"], asked.get("params") or {})
    except KeyError:
        reply["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(reply), flush=True)
