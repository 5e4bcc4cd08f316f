"""Call the example server over stdio and over HTTP, in both protocol eras, and show each answer with its revision.

Run it with ``scripts/demo``. It starts the servers itself, as a host would, and ends when every answer was shown.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ferrule import Client, StdioServer

SERVER = str(Path(__file__).resolve().with_name("server.py"))
START_LIMIT_S = 30.0


def show(revision: str, what: str, answer: object) -> None:
    """One line of the demo."""
    print(f"  {revision}  {what:<38} {answer}", flush=True)


async def converse(target: str | StdioServer, mode: str) -> str:
    """List, call, read and get a prompt; returns the revision that was spoken."""
    async with Client(target, mode=mode) as client:
        revision = client.protocol_version

        tools = await client.list_tools()
        show(revision, "tools/list", ", ".join(tool.name for tool in tools))

        result = await client.call_tool("add", {"a": 2, "b": 40})
        show(revision, "tools/call add(2, 40)", result.structured_content)

        result = await client.call_tool("cut", {"metal": "brass", "length_mm": 12})
        show(revision, "tools/call cut('brass', 12)", result.structured_content)

        result = await client.call_tool("cut", {"metal": "copper", "length_mm": 99_999}, raise_on_error=False)
        show(revision, "tools/call cut('copper', 99999)", f"is_error={result.is_error}: {result.content[0].text}")

        read = await client.read_resource("workshop://metals/steel")
        show(revision, "resources/read …/metals/steel", read.contents[0].text)

        prompt = await client.get_prompt("quote", {"metal": "copper"})
        show(revision, "prompts/get quote", prompt.messages[0].content.text)
    return revision


@asynccontextmanager
async def http_server() -> AsyncIterator[str]:
    """The example server as a process of its own; gives its address and ends it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, SERVER, "http", "--port", str(port))
    try:
        async with asyncio.timeout(START_LIMIT_S):
            while True:
                if process.returncode is not None:
                    raise SystemExit(f"the server ended with code {process.returncode} before it listened")
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def main() -> None:
    """Four conversations: two transports, two eras."""
    spoken: list[str] = []
    for mode in ("legacy", "auto"):
        print(f"\nstdio, mode={mode!r}")
        spoken.append(await converse(StdioServer(sys.executable, [SERVER]), mode))
    async with http_server() as url:
        for mode in ("legacy", "auto"):
            print(f"\n{url}, mode={mode!r}")
            spoken.append(await converse(url, mode))
    print(f"\nOne server, spoken to in the revisions {', '.join(sorted(set(spoken)))}.")


if __name__ == "__main__":
    asyncio.run(main())
