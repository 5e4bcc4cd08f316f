"""A server over stdio with one kind of answer for each tool name, which records every line that it reads."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

TEXT = {"content": [{"type": "text", "text": "hello"}]}
RESULTS: dict[str, Any] = {
    "plain": TEXT,
    "complete": {**TEXT, "resultType": "complete", "_meta": {"any": 1}},
    "structured": {**TEXT, "structuredContent": {"a": [1, None, "é"]}},
    "null structured": {**TEXT, "structuredContent": None},
    "failed": {**TEXT, "isError": True},
    "wrapped": {**TEXT, "structuredContent": {"result": 3}},
    "unknown kind": {"content": [{"type": "hologram", "data": 1}]},
    "unknown member": {**TEXT, "xUnknown": 1},
    "null type": {**TEXT, "resultType": None},
    "strange type": {**TEXT, "resultType": "x-strange"},
    "no content": {"structuredContent": 1},
    "null": None,
    "list": [],
    "deep": {**TEXT, "structuredContent": {"a": json.loads("[" * 300 + "]" * 300)}},
    "surrogate": {"content": [{"type": "text", "text": "\ud800"}]},
}
ERRORS: dict[str, Any] = {
    "refused": {"code": -32602, "message": "no", "data": {"why": 1}},
    "failing": {"code": -32603, "message": "broken"},
}


def send(message: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(id: Any, name: str, meta: dict[str, Any]) -> None:
    """Answer one call, or do not."""
    if name in RESULTS:
        send({"jsonrpc": "2.0", "id": id, "result": RESULTS[name]})
    elif name in ERRORS:
        send({"jsonrpc": "2.0", "id": id, "error": ERRORS[name]})
    elif name == "extra":
        send({"jsonrpc": "2.0", "id": id, "result": TEXT, "xUnknown": 1})
    elif name == "float id":
        send({"jsonrpc": "2.0", "id": float(id), "result": TEXT})
    elif name == "log":
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "before"}})
        send({"jsonrpc": "2.0", "id": id, "result": TEXT})
    elif name == "progress":
        for step in range(6):
            time.sleep(0.15)
            params = {"progressToken": meta.get("progressToken"), "progress": step}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        send({"jsonrpc": "2.0", "id": id, "result": TEXT})
    elif name == "end":
        sys.exit(3)


def main() -> None:
    """Serve the newest revision, or, with an argument, the one before."""
    record = open(sys.argv[1], "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    for line in sys.stdin:
        record.write(line)
        record.flush()
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "server/discover" and sys.argv[2] == "modern":
            found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
            send({"jsonrpc": "2.0", "id": id, "result": found})
        elif method == "initialize":
            info = {"name": "odd", "version": "1"}
            found = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            send({"jsonrpc": "2.0", "id": id, "result": found})
        elif method == "tools/list":
            send({"jsonrpc": "2.0", "id": id, "result": {"tools": [], "resultType": "complete"}})
        elif method == "tools/call":
            answer(id, params["name"], params.get("_meta") or {})
        elif id is not None:
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}})


if __name__ == "__main__":
    main()
