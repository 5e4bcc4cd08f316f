"""What a second worker costs and brings, as ratios of one run: workers.py [--store redis://…] [--workers 2] [--quick]

Two servers, of one and of two workers, stand side by side and take turns in short slices, so that whatever else the
machine does meets both. Needs two processors and Linux (see measure.py); without ``--store`` the legacy row, whose
sessions need a Redis, is left out.

====================  ===================================================================================
row                   meaning
====================  ===================================================================================
CPU per call          of the whole process tree; the second worker, and sharing a port, should cost nothing
calls per second      of a tool that burns 5 ms of CPU on the event loop; two workers use two processors
====================  ===================================================================================

The second row counts elapsed time, and what other programs take of the second processor is missing in it. They only
ever make it slower, so the best slice of each server is taken, and beside it stands how much CPU the server got per
second: where two workers got much less than two seconds of it, the machine was busy, and the ratio says nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from measure import LEGACY, MODERN, HttpServer, cpu_s, http_server

SERVER = Path(__file__).resolve().parent / "servers" / "workers_server.py"
LIMIT = SERVER.with_name("workers_limit.py")
CONNECTIONS = 32


def slices(one: HttpServer, two: HttpServer, rounds: int, seconds: float) -> list[tuple[Slice, Slice]]:
    """Both servers under load in turn."""
    found: list[tuple[Slice, Slice]] = []
    for number in range(rounds + 1):
        pair = (Slice(one, seconds), Slice(two, seconds))
        if number:  # the first warms up
            found.append(pair)
    return found


class Slice:
    """One measured stretch of load."""

    def __init__(self, server: HttpServer, seconds: float) -> None:
        cpu, began = cpu_s(server.process.pid), time.perf_counter()
        self.calls = server.keep_connections(CONNECTIONS, seconds)
        self.elapsed_s = time.perf_counter() - began
        self.cpu_s = cpu_s(server.process.pid) - cpu

    @property
    def cpu_ms_per_call(self) -> float:
        """Of the server's process tree."""
        return self.cpu_s / self.calls * 1e3

    @property
    def calls_per_s(self) -> float:
        """Answers per second of elapsed time."""
        return self.calls / self.elapsed_s


def measure(
    title: str, revision: str, burn_ms: float, store: str, rounds: int, seconds: float, program: Path, more: int
) -> list[str]:
    """The rows of one kind of server, with one worker and with so many more."""
    with ExitStack() as stack:
        servers: list[HttpServer] = []
        for workers in (1, more):
            own = store if store == "-" else f"{store}?prefix=bench-{os.getpid()}-{workers}"
            command = [sys.executable, str(program), str(workers), str(burn_ms), own]
            servers.append(stack.enter_context(http_server(command, revision)))
        time.sleep(1.5)  # the second worker may still be importing
        pairs = slices(servers[0], servers[1], rounds, seconds)
    costs = [[pair[which].cpu_ms_per_call for pair in pairs] for which in (0, 1)]
    cost = statistics.median(two / one for one, two in zip(*costs, strict=True))
    one_ms, two_ms = (statistics.median(values) for values in costs)
    best = [max((pair[which] for pair in pairs), key=lambda found: found.calls_per_s) for which in (0, 1)]
    shown = [f"{found.calls_per_s:.0f} ({found.cpu_s / found.elapsed_s:.2f})" for found in best]
    rate = best[1].calls_per_s / best[0].calls_per_s
    return [
        f"| {title} | CPU ms/call | {one_ms:.3f} | {two_ms:.3f} | {cost:.2f}x |",
        f"| {title} | calls/s (CPU s/s) | {shown[0]} | {shown[1]} | {rate:.2f}x |",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", default="-", help="a Redis, for the row of legacy sessions")
    parser.add_argument("--workers", type=int, default=2, help="of the second server")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rounds, seconds = (3, 0.5) if options.quick else (9, 1.0)
    kinds = [
        ("stateless call, 2026-07-28", MODERN, 0.0, "-", SERVER),
        ("tool that burns 5 ms", MODERN, 5.0, "-", SERVER),
        ("the same, bare ASGI app and uvicorn's workers", MODERN, 5.0, "-", LIMIT),
    ]
    if options.store != "-":
        kinds.append(("call in a session, 2025-11-25, Redis", LEGACY, 0.0, options.store, SERVER))
    print(f"| | unit | one worker | {options.workers} workers | ratio |\n|---|---|---:|---:|---:|")
    for title, revision, burn_ms, store, program in kinds:
        print(
            "\n".join(measure(title, revision, burn_ms, store, rounds, seconds, program, options.workers)), flush=True
        )


if __name__ == "__main__":
    main()
