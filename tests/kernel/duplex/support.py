"""What the tests of the stream dispatcher share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

from ferrule.kernel.dispatch import DispatchContext
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.server import Server, ServerRequestContext
from tests.kernel.harness import Peer

Handlers = Mapping[str, Callable[..., Any]]


@asynccontextmanager
async def dispatching(
    handlers: Handlers | None = None, notes: Handlers | None = None, *, buffer: float = 1000, **options: Any
) -> AsyncIterator[tuple[Peer, JSONRPCDispatcher]]:
    """A running dispatcher over memory object streams; leaving hangs up and waits for its end."""
    to_us, reads = anyio.create_memory_object_stream[Any](1000)
    writes, from_us = anyio.create_memory_object_stream[Any](buffer)
    dispatcher = JSONRPCDispatcher(reads, writes, **options)
    peer = Peer(to_us, from_us)

    async def on_request(dctx: DispatchContext, method: str, params: Any) -> Any:
        return await (handlers or {})[method](dctx, params)

    async def on_notify(dctx: DispatchContext, method: str, params: Any) -> None:
        if notes is not None and method in notes:
            await notes[method](dctx, params)

    async def run() -> None:
        try:
            await dispatcher.run(on_request, on_notify)
        except Exception as error:
            peer.error = error
        finally:
            peer.ended.set()

    with to_us, reads, writes, from_us:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield peer, dispatcher
            await peer.finish()


async def echo(_: DispatchContext, params: Any) -> Any:
    return {"params": params}


class Slow:
    """A handler that waits until it is let go, and remembers what happened to it."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.go = anyio.Event()
        self.cancelled = False
        self.ended = anyio.Event()
        self.contexts: list[DispatchContext] = []

    async def __call__(self, dctx: DispatchContext, params: Any) -> Any:
        self.contexts.append(dctx)
        self.begun.set()
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return {"slow": True}


def asking(started: anyio.Event, go: anyio.Event, told: list[Any]) -> Server[Any]:
    """A handler that waits in spite of its cancellation, and then sends a request."""
    server: Server[Any] = Server("asks")

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        started.set()
        with anyio.CancelScope(shield=True):
            while not go.is_set():
                with contextlib.suppress(anyio.get_cancelled_exc_class()):  # a bare task's goes through the shield
                    await go.wait()
            try:
                told.append(await ctx.session.send_request("roots/list"))
            except Exception as error:
                told.append(error)
        return {"content": []}

    server.add_request_handler("tools/call", call)
    return server
