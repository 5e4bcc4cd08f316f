"""A client of a protected server: ``python client.py http://localhost:9000/mcp`` opens a browser once.

Tokens are kept in an encrypted file, so that the second run needs no sign-in.
"""

from __future__ import annotations

import asyncio
import sys

from ferrule import Client
from ferrule.auth import EncryptedFileStorage, OAuth


async def main(url: str) -> None:
    """List, call, and step up for the call that needs more."""
    async with Client(url, auth=OAuth(storage=EncryptedFileStorage())) as client:
        print("tools:", ", ".join(tool.name for tool in await client.list_tools()))
        print("whoami:", (await client.call_tool("whoami")).text)
        print("count:", (await client.call_tool("count", {"drawer": "left"})).data)
        print("put:", (await client.call_tool("put", {"drawer": "left", "parts": 2})).data)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:9000/mcp"))
