"""What threads of a free-threaded Python bring to sync tools: free_threading.py PYTHON [PYTHON ...]

Each PYTHON is an interpreter that has Ferrule. Its server runs one process; a sync tool burns 5 ms of CPU in a thread
for each call, and 16 connections have one call open each. The servers take turns in slices of two seconds, after one to
warm up; the table has the best slice of each. With a global interpreter lock (GIL) threads share one processor:
200 calls a second at best. Needs Linux and two processors or more; the load runs beside the servers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from measure import MODERN, cpu_s, http_server

SERVER = Path(__file__).resolve().parent / "servers" / "threads_server.py"
BURN_MS, CONNECTIONS, ROUNDS, SLICE_S = 5, 16, 4, 2.0
DESCRIBE = (
    "import platform, sys\n"
    "import ferrule; from ferrule import Client, MCPServer\n"
    "gil = getattr(sys, '_is_gil_enabled', lambda: True)()\n"
    "print(platform.python_version(), 'with the GIL' if gil else 'without the GIL')"
)


def main(pythons: list[str]) -> None:
    """Measure and print the table."""
    found: dict[str, list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        servers = {}
        for python in pythons:
            name = subprocess.run([python, "-c", DESCRIBE], check=True, capture_output=True, text=True).stdout.strip()
            servers[name] = stack.enter_context(http_server([python, str(SERVER), str(BURN_MS)], MODERN))
        for number in range(ROUNDS + 1):
            for name, server in servers.items():
                cpu, began = cpu_s(server.process.pid), time.perf_counter()
                calls = server.keep_connections(CONNECTIONS, SLICE_S)
                elapsed_s = time.perf_counter() - began
                if number:
                    cores = (cpu_s(server.process.pid) - cpu) / elapsed_s
                    found.setdefault(name, []).append((calls / elapsed_s, cores))
    print(f"| Python | calls/s of a sync tool of {BURN_MS} ms | processors used |\n|---|---:|---:|")
    for name, slices in found.items():
        calls_per_s, cores = max(slices)
        print(f"| {name} | {calls_per_s:.0f} | {cores:.2f} |")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(sys.argv[1:])
