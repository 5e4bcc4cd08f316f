"""A laptop with ten servers behind one gateway, five of which are in trouble; prints how long lists and calls take.

    python bench/laptop.py [--sdk PYTHON]

Five are programs: three of Ferrule, of which one needs 8 seconds to start and one is stopped while it runs, and two of
the official SDK 1.x (``--sdk`` is the interpreter of an environment with it; without, two more of Ferrule). Two are
remote. One is missing, one crashes, one is silent. The test ``tests/client/scenarios/test_gateway_laptop.py`` has the
same servers.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from ferrule import Client, Gateway

__all__ = ["GOOD", "TROUBLED", "Laptop"]

GOOD: Final = ("notes", "board", "sdk_one", "sdk_two", "near", "far")
"""The servers that answer as soon as they have started."""
TROUBLED: Final = ("slow", "missing", "crashing", "silent")

_OURS: Final = """
import os, sys, time
from ferrule import MCPServer, run

gate = sys.argv[1]
while gate and not os.path.exists(gate):
    time.sleep(0.02)
app = MCPServer("behind")

@app.tool
def echo(text: str) -> str:
    return text

@app.tool
def pid() -> int:
    return os.getpid()

if len(sys.argv) > 2:
    app.run("http", port=int(sys.argv[2]))
else:
    app.run()
"""
_SDK: Final = """
import os
from mcp.server.fastmcp import FastMCP

app = FastMCP("sdk")

@app.tool()
def echo(text: str) -> str:
    return text

@app.tool()
def pid() -> int:
    return os.getpid()

app.run()
"""
_SILENT: Final = "import time; time.sleep(100000)"


class Laptop:
    """The ten servers.

    Args:
        folder: where their programs are written.
        sdk: the interpreter of an environment with the official SDK 1.x; ``None``: servers of Ferrule take their place.

    Attributes:
        targets: name → target, for a `Gateway`.
        gate: the slow server waits until this file exists.
    """

    def __init__(self, folder: Path, *, sdk: str | None = None) -> None:
        self._folder = folder
        self.gate = folder / "gate"
        ours, theirs = folder / "ours.py", folder / "theirs.py"
        ours.write_text(_OURS)
        theirs.write_text(_SDK)
        good = [sys.executable, str(ours), ""]
        sdk_program = good if sdk is None else [sdk, str(theirs)]
        self._ports = (_free_port(), _free_port())
        self._remote: list[subprocess.Popen[bytes]] = []
        self.targets: Mapping[str, Any] = {
            "notes": good,
            "board": good,
            "slow": [sys.executable, str(ours), str(self.gate)],
            "sdk_one": sdk_program,
            "sdk_two": sdk_program,
            "near": f"http://127.0.0.1:{self._ports[0]}/mcp",
            "far": f"http://127.0.0.1:{self._ports[1]}/mcp",
            "missing": ["no-such-program-here"],
            "crashing": [sys.executable, "-c", "import sys; sys.exit(3)"],
            "silent": [sys.executable, "-c", _SILENT],
        }

    def __enter__(self) -> Laptop:
        for port in self._ports:
            command = [sys.executable, str(self._folder / "ours.py"), "", str(port)]
            self._remote.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        for port in self._ports:
            _wait_for(port)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._remote:
            process.terminate()
        for process in self._remote:
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(3000):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit(f"nothing listens on port {port}")


async def measure(laptop: Laptop, cache: Path) -> None:
    """Print the times of two starts, the first without anything known."""
    for start in ("first start", "next start"):
        laptop.gate.unlink(missing_ok=True)
        began = time.perf_counter()
        gateway = Gateway(laptop.targets, list_cache=cache, connect_timeout_s=30.0)
        async with Client(gateway, cache=False) as client:
            await _measure_start(start, began, laptop, gateway, client)


async def _measure_start(start: str, began: float, laptop: Laptop, gateway: Gateway, client: Client) -> None:
    async def listed(what: str) -> None:
        before = time.perf_counter()
        tools = await client.list_tools()
        servers = {tool.name.rpartition("_")[0] for tool in tools}
        print(f"{start}: {what}: {time.perf_counter() - before:.3f} s, tools of {len(servers)} servers")

    async def called(name: str, when: str = "") -> None:
        before = time.perf_counter()
        result = await client.call_tool(f"{name}_echo", {"text": "hello"}, raise_on_error=False)
        print(f"{start}: call {name}{when}: {time.perf_counter() - before:.3f} s: {result.text}")

    await listed("first list")
    print(f"{start}: from the start to the end of the first list: {time.perf_counter() - began:.3f} s")
    for number in range(3):
        await listed(f"list {number + 2}")
    with anyio.move_on_after(20):
        while not all(gateway.upstreams[name].is_up for name in GOOD):
            await anyio.sleep(0.05)
    await listed("list when the good ones are there")
    for name in (*GOOD, *TROUBLED):
        await called(name)
    process = (await client.call_tool("board_pid")).data
    os.kill(process, signal.SIGSTOP)
    try:
        await listed("list after one was stopped")
        await listed("the next list")
        for name in ("notes", "near", "sdk_one"):
            await called(name, " meanwhile")
    finally:
        os.kill(process, signal.SIGCONT)
    with anyio.move_on_after(8 - (time.perf_counter() - began)):
        await anyio.sleep_forever()
    laptop.gate.touch()
    with anyio.move_on_after(60):
        while not gateway.upstreams["slow"].is_up:
            await anyio.sleep(0.02)
    await listed("list when the slow one is there")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sdk", help="interpreter with the official SDK 1.x")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Laptop(Path(folder), sdk=arguments.sdk) as laptop:
        anyio.run(measure, laptop, Path(folder) / "lists")


if __name__ == "__main__":
    main()
