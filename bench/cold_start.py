"""What a function costs until its first answer: CPU from the start of the process, and modules that it has imported.

``python bench/cold_start.py [ROUNDS]`` prints a Markdown table; each figure is the least of the rounds, each in a
process of its own with compiled files. The event is one of an HTTP API with a ``tools/call`` of the modern era.
"""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys, time
{body}
ours = sum(name.split(".")[0] == "ferrule" for name in sys.modules)
print(json.dumps([time.process_time() * 1000, len(sys.modules), ours]))
"""
FUNCTION = """
import ferrule.serverless
from ferrule import MCPServer
app = MCPServer("foundry", store=None)

@app.tool
async def melt(metal: str) -> str:
    return f"{metal} is liquid"

handler = ferrule.serverless.handler(app, allowed_hosts=["mcp.example.com"], health_path=None, ready_path=None)
"""
CALL = """
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
           "params": {"name": "melt", "arguments": {"metal": "brass"}, "_meta": meta}}
headers = {"host": "mcp.example.com", "content-type": "application/json",
           "accept": "application/json, text/event-stream", "mcp-method": "tools/call", "mcp-name": "melt",
           "mcp-protocol-version": "2026-07-28"}
event = {"version": "2.0", "rawPath": "/mcp", "rawQueryString": "", "headers": headers, "body": json.dumps(message),
         "isBase64Encoded": False,
         "requestContext": {"http": {"method": "POST", "sourceIp": "203.0.113.7"}, "stage": "$default"}}
result = handler(event)
assert json.loads(result["body"])["result"]["content"][0]["text"] == "brass is liquid", result
"""
ROWS = {
    "the interpreter": "",
    "`asyncio` and `msgspec`": "import asyncio, msgspec",
    "the function imported, before its first event": FUNCTION,
    "the first answer": FUNCTION + CALL,
    "a hundred answers": FUNCTION + CALL + "for _ in range(99): handler(event)",
}


def measured(body: str, rounds: int) -> tuple[float, int, int]:
    """Return CPU in ms, modules, and modules of ferrule at the end of a program."""
    found: list[list[float]] = []
    for _ in range(rounds + 1):  # the first one compiles
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(body=body)], check=True, capture_output=True, encoding="utf-8"
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    least = min(found[1:])
    return least[0], int(least[1]), int(least[2])


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    print("| until | CPU | modules | of these ferrule's |\n|---|---:|---:|---:|")
    for name, body in ROWS.items():
        cpu_ms, modules, ours = measured(body, rounds)
        print(f"| {name} | {cpu_ms:.0f} ms | {modules} | {ours} |")


if __name__ == "__main__":
    main()
