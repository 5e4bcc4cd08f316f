"""A server without a library, whose numbers are written as no JSON library of Python would write them."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}, "m": {"type": "integer"}}}
ROWS = '[{"name":"a","value":1.0},{"name":"b","value":1e400},{"name":"c","value":0.10000000000000000555}]'


def answer(method: str, params: Any, line: str) -> str | None:
    """The result of a request as text; ``None`` for an unknown method."""
    if method == "initialize":
        facts = {"capabilities": {"tools": {}}, "serverInfo": {"name": "numbers", "version": "1"}}
        return json.dumps({"protocolVersion": params["protocolVersion"], **facts})
    if method == "tools/list":
        return json.dumps({"tools": [{"name": name, "inputSchema": SCHEMA} for name in ("rows", "echo")]})
    if method == "tools/call" and params["name"] == "rows":
        return f'{{"content":[],"structuredContent":{{"rows":{ROWS}}}}}'
    if method == "tools/call":
        return json.dumps({"content": [{"type": "text", "text": line.strip()}]})
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params"), line)
            rest = '"error":{"code":-32601,"message":"unknown"}' if result is None else f'"result":{result}'
            sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{rest}}}\n')
            sys.stdout.flush()
