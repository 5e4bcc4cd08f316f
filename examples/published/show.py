"""What others get of a server: its document for the registry, links for a README, and clear words about settings."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

from ferrule import Client, StdioServer
from ferrule.errors import ServerProcessEnded

SERVER = str(Path(__file__).with_name("server.py"))


def ferrule(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line."""
    command = [sys.executable, "-m", "ferrule", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True)


async def main() -> None:
    """Judge it, look at the links, and start it with and without its settings."""
    print("ferrule publish --check")
    checked = ferrule("publish", "--check", SERVER)
    print("\n".join(f"  {line}" for line in checked.stderr.splitlines()))
    for variable in json.loads(checked.stdout)["packages"][0]["environmentVariables"]:
        print(f"  {variable['name']}: {variable['description']}{', a secret' if variable['isSecret'] else ''}")

    print("ferrule install --links")
    links = ferrule("install", "--links", SERVER).stdout
    print("\n".join(f"  {name}" for name in re.findall(r"^\[!\[(.*?)\]", links, re.MULTILINE)))

    print("without its key")
    try:
        async with Client(StdioServer(sys.executable, [SERVER])):
            pass
    except ServerProcessEnded as error:
        print("\n".join(f"  {line}" for line in str(error).splitlines() if "TIDES_" in line))

    print("with it")
    server = StdioServer(sys.executable, [SERVER], env={"TIDES_API_KEY": "k", "TIDES_DAYS": "2"})
    for mode in ("legacy", "auto"):
        async with Client(server, mode=mode) as client:
            result = await client.call_tool("tides", {"harbour": "Bristol"})
            print(f"  {client.protocol_version}  {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
