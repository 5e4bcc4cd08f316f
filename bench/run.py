"""The headline measurements, for Ferrule and for those peers whose environments are there, as one Markdown table.

Usage: run.py [--quick] [--only REGEX] [--candidates NAME,…] [--output FILE] NAME=PYTHON…
``scripts/bench`` makes the environments and calls this.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from measure import (
    LEGACY,
    MODERN,
    MeasurementError,
    cpu_ms_per_call,
    first_answer_ms,
    http_server,
    python_cpu_ms,
    resident_mb,
    sequential,
    split_cpus,
    stdio_server,
)

SERVERS = Path(__file__).resolve().parent / "servers"

SERVER_CLASS = {
    "ferrule": "from ferrule import MCPServer",
    "mcp": "from mcp.server.mcpserver import MCPServer",
    "fastmcp": "from fastmcp import FastMCP",
}


@dataclass(frozen=True)
class Candidate:
    """A library in an interpreter."""

    name: str
    python: str

    def stdio(self, tools: int = 0) -> list[str]:
        """The command of its stdio server."""
        return [self.python, str(SERVERS / f"{self.name}_server.py"), "stdio", str(tools)]

    def http(self, tools: int = 0) -> list[str]:
        """The command of its HTTP server; the port is to be appended."""
        return [self.python, str(SERVERS / f"{self.name}_server.py"), "http", str(tools)]

    def version(self) -> str:
        """The version that is installed."""
        program = f"from importlib.metadata import version; print(version({self.name!r}))"
        return subprocess.run([self.python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


@dataclass(frozen=True)
class Row:
    """One measurement: smaller is better in every unit."""

    name: str
    unit: str
    measure: Callable[[Candidate, float], float]


def _stdio_sequential(revision: str) -> Callable[[Candidate, float], float]:
    def measure(candidate: Candidate, seconds: float) -> float:
        with stdio_server(candidate.stdio(), revision) as server:
            sequential(server, seconds / 5)()
            return cpu_ms_per_call(server.process.pid, sequential(server, seconds))

    return measure


def _stdio_outstanding(revision: str) -> Callable[[Candidate, float], float]:
    def measure(candidate: Candidate, seconds: float) -> float:
        with stdio_server(candidate.stdio(), revision) as server:
            server.keep_outstanding(64, seconds / 5)
            return cpu_ms_per_call(server.process.pid, lambda: server.keep_outstanding(64, seconds))

    return measure


def _http(revision: str) -> Callable[[Candidate, float], float]:
    def measure(candidate: Candidate, seconds: float) -> float:
        with http_server(candidate.http(), revision) as server:
            server.keep_connections(64, seconds / 5)
            return cpu_ms_per_call(server.process.pid, lambda: server.keep_connections(64, seconds))

    return measure


def _list_tools(candidate: Candidate, seconds: float) -> float:
    with stdio_server(candidate.stdio(999), MODERN) as server:
        server.list_tools()

        def load() -> int:
            calls, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                if (count := server.list_tools()) != 1000:
                    raise MeasurementError(f"{count} tools were listed instead of 1000")
                calls += 1
            return calls

        return cpu_ms_per_call(server.process.pid, load)


def _import(candidate: Candidate, _: float) -> float:
    statement = SERVER_CLASS[candidate.name]
    return max(python_cpu_ms(candidate.python, statement) - python_cpu_ms(candidate.python, "pass"), 0.0)


def _start(tools: int) -> Callable[[Candidate, float], float]:
    return lambda candidate, _: first_answer_ms(candidate.stdio(tools), MODERN)


def _memory_stdio(candidate: Candidate, _: float) -> float:
    with stdio_server(candidate.stdio(), MODERN) as server:
        return resident_mb(server.process.pid)


def _memory_http(candidate: Candidate, seconds: float) -> float:
    with http_server(candidate.http(), MODERN) as server:
        server.keep_connections(64, seconds)
        return resident_mb(server.process.pid)


ROWS = [
    Row("stdio, one at a time, 2026-07-28", "CPU ms/call", _stdio_sequential(MODERN)),
    Row("stdio, one at a time, 2025-11-25", "CPU ms/call", _stdio_sequential(LEGACY)),
    Row("stdio, 64 outstanding, 2026-07-28", "CPU ms/call", _stdio_outstanding(MODERN)),
    Row("stdio, 64 outstanding, 2025-11-25", "CPU ms/call", _stdio_outstanding(LEGACY)),
    Row("HTTP, 64 connections, 2026-07-28", "CPU ms/call", _http(MODERN)),
    Row("HTTP, 64 connections, 2025-11-25", "CPU ms/call", _http(LEGACY)),
    Row("tools/list, 1000 tools, stdio", "CPU ms/call", _list_tools),
    Row("import of the server class", "CPU ms", _import),
    Row("start to first answer, stdio", "ms", _start(0)),
    Row("start to first answer, 1000 tools", "ms", _start(999)),
    Row("memory after start, stdio", "MB", _memory_stdio),
    Row("memory after load, HTTP", "MB", _memory_http),
]


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _table(rows: list[Row], candidates: list[Candidate], measured: dict[tuple[str, str], list[float]]) -> str:
    """The medians, and for each peer how many times Ferrule's figure it is."""
    titles = [f"{candidate.name} {candidate.version()}" for candidate in candidates]
    lines = ["| | unit | " + " | ".join(titles) + " |", "|---|---|" + "---:|" * len(candidates)]
    for row in rows:
        medians = {c.name: statistics.median(v) for c in candidates if (v := measured.get((row.name, c.name)))}
        cells: list[str] = []
        for candidate in candidates:
            value, own = medians.get(candidate.name), medians.get("ferrule")
            cell = "–" if value is None else _number(value)
            if value is not None and own and candidate.name != "ferrule":
                cell += f" ({value / own:.1f}x)"
            cells.append(cell)
        lines.append(f"| {row.name} | {row.unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}"


def main() -> int:
    """Measure in rounds and print the table."""
    parser = argparse.ArgumentParser(description="Measure the headline rows.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", default="", metavar="REGEX", help="only the rows whose name matches")
    parser.add_argument("--candidates", default="", metavar="NAME,…", help="only these candidates")
    parser.add_argument("--output", metavar="FILE", help="write the table to this file too")
    parser.add_argument("interpreters", nargs="+", metavar="NAME=PYTHON")
    options = parser.parse_args()

    wanted = set(filter(None, options.candidates.split(",")))
    pairs = [entry.split("=", 1) for entry in options.interpreters]
    candidates = [Candidate(name, python) for name, python in pairs if not wanted or name in wanted]
    rows = [row for row in ROWS if re.search(options.only, row.name)]
    rounds, seconds = (2, 0.5) if options.quick else (5, 1.5)
    os.sched_setaffinity(0, split_cpus()[1])

    measured: dict[tuple[str, str], list[float]] = {}
    failed = False
    for row in rows:
        print(f"{row.name} …", file=sys.stderr, flush=True)
        for _ in range(rounds):
            for candidate in candidates:
                try:
                    measured.setdefault((row.name, candidate.name), []).append(row.measure(candidate, seconds))
                except (MeasurementError, OSError, subprocess.SubprocessError, ValueError) as error:
                    failed = True
                    print(f"  {candidate.name}: {error}", file=sys.stderr, flush=True)

    text = f"{date.today().isoformat()}, {_machine()}; medians of {rounds} rounds.\n\n"
    text += _table(rows, candidates, measured) + "\n"
    print(text)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
