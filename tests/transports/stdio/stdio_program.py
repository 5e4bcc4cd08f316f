"""A server program for the stdio tests: its one method does what ``name`` says. Options of `run_stdio` as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from ferrule.kernel.server import Server
from ferrule.transports.stdio.server import run_stdio, serve_stdio
from ferrule.wire.codec import Encoded


def in_child() -> None:
    """The work of a worker process that does not use the wire."""
    print("from a worker")
    sys.stdout.flush()


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[Any]:
    """Says on stderr that clean-up ran."""
    yield {}
    sys.stderr.write("lifespan closed\n")


# The tests read all of stderr, and on a busy machine asyncio's debug mode (-X dev) says there what took 0.1 s.
logging.getLogger("asyncio").addFilter(lambda record: not record.getMessage().startswith("Executing "))

server: Server[Any] = Server("program", version="1", lifespan=lifespan)


@server.request("tools/call")
async def call(ctx: Any) -> Any:
    """Does what the name says."""
    name, arguments = ctx.params.name, ctx.params.arguments or {}
    text = "done"
    if name == "sleep":
        await anyio.sleep(arguments["s"])
    elif name == "stubborn":
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await anyio.sleep(1000)
    elif name == "block":
        await anyio.to_thread.run_sync(time.sleep, 1000)
    elif name == "print":
        print("printed 中")
        os.write(1, b"written to fd 1\n")
    elif name == "cat":
        text = repr(subprocess.run(["cat"], capture_output=True, check=True).stdout)
    elif name == "shout":
        subprocess.run(["sh", "-c", "echo shouted; echo again >&1"], check=True)
    elif name == "worker":
        worker = multiprocessing.get_context(arguments["method"]).Process(target=in_child)
        worker.start()
        await anyio.to_thread.run_sync(worker.join)
        text = str(worker.exitcode)
    elif name == "big":
        text = "x" * arguments["n"]
    elif name == "pretty":
        return Encoded(b'{\n  "content": [\n]\r\n}')
    elif name == "surrogate":
        text = "cut \ud83d here"
    elif name == "stderr":
        sys.stderr.write("e" * arguments["n"])
        sys.stderr.flush()
    elif name == "die":
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(arguments["status"])
    elif name == "stray":
        sys.stderr.write("")
        os.write(arguments["fd"], arguments["text"].encode())
    elif name == "child":
        pid = subprocess.Popen([sys.executable, "-c", arguments["code"]]).pid
        text = str(pid)
    elif name == "environ":
        text = json.dumps(dict(os.environ))
    elif name == "echo":
        text = arguments["text"]
    return {"content": [{"type": "text", "text": text}]}


if __name__ == "__main__":
    options: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    loop = options.pop("loop", "own")
    if loop == "own":
        run_stdio(server, **options)
    else:
        import functools

        anyio.run(functools.partial(serve_stdio, server, **options), backend=loop)
    sys.stderr.write("program over\n")
