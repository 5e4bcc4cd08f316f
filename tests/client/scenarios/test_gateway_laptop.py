"""A laptop with ten servers behind one gateway: programs, remote ones, and five in trouble.

No step is judged by its time: a list that must not wait for a server runs while the gateway would wait for ever.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from bench.laptop import GOOD, TROUBLED, Laptop
from ferrule import Client, Gateway
from ferrule.client.concurrent import gather

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, and stops a process by a signal"),
]


def children() -> set[int]:
    """The running processes that this one has started."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(entry.name))
    return found


async def servers(client: Client) -> set[str]:
    """The servers whose tools are listed."""
    return {tool.name.rpartition("_")[0] for tool in await client.list_tools()}


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.02)


async def echo(client: Client, *names: str) -> None:
    """Call each of these servers, side by side; each answers."""
    calls = [client.call_tool(f"{name}_echo", {"text": name}) for name in names]
    with anyio.fail_after(60):
        assert [result.text for result in await gather(calls)] == list(names)


@pytest.mark.parametrize(
    ("before", "sdk"), [("2026-07-28", None), pytest.param("2025-11-25", "1.12.4", marks=pytest.mark.peer)]
)
async def test_ten_servers_five_of_which_are_in_trouble(
    before: str, sdk: str | None, old_peer_python: Callable[[str], str], tmp_path: Path
) -> None:
    """No list waits for those in trouble, their calls say what is wrong, and nothing is left at the end."""
    running = children()
    with Laptop(tmp_path, sdk=None if sdk is None else old_peer_python(sdk)) as laptop:
        gateway = Gateway(laptop.targets, open_s=0.05, moment_s=0.05)
        async with Client(gateway, mode=before, cache=False) as client:
            assert await servers(client) <= set(GOOD)
            await until(lambda: all(gateway.upstreams[name].is_up for name in GOOD))
            gateway.moment_s = math.inf  # a list that waits for those in trouble would never end
            with anyio.fail_after(60):
                assert await servers(client) == set(GOOD)
                await echo(client, *GOOD)
                await until(lambda: all(gateway.upstreams[name].error for name in ("missing", "crashing")))
                for name, reason in (("missing", "its program was not found"), ("crashing", "its process has ended")):
                    failed = await client.call_tool(f"{name}_echo", {"text": "x"}, raise_on_error=False)
                    assert failed.is_error
                    assert failed.text.startswith(f"`{name}` is down since ")
                    assert reason in failed.text

            # One is stopped: its tools stay, the others are as before.
            board = (await client.call_tool("board_pid")).data
            os.kill(board, signal.SIGSTOP)
            try:
                gateway.moment_s = 0.05
                assert await servers(client) == set(GOOD)
                gateway.moment_s = math.inf
                with anyio.fail_after(60):
                    assert await servers(client) == set(GOOD)
                async with anyio.create_task_group() as group:
                    group.start_soon(echo, client, "board")
                    await echo(client, *(name for name in GOOD if name != "board"))
                    os.kill(board, signal.SIGCONT)
            finally:
                os.kill(board, signal.SIGCONT)

            # One is killed, and works again; one was only slow.
            os.kill(board, signal.SIGKILL)
            await until(lambda: board not in children())
            await echo(client, "notes", "near", "far")
            await client.call_tool("board_echo", {"text": "x"}, raise_on_error=False)  # finds out, or starts it anew
            await echo(client, "board")
            laptop.gate.touch()
            await until(lambda: gateway.upstreams["slow"].is_up)
            assert await servers(client) == {*GOOD, "slow"}
            await echo(client, *GOOD, "slow")
            assert not gateway.upstreams["silent"].is_up
            assert set(TROUBLED) | set(GOOD) == set(gateway.upstreams)
    await until(lambda: children() <= running)
