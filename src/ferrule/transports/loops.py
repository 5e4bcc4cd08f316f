"""Starting event loops: whether one can be started here, and one that continues when a task calls ``sys.exit()``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from ferrule.kernel.concurrency.cancellation import is_from_signal

if TYPE_CHECKING:
    import asyncio

__all__ = ["READ_BYTES", "limit_reads", "outliving_exits", "refuse_in_running_loop"]

log = logging.getLogger("ferrule")

READ_BYTES: Final = 64 * 1024
"""Bytes of one read of a socket."""


def limit_reads(transport: Any, size: int = READ_BYTES) -> None:
    """Make a transport read at most so many bytes at once, where its kind allows it.

    asyncio's sockets allocate 256 KiB for each read, whatever comes; memory of that size is mapped and unmapped each
    time, which costs more than the read.
    """
    # A class of asyncio without a public name, whose instances take this bound from their class; uvloop has none.
    if hasattr(transport, "max_size"):
        transport.max_size = size


def outliving_exits(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """Make an event loop continue when a task other than the main one raises ``SystemExit`` or ``KeyboardInterrupt``.

    asyncio stops the loop for these and raises them where the loop was started, although the task has the exception
    too, and raises it in code that awaits the task. In a server a tool could end the calls of all clients by
    ``sys.exit()`` in a task that it started. The loop can be run again and loses nothing. An exception that a signal
    handler raised still stops it.

    Returns:
        The loop that was given, changed.
    """
    import asyncio

    run_once = loop.run_until_complete

    def run_until_complete(future: Any) -> Any:
        main = asyncio.ensure_future(future, loop=loop)
        while True:
            try:
                return run_once(main)
            except (KeyboardInterrupt, SystemExit) as error:
                if main.done() and not main.cancelled():
                    main.exception()  # read, or asyncio would log it once more when the task is collected
                if main.done() or is_from_signal(error):
                    raise
                log.error(
                    "A task of the program raised %r; only code that awaits the task gets it", error, exc_info=error
                )

    loop.run_until_complete = run_until_complete  # type: ignore[method-assign]
    return loop


def refuse_in_running_loop() -> None:
    """Check that no event loop runs in this thread.

    Raises:
        RuntimeError: an event loop runs; the message names ``run_async``.
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
