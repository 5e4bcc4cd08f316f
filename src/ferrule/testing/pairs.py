"""Two connected dispatchers in memory: all parts of a connection but the bytes of a transport and processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from ferrule.kernel.dispatch import DispatchContext, OnNotify, OnRequest
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.kernel.server import Server
from ferrule.protocol.errors import MethodNotFound
from ferrule.transports.memory import memory_pair

__all__ = ["connected", "pair"]


def pair() -> tuple[JSONRPCDispatcher, JSONRPCDispatcher]:
    """Return two connected dispatchers; the caller runs each of them.

    Messages are encoded and decoded, so that the two share no objects.
    """
    one, other = memory_pair()
    return (
        JSONRPCDispatcher(one.read_stream, one.write_stream),
        JSONRPCDispatcher(other.read_stream, other.write_stream),
    )


@asynccontextmanager
async def connected(
    server: Server[Any], on_request: OnRequest | None = None, on_notify: OnNotify | None = None
) -> AsyncGenerator[JSONRPCDispatcher]:
    """A client's dispatcher connected to a running server, both eras; leaving the context ends both.

    Args:
        server: the server, whose lifespan is entered and left.
        on_request: answers requests of the server; by default each is refused with -32601.
        on_notify: handles notifications of the server; by default they are ignored.
    """
    ours, theirs = memory_pair()
    client = JSONRPCDispatcher(ours.read_stream, ours.write_stream)

    async def serve(state: Any) -> None:
        try:
            await serve_dual_era_loop(server, theirs.read_stream, theirs.write_stream, lifespan_state=state)
        finally:
            await theirs.write_stream.aclose()

    async def run_client(*, task_status: Any) -> None:
        await client.run(on_request or _refuse, on_notify or _ignore, task_status=task_status)

    failure: Exception | None = None
    async with server.lifespan() as state, anyio.create_task_group() as tasks:
        tasks.start_soon(serve, state)
        await tasks.start(run_client)
        try:
            yield client
        except Exception as error:  # raised below as it is: a task group would wrap it
            failure = error
        await ours.write_stream.aclose()
    if failure is not None:
        raise failure


async def _refuse(_: DispatchContext, method: str, __: Mapping[str, Any] | None) -> Any:
    raise MethodNotFound(method)


async def _ignore(_: DispatchContext, __: str, ___: Mapping[str, Any] | None) -> None:
    return
