"""A server over stdio whose callers say what it answers, and which records every message that it reads.

python raw_server.py RECORD modern|legacy

A call's argument ``result`` is the text of the result, or ``error`` that of the error. ``before`` is a list of messages
that it sends first; ``silent`` leaves the call without an answer until the client answers a question, ``end`` ends the
process.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def write(text: str) -> None:
    """Write one line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


silent: list[Any] = []
"""The ids of calls without an answer."""


def answer(id: Any, params: dict[str, Any]) -> None:
    """Answer one call as it says."""
    said = params.get("arguments") or {}
    if said.get("end"):
        sys.exit(3)
    for message in said.get("before", ()):
        if message.get("method") == "notifications/progress":
            token = (params.get("_meta") or {}).get("progressToken")
            message = {**message, "params": {**message["params"], "progressToken": token}}
        write(json.dumps(message))
    if said.get("silent"):
        silent.append(id)
        return
    member, text = ("error", said["error"]) if "error" in said else ("result", said.get("result", '{"content":[]}'))
    write(f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"{member}":{text}}}')


def main() -> None:
    """Serve one revision."""
    is_modern = sys.argv[2] == "modern"
    capabilities = {"tools": {}, **({"logging": {}} if len(sys.argv) > 3 else {})}
    info = {"name": "raw", "version": "1"}
    with open(sys.argv[1], "a", encoding="utf-8") as record:
        for line in sys.stdin:
            record.write(line)
            record.flush()
            message = json.loads(line)
            method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
            found: Any = None
            if method == "server/discover" and is_modern:
                stamp = {"io.modelcontextprotocol/serverInfo": info}
                found = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": stamp}
            elif method == "initialize" and not is_modern:
                found = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            elif method == "tools/list":
                found = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
            if method == "tools/call":
                answer(id, params)
            elif found is not None:
                kind = {"resultType": "complete"} if is_modern else {}
                write(json.dumps({"jsonrpc": "2.0", "id": id, "result": {**found, **kind}}))
            elif method is None and silent:
                result = {"content": [], "structuredContent": {"answer": message.get("result")}}
                write(json.dumps({"jsonrpc": "2.0", "id": silent.pop(), "result": result}))
            elif id is not None and method is not None:
                error = {"code": -32601, "message": "unknown"}
                write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}))


if __name__ == "__main__":
    main()
