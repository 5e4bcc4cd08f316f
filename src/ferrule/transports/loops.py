"""Refuses to start an event loop inside a running one."""

from __future__ import annotations

__all__ = ["refuse_in_running_loop"]


def refuse_in_running_loop() -> None:
    """Check that no event loop runs in this thread.

    Raises:
        RuntimeError: one does; the message names ``run_async``.
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "run() starts an event loop, and one runs here already (a notebook, an async function): "
        "use await app.run_async(...) with the same arguments"
    )
