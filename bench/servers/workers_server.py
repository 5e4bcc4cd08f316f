"""A Ferrule server with so many workers, whose tool may burn CPU: WORKERS BURN_MS STORE PORT (STORE ``-`` for none)."""

from __future__ import annotations

import os
import sys
import time

from ferrule import MCPServer

if __name__ == "__main__":
    os.environ["FERRULE_BENCH"] = " ".join(sys.argv[1:])
workers, burn_ms, store, port = os.environ["FERRULE_BENCH"].split()
os.sched_setaffinity(0, range(os.cpu_count() or 1))  # workers are there to use all processors
burn_s = float(burn_ms) / 1000

app = MCPServer("bench", version="1") if store == "-" else MCPServer("bench", version="1", store=store)


@app.tool
async def echo(text: str) -> str:
    """Give the text back, after so much work on the event loop."""
    end = time.thread_time() + burn_s
    while time.thread_time() < end:
        pass
    return text


if __name__ == "__main__":
    app.run("http", port=int(port), workers=int(workers), stateless=store == "-")
