"""A server that requires a token, and an authorization server that gives one to every user of a browser."""

from __future__ import annotations

import asyncio
import signal
import sys

from tests.auth.support import protected


async def main() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    async with protected() as found:
        print(f"serving {found.url}", file=sys.stderr, flush=True)
        await done.wait()


asyncio.run(main())
