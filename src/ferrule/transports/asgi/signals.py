"""Detects a shutdown under an HTTP server of another project, which reports it to applications too late.

By the ASGI specification ``lifespan.shutdown`` is sent after the last connection has ended, but event streams do not
end by themselves: uvicorn without ``--timeout-graceful-shutdown`` waits forever, also on reload. So the endpoint
handles the signals that end a process before the server's own handler, and ends its streams.

This module does nothing if no handler for SIGTERM is set (programs without a server of their own, tests), outside the
main thread, and under `ferrule.transports.hosting.uvicorn_server`, which ends the streams itself.

Other code may have wrapped this handler and call it after `ShutdownSignals.leave`; it then does nothing.
"""

import signal
import threading
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from ferrule.transports.asgi.runtime import Runtime

__all__ = ["EndsStreams", "ShutdownSignals"]


@runtime_checkable
class EndsStreams(Protocol):
    """An HTTP server that can end the streams of its applications before it shuts down.

    Attributes:
        ends_streams: whether it ends them.
    """

    ends_streams: bool


class ShutdownSignals:
    """Calls a function in the event loop when the process receives a signal to end.

    Args:
        on_signal: called in the loop's thread, for each signal.
    """

    def __init__(self, on_signal: Callable[[], object]) -> None:
        self._on_signal = on_signal
        self._runtime: Runtime | None = None
        self._before: dict[int, tuple[Any, Any]] = {}

    def follow(self, runtime: Runtime) -> None:
        """Install the handlers if a server handles the signals; once until `leave`."""
        self._runtime = runtime
        # Python allows `signal.signal` in the main thread only.
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        server = signal.getsignal(signal.SIGTERM)
        owner = getattr(server, "__self__", None)  # Python's: there if the handler is a bound method
        if not callable(server) or (isinstance(owner, EndsStreams) and owner.ends_streams):
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            # Python's own Ctrl-C handler raises in the middle of any code: a program that has no other is left alone.
            if callable(before) and before is not signal.default_int_handler:
                handler = self._handler(before)
                self._before[number] = handler, before
                signal.signal(number, handler)

    def leave(self) -> None:
        """Restore the handlers."""
        self._runtime = None
        if threading.current_thread() is not threading.main_thread():
            return
        for number, (handler, before) in self._before.items():
            # Otherwise another part of the program has set a handler since, which must stay.
            if signal.getsignal(number) is handler:
                signal.signal(number, before)
        self._before.clear()

    def _handler(self, before: Callable[[int, Any], object]) -> Callable[[int, Any], object]:
        def handle(number: int, frame: Any) -> None:
            if self._runtime is not None and self._runtime.is_live():
                self._runtime.call_from_signal(self._on_signal)
            # The server's handler runs in any case: this one only comes first.
            before(number, frame)

        return handle
