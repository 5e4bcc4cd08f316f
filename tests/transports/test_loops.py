"""What a task of a tool raises that would stop the event loop does not stop the server."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from ferrule.transports.loops import outliving_exits
from tests.kernel.harness import modern
from tests.transports.http_support import Client, post, tool

EXITING = """
import asyncio, sys
import anyio
from ferrule import MCPServer

app = MCPServer("exits")

async def leave():
    await asyncio.sleep(0)
    sys.exit(2)

async def interrupt():
    await asyncio.sleep(0)
    raise KeyboardInterrupt

@app.tool
async def gathered() -> str:
    await asyncio.gather(leave(), leave(), asyncio.sleep(0))
    return "gathered"

@app.tool
async def grouped() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(interrupt())
        await asyncio.sleep(60)
    return "grouped"

@app.tool
async def grouped_by_anyio() -> str:
    async with anyio.create_task_group() as group:
        group.start_soon(leave)
    return "grouped"

@app.tool
async def forgotten() -> str:
    kept = asyncio.ensure_future(leave())
    await asyncio.sleep(0.01)
    return "forgotten"

@app.tool
async def slow() -> str:
    await asyncio.sleep(0.2)
    return "slow"

if sys.argv[1] == "stdio":
    app.run("stdio")
else:
    app.run("http", port=0, on_started=lambda host, port: print(port, flush=True))
"""

TOOLS = ["slow", "gathered", "grouped", "grouped_by_anyio", "forgotten"]
FAILED = [False, True, True, True, False]


def test_a_stdio_server_outlives_the_exits_of_tasks() -> None:
    """The body that awaits the task fails, other calls are answered, and the program ends in good order."""
    lines = [json.dumps(modern(id, "tools/call", {"name": name, "arguments": {}})) for id, name in enumerate(TOOLS)]
    found = subprocess.run(
        [sys.executable, "-c", EXITING, "stdio"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, found.stdout.splitlines())}
    assert [answers[id].get("isError", False) for id in range(len(TOOLS))] == FAILED
    assert found.returncode == 0
    assert "only code that awaits the task gets it" in found.stderr


@pytest.mark.anyio
async def test_an_http_server_outlives_the_exits_of_tasks() -> None:
    """On uvloop, where it is there."""
    process = subprocess.Popen([sys.executable, "-c", EXITING, "http"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await asyncio.to_thread(process.stdout.readline))

        async def call(name: str) -> bool:
            client = await Client.connect(port)
            try:
                status, _, body = await client.ask(post(tool(name)))
            finally:
                client.abort()
            assert status == 200
            return bool(json.loads(body)["result"].get("isError", False))

        assert await asyncio.gather(*map(call, TOOLS)) == FAILED
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.communicate, timeout=30)
        assert process.returncode in (0, -signal.SIGTERM)
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


def run(work: Callable[[], None]) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(work)
        await asyncio.sleep(0.05)
        raise LookupError("the end")

    loop = outliving_exits(asyncio.new_event_loop())
    try:
        loop.run_until_complete(main())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def test_what_a_signal_raised_ends_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Only what the program raised itself is outlived; the main task's own end always counts."""

    def exits() -> None:
        sys.exit(3)

    def handler(*_: object) -> None:
        sys.exit(4)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with caplog.at_level(logging.ERROR, "ferrule"), pytest.raises(LookupError):
            run(exits)
        assert "SystemExit(3)" in caplog.text
        with pytest.raises(SystemExit) as ended:
            run(lambda: signal.raise_signal(signal.SIGUSR1))
        assert ended.value.code == 4
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_exit_of_the_main_task_is_its_own() -> None:
    """``run()`` ends as the program says."""

    async def main() -> None:
        sys.exit(5)

    loop = outliving_exits(asyncio.new_event_loop())
    try:
        with pytest.raises(SystemExit) as ended:
            loop.run_until_complete(main())
        assert ended.value.code == 5
    finally:
        loop.close()
