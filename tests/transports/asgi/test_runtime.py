"""The runtime of an event loop, and whether that loop still runs."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from ferrule.transports.asgi.runtime import AsyncioRuntime


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork()")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_loop_of_a_parent_process_is_not_live_in_its_child() -> None:
    """No thread of the child runs it; a request of the child that used it would wait for ever."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        begun = threading.Event()
        loop.call_soon_threadsafe(begun.set)
        assert begun.wait(60)
        runtime = AsyncioRuntime(loop)
        assert runtime.is_live()
        child = os.fork()
        if not child:
            os._exit(1 if runtime.is_live() else 0)
        assert os.waitpid(child, 0)[1] == 0
        assert runtime.is_live()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
