"""Whether an event loop can be started here."""

from __future__ import annotations

__all__ = ["refuse_in_running_loop"]


def refuse_in_running_loop() -> None:
    """Say what to write where an event loop runs already.

    Raises:
        RuntimeError: it does, in this thread.
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "run() starts an event loop, and one runs here already (a notebook, an async function): "
        "await app.run_async(...) with the same arguments"
    )
