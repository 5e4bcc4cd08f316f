"""Delays of a group of ten servers, of which one is dead, one hangs, one is slow, and each other one is killed once.

python bench/group_of_ten.py        prints the figures; it needs about half a minute

Printed: seconds from `connect` to the first list, and to the list with every healthy server; then, for each server
that is killed under calls, the longest call of any other server meanwhile (beside the longest of an equal time before),
and the seconds until the killed one answers again.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import Any

import anyio

from ferrule import Client, ClientGroup, MCPServer
from ferrule.client.supervision.policy import ReconnectPolicy

SERVER = """
import os, sys
from ferrule import MCPServer
app = MCPServer("bench")
@app.tool
def echo(text: str) -> str:
    return text
@app.tool
def die() -> str:
    os._exit(3)
app.run("http", port=int(sys.argv[1])) if len(sys.argv) > 1 else app.run("stdio")
"""
STDIO = {"command": sys.executable, "args": ["-c", SERVER]}
KILLED = ("stdio", "legacy_stdio", "http", "legacy_http")
NEAR = ("near", "legacy_near", "further")


class ByEra(Client):
    """A client that speaks the legacy era with the servers whose name says so."""

    def __init__(self, target: Any, **options: Any) -> None:
        is_legacy = (target.known_as or "").startswith("legacy")
        super().__init__(target, **{**options, "mode": "2025-11-25" if is_legacy else "auto"})


def near() -> MCPServer[Any]:
    """A server in this process."""
    app = MCPServer("near")
    app.add_tool(lambda text: text, name="echo", input_schema={"type": "object"})
    return app


def start(port: int) -> subprocess.Popen[bytes]:
    """Start a server over HTTP."""
    return subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stderr=subprocess.DEVNULL)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


async def longest_call(group: ClientGroup, names: list[str], until: anyio.Event) -> float:
    """Call servers one call after another each, until an event; return the longest call in milliseconds."""
    longest = 0.0

    async def calls(name: str) -> None:
        nonlocal longest
        while not until.is_set():
            began = time.perf_counter()
            await group.call_tool(f"{name}_echo", {"text": "x"})
            longest = max(longest, (time.perf_counter() - began) * 1000)
            await anyio.sleep(0.002)

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(calls, name)
    return longest


async def kill(group: ClientGroup, name: str, restart: Any) -> None:
    """End a server under calls, start it again, and print the delays."""
    others = [each for each in (*KILLED, *NEAR) if each != name]
    figures: list[float] = []

    async def measure(until: anyio.Event) -> None:
        figures.append(await longest_call(group, others, until))

    for is_killed in (False, True):
        until = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(measure, until)
            await anyio.sleep(0.5)
            began = time.perf_counter()
            if is_killed:
                await fails(group, name)
                restart()
                while not await answers(group, name):
                    await anyio.sleep(0.01)
            else:
                await anyio.sleep(1.5)
            back_s = time.perf_counter() - began
            until.set()
    print(f"{name:13} others: {figures[1]:6.1f} ms (before {figures[0]:6.1f} ms)   answers again after {back_s:.2f} s")


async def fails(group: ClientGroup, name: str) -> None:
    """Make the call that ends a server."""
    try:
        await group.call_tool(f"{name}_die")
    except Exception as error:
        print(f"{name:13} {type(error).__name__}: {str(error).splitlines()[0][:90]}")


async def answers(group: ClientGroup, name: str) -> bool:
    """Return whether a server answers a call."""
    try:
        return (await group.call_tool(f"{name}_echo", {"text": "x"})).text == "x"
    except Exception:
        return False


async def main() -> None:
    """Measure, and print."""
    ports = {name: free_port() for name in ("http", "legacy_http")}
    programs = {name: start(port) for name, port in ports.items()}

    def restart(name: str) -> None:
        if name in ports:
            programs[name].wait()
            programs[name] = start(ports[name])

    servers: dict[str, Any] = {
        "hanging": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]},
        "dead": {"command": sys.executable, "args": ["-c", "raise SystemExit('broken')"]},
        "slow": {"command": sys.executable, "args": ["-c", "import time; time.sleep(8)\n" + SERVER]},
        "stdio": STDIO,
        "legacy_stdio": STDIO,
        **{name: {"url": f"http://127.0.0.1:{port}/mcp"} for name, port in ports.items()},
        **{name: near() for name in NEAR},
    }
    policy = ReconnectPolicy(first_pause_s=0.1, max_pause_s=1, probe_pause_s=0.1)
    began = time.perf_counter()
    try:
        async with ClientGroup(servers, client_class=ByEra, policy=policy) as group:
            first = {tool.name.rpartition("_")[0] for tool in await group.list_tools()}
            print(f"first list after {time.perf_counter() - began:.2f} s: {', '.join(sorted(first))}")
            while {*KILLED, *NEAR} - {tool.name.rpartition("_")[0] for tool in await group.list_tools()}:
                await anyio.sleep(0.01)
            print(f"all healthy servers after {time.perf_counter() - began:.2f} s")
            for name in KILLED:
                await kill(group, name, lambda name=name: restart(name))
    finally:
        for program in programs.values():
            program.kill()
            program.wait()


if __name__ == "__main__":
    anyio.run(main)
