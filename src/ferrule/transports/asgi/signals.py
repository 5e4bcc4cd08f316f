"""Hearing of a shutdown under somebody else's HTTP server, which tells its applications of it too late.

By the ASGI specification ``lifespan.shutdown`` comes after the last connection, and event streams never end by
themselves: uvicorn without ``--timeout-graceful-shutdown`` waits for ever, also when it reloads. So the endpoint hears
the signals that end a process, beside the server's own handler and before it, and ends its streams then.

Nothing is done where no server handles SIGTERM (a program of its own, tests), in another thread than the main one, and
under `ferrule.transports.hosting.uvicorn_server`, which ends the streams itself when their turn has come.

Rule a newcomer would break: a handler that others have put around ours may call it long after we have left.
"""

import signal
import threading
from collections.abc import Callable
from typing import Any

from ferrule.transports.asgi.runtime import Runtime

__all__ = ["ShutdownSignals"]


class ShutdownSignals:
    """Calls back in the event loop when the process is told to end.

    Args:
        on_signal: called in the loop's thread, for each signal.
    """

    def __init__(self, on_signal: Callable[[], object]) -> None:
        self._on_signal = on_signal
        self._runtime: Runtime | None = None
        self._before: dict[int, tuple[Any, Any]] = {}

    def follow(self, runtime: Runtime) -> None:
        """Listen from now on, if a server does; once until `leave`."""
        self._runtime = runtime
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        server = signal.getsignal(signal.SIGTERM)
        if not callable(server) or getattr(getattr(server, "__self__", None), "ends_streams", False):
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            if callable(before) and before is not signal.default_int_handler:
                handler = self._handler(before)
                self._before[number] = handler, before
                signal.signal(number, handler)

    def leave(self) -> None:
        """Listen no more."""
        self._runtime = None
        if threading.current_thread() is not threading.main_thread():
            return
        for number, (handler, before) in self._before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, before)
        self._before.clear()

    def _handler(self, before: Callable[[int, Any], object]) -> Callable[[int, Any], object]:
        def handle(number: int, frame: Any) -> None:
            if self._runtime is not None and self._runtime.is_live():
                self._runtime.call_from_signal(self._on_signal)
            before(number, frame)

        return handle
