"""The lifespan of an ASGI application, run by a task of ours (ASGI, "Lifespan Protocol")."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

__all__ = ["StartFailed", "asgi_lifespan"]

STOP_TIMEOUT_S = 30.0
"""Seconds that an application may take to end."""


class StartFailed(RuntimeError):
    """The application refused to start; the text is its own."""


@asynccontextmanager
async def asgi_lifespan(app: Callable[..., Awaitable[None]]) -> AsyncGenerator[dict[str, Any] | None]:
    """Start an application, give its state, and end it.

    Gives ``None`` for an application without a lifespan: one that raises before it answers, which is how the protocol
    says so.

    Raises:
        StartFailed: the application answered that it cannot start.
    """
    state: dict[str, Any] = {}
    started, stopping, stopped = anyio.Event(), anyio.Event(), anyio.Event()
    problem: list[str] = []
    is_supported = True
    asked = False

    async def receive() -> dict[str, str]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "lifespan.startup"}
        await stopping.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: MutableMapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.failed":
            problem.append(str(message.get("message", "")) or "the application failed to start")
        if kind.startswith("lifespan.startup."):
            started.set()
        else:
            stopped.set()

    async def run() -> None:
        nonlocal is_supported
        try:
            await app(
                {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}, receive, send
            )
        except Exception:
            if started.is_set():
                raise
            is_supported = False
        finally:
            started.set()
            stopped.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await started.wait()
        if problem:
            tasks.cancel_scope.cancel()
            raise StartFailed(problem[0])
        try:
            yield state if is_supported else None
        finally:
            stopping.set()
            with anyio.move_on_after(STOP_TIMEOUT_S, shield=True):
                await stopped.wait()
            tasks.cancel_scope.cancel()
