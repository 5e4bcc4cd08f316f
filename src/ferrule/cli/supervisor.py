"""Restarts a server when its source changes: ``run --http --reload``.

The supervisor binds the sockets once and passes them to each server process, so that the port stays open during a
restart: new connections wait in the operating system's queue for the next process. It is for development with one
process; `ferrule.transports.hosting.workers` runs several.

POSIX only: Windows cannot pass sockets in this way.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final

from ferrule.cli.output import say
from ferrule.cli.watching import POLL_S, SourceWatch

__all__ = ["Supervisor"]

STOP_S: Final = 15.0
"""Seconds that a server has to end before it is killed; slightly more than it needs to drain its requests."""


class Supervisor:
    """Runs a server process until a signal comes, and restarts it when a source changes.

    Args:
        command: the command line of the server; ``--fd N`` is added for each socket.
        sockets: the sockets to pass to the process.
        watch: reports changed source files.
        wait_s: function that waits the given number of seconds, or until a signal comes.
        on_started: called when the signal handlers are installed and the first process was started.
    """

    def __init__(
        self,
        command: Sequence[str],
        sockets: Sequence[socket.socket],
        watch: SourceWatch,
        *,
        wait_s: Callable[[float], None] = time.sleep,
        on_started: Callable[[], None] | None = None,
    ) -> None:
        self._descriptors = [sock.fileno() for sock in sockets]
        self._command = [*command, *(part for fd in self._descriptors for part in ("--fd", str(fd)))]
        self._watch = watch
        self._wait_s = wait_s
        self._on_started = on_started
        self._server: subprocess.Popen[bytes] | None = None
        self._is_buried = False
        self._retired: list[subprocess.Popen[bytes]] = []
        self._signal: int | None = None

    def run(self) -> int:
        """Run until a signal comes, and return the exit status."""
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._start()
            if self._on_started is not None:
                self._on_started()
            while self._signal is None:
                self._wait_s(POLL_S)
                self._poll()
        finally:
            self._stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return 0  # it has ended in order, after a signal

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signal = number

    def _start(self) -> None:
        self._server = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, pass_fds=self._descriptors)
        self._is_buried = False

    def _poll(self) -> None:
        self._retired = [server for server in self._retired if server.poll() is None]
        server = self._server
        changed = self._watch.changed()
        if changed:
            say(f"reloading: {changed[0]}{f' and {len(changed) - 1} more' if len(changed) > 1 else ''} changed")
            if server is not None and server.poll() is None:
                server.terminate()  # it drains its requests; the next process starts at once, on the same sockets
                self._retired.append(server)
            if self._signal is None:
                self._start()
        elif server is not None and server.poll() is not None and not self._is_buried:
            say(f"the server ended with status {server.returncode}; it starts again when a file changes")
            self._is_buried = True

    def _stop(self) -> None:
        servers = [server for server in (self._server, *self._retired) if server is not None]
        for server in servers:
            if server.poll() is None:
                server.terminate()
        deadline = time.monotonic() + STOP_S
        for server in servers:
            try:
                server.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        sys.stderr.flush()
