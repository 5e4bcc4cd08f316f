"""Servers and clients over Unix sockets and named pipes."""

# --8<-- [start:server]
from ferrule import Client, MCPServer
from ferrule.transports.byte_streams import run_unix, serve_unix

app = MCPServer("foundry")


@app.tool
async def melt(metal: str) -> str:
    return f"{metal} is liquid"


def main() -> None:
    run_unix(app, "/run/user/1000/foundry.sock")


# --8<-- [end:server]


# --8<-- [start:client]
async def use(path: str, mode: str = "auto") -> str:
    async with Client(f"unix:{path}", mode=mode) as client:
        return (await client.call_tool("melt", {"metal": "brass"})).text


# --8<-- [end:client]


# --8<-- [start:pipes]
import os

from ferrule.client.targets import PairTarget
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.transports.stdio.server import stdio_streams


def open_pipes(reads: str, writes: str) -> tuple[int, int]:
    """Open two FIFOs without waiting for the other side."""
    return os.open(reads, os.O_RDWR | os.O_NONBLOCK), os.open(writes, os.O_RDWR | os.O_NONBLOCK)


async def serve_pipes(to_server: str, to_client: str) -> None:
    reading, writing = stdio_streams(*open_pipes(to_server, to_client))
    async with app.lowlevel.lifespan() as state:
        await serve_dual_era_loop(app.lowlevel, reading, writing, lifespan_state=state)


def client_of_pipes(to_server: str, to_client: str, mode: str = "auto") -> Client:
    return Client(PairTarget(*stdio_streams(*open_pipes(to_client, to_server))), mode=mode)


# --8<-- [end:pipes]


async def check(mode: str) -> None:
    """In both eras."""
    import tempfile

    import anyio

    with tempfile.TemporaryDirectory() as folder:
        path, there, back = (f"{folder}/{name}" for name in ("s", "there", "back"))
        os.mkfifo(there, 0o600)
        os.mkfifo(back, 0o600)
        started = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: serve_unix(app, path, on_started=started.set))
            group.start_soon(serve_pipes, there, back)
            await started.wait()
            assert await use(path, mode) == "brass is liquid"
            async with client_of_pipes(there, back, mode) as client:
                assert (await client.call_tool("melt", {"metal": "tin"})).text == "tin is liquid"
            group.cancel_scope.cancel()
