"""A Ferrule server whose sync tool, which runs in a thread, burns CPU: BURN_MS PORT."""

from __future__ import annotations

import os
import sys
import time

from ferrule import MCPServer

burn_ms, port = sys.argv[1:]
burn_s = float(burn_ms) / 1000
os.sched_setaffinity(0, range(os.cpu_count() or 1))  # its threads are there to use all processors

app = MCPServer("bench", version="1")


@app.tool
def echo(text: str) -> str:
    """Give the text back, after so much work in a thread."""
    end = time.thread_time() + burn_s
    while time.thread_time() < end:
        pass
    return text


if __name__ == "__main__":
    app.run("http", port=int(port), stateless=True)
