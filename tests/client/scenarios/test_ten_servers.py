"""A group of ten servers over stdio, HTTP and in this process, of both eras: dead, hanging, slow and killed ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, ClientGroup
from ferrule.client.errors import ServerUnavailable
from ferrule.client.supervision.policy import ReconnectPolicy
from ferrule.protocol.errors import ConnectionClosed, LocalError
from ferrule.transports.http.backend import HttpConnectFailed
from tests.client.server_program import make_app
from tests.processes import free_port

ROOT = Path(__file__).parents[3]
ENV = {"PYTHONPATH": str(ROOT)}
STDIO = {"command": sys.executable, "args": ["-m", "tests.client.server_program"], "env": ENV, "cwd": str(ROOT)}
HTTP_PROGRAM = (
    "import sys; from tests.client.server_program import make_app; make_app().run('http', port=int(sys.argv[1]))"
)
SLOW_PROGRAM = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
from tests.client.server_program import make_app
make_app().run("stdio")
"""
KILLED = ("stdio", "legacy_stdio", "http", "legacy_http")
CLEAR = (ConnectionClosed, HttpConnectFailed, ServerUnavailable)
"""What a call gets whose server has ended."""
HEALTHY = {*KILLED, "near", "legacy_near", "further"}


class ByEra(Client):
    """A client that speaks the legacy era with the servers whose name says so."""

    def __init__(self, target: Any, **options: Any) -> None:
        name = getattr(target, "known_as", None) or ""
        super().__init__(target, **{**options, "mode": "2025-11-25" if name.startswith("legacy") else "auto"})


class HttpServers:
    """Programs that serve over HTTP, by the name of their server."""

    def __init__(self) -> None:
        self.ports = {name: free_port() for name in ("http", "legacy_http")}
        self.programs: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a program, or start it again after its end."""
        if name in self.programs:
            self.programs[name].wait(30)
        command = [sys.executable, "-c", HTTP_PROGRAM, str(self.ports[name])]
        self.programs[name] = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)

    def end(self) -> None:
        """End every program."""
        for program in self.programs.values():
            program.kill()
            program.wait(30)


@contextmanager
def http_servers() -> Iterator[HttpServers]:
    """Two programs, started."""
    servers = HttpServers()
    try:
        for name in servers.ports:
            servers.start(name)
        yield servers
    finally:
        servers.end()


def configuration(servers: HttpServers, gate: Path) -> dict[str, Any]:
    """Ten servers."""
    return {
        "hanging": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]},
        "dead": {"command": sys.executable, "args": ["-c", "raise SystemExit('broken')"]},
        "slow": {"command": sys.executable, "args": ["-c", SLOW_PROGRAM, str(gate)], "env": ENV, "cwd": str(ROOT)},
        "stdio": STDIO,
        "legacy_stdio": STDIO,
        **{name: {"url": f"http://127.0.0.1:{port}/mcp"} for name, port in servers.ports.items()},
        "near": make_app("near"),
        "legacy_near": make_app("legacy_near"),
        "further": make_app("further"),
    }


async def connected(group: ClientGroup, names: set[str]) -> None:
    """Wait until these servers are connected."""
    with anyio.fail_after(120):
        async for _ in group.watch():
            if all(group.servers[name].is_up for name in names):
                return


def listed(tools: list[Any]) -> set[str]:
    """The servers that have a tool ``echo`` in a list."""
    return {tool.name.removesuffix("_echo") for tool in tools if tool.name.endswith("_echo")}


async def kill(group: ClientGroup, name: str) -> None:
    """End a server while calls of it and of every other server go on; check what each of them gets."""
    others = sorted(HEALTHY - {name})
    answered = dict.fromkeys(others, 0)
    errors: list[LocalError] = []
    ended = anyio.Event()

    async def call_others(other: str) -> None:
        while not ended.is_set() or answered[other] < 2:
            assert (await group.call_tool(f"{other}_echo", {"text": other})).text == other
            answered[other] += 1
            await anyio.sleep(0.005)  # a call in this process does not wait for anything

    async def fail(tool: str, arguments: dict[str, Any]) -> None:
        try:
            await group.call_tool(f"{name}_{tool}", arguments)
        except CLEAR as error:
            errors.append(error)

    async with anyio.create_task_group() as calls:
        for other in others:
            calls.start_soon(call_others, other)
        async with anyio.create_task_group() as failing:
            begun = anyio.Event()
            arguments = {"count": 2, "pause_s": 3600}
            failing.start_soon(fail_after_progress, group, name, arguments, begun, errors)
            await begun.wait()
            failing.start_soon(fail, "die", {})
        ended.set()
    assert len(errors) == 2
    assert [error.server for error in errors] == [name, name]
    assert min(answered.values()) >= 2


async def fail_after_progress(
    group: ClientGroup, name: str, arguments: dict[str, Any], begun: anyio.Event, errors: list[LocalError]
) -> None:
    """Make a call that has begun at the server when its server ends."""
    try:
        await group.call_tool(f"{name}_steps", arguments, on_progress=lambda *_: begun.set())
    except CLEAR as error:
        errors.append(error)


async def call_until_it_answers(group: ClientGroup, name: str) -> None:
    """Call a server that comes back; until then each call gets a clear error."""
    with anyio.fail_after(120):
        while True:
            try:
                assert (await group.call_tool(f"{name}_echo", {"text": "again"})).text == "again"
            except CLEAR:  # any other error ends the test
                await anyio.sleep(0.02)
            else:
                return


@pytest.mark.anyio
async def test_no_server_delays_or_disturbs_another(tmp_path: Path) -> None:
    """The first lists come without the hanging, the dead and the slow one; each killed one comes back."""
    gate = tmp_path / "gate"
    policy = ReconnectPolicy(first_pause_s=0.05, max_pause_s=0.2, probe_pause_s=0.05)
    with http_servers() as servers:
        group = ClientGroup(configuration(servers, gate), open_s=0.05, policy=policy, client_class=ByEra)
        async with group:
            assert listed(await group.list_tools()) >= {"near", "legacy_near", "further"}
            await connected(group, HEALTHY)
            group._lists._wait_s = 60.0  # on a busy machine a healthy server may be slow
            assert listed(await group.list_tools()) == HEALTHY
            assert group.servers["hanging"].state == group.servers["slow"].state == "connecting"
            eras = {name: (await group.client(name)).is_modern for name in HEALTHY}
            assert {name for name, is_modern in eras.items() if not is_modern} == {
                "legacy_stdio",
                "legacy_http",
                "legacy_near",
            }
            with pytest.raises((LocalError, OSError), match="broken"):
                await group.call_tool("dead_echo")
            gate.touch()
            await connected(group, {*HEALTHY, "slow"})
            assert listed(await group.list_tools()) == {*HEALTHY, "slow"}
            for name in KILLED:
                await kill(group, name)
                if name in servers.ports:
                    servers.start(name)
                await call_until_it_answers(group, name)
            assert group.servers["hanging"].state == "connecting"
            assert listed(await group.list_tools()) == {*HEALTHY, "slow"}
        assert {member.state for member in group.servers.values()} == {"closed"}
