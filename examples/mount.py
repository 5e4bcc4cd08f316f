"""A server inside web applications of others: FastAPI, Starlette and Django, each started by uvicorn and called.

The applications are in the folder mounting; each keeps its own routes and serves both eras under one URL.

python examples/mount.py [fastapi | starlette | django]     shows those that are installed, or the one
"""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path

from showing import process_listening

from ferrule import Client

FOLDER = Path(__file__).parent / "mounting"
# Package -> the application, the endpoint's URL, and the setting that its server needs.
APPLICATIONS = {
    "fastapi": ("fastapi_app:app", "/tools/mcp", ()),
    "starlette": ("starlette_app:app", "/mcp", ()),
    "django": ("django_asgi:app", "/tools/mcp", ("--lifespan", "off")),
}


async def show(package: str) -> None:
    """Start the application and greet it in both eras."""
    target, path, options = APPLICATIONS[package]
    command = ["-m", "uvicorn", "--app-dir", str(FOLDER), "--log-level", "warning", target, *options, "--port"]
    async with process_listening(*command) as origin:
        print(package)
        for mode in ("legacy", "auto"):
            async with Client(f"{origin}{path}", mode=mode) as client:
                result = await client.call_tool("greet", {"name": "Ada"})
                print(f"  {path}  {client.protocol_version}  {result.text}")


async def main() -> None:
    """Those that were asked for."""
    wanted = sys.argv[1:] or [package for package in APPLICATIONS if find_spec(package)]
    if not wanted:
        print("None of them is installed: pip install fastapi")
    for package in wanted:
        await show(package)


if __name__ == "__main__":
    asyncio.run(main())
