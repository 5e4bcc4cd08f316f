"""A server that is started again when its source changes: ``run --http --reload``.

The supervisor binds once and hands the sockets down, so a server that is replaced never closes the port: connections
that come meanwhile wait in the kernel's queue and are served by the next one. For development, with one process;
several are the library's affair (``ferrule.transports.hosting.workers``), also when the command line starts them.

POSIX only: Windows cannot hand sockets down in this way.
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
"""Seconds that a server gets to end; a little more than its own draining."""


class Supervisor:
    """Keeps a copy of a command alive until a signal comes.

    Args:
        command: the command line of the server; ``--fd N`` is added for each socket.
        sockets: to hand down.
        watch: the server is replaced when a source changes.
        wait_s: waits this many seconds, or less when a signal comes.
        on_started: called once signals are heard and the first server is on its way.
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
        """Until a signal; the exit status."""
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._start()
            if self._on_started is not None:
                self._on_started()
            while self._signal is None:
                self._wait_s(POLL_S)
                self._look()
        finally:
            self._stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return 0  # told to end, by whichever signal, it has done so

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signal = number

    def _start(self) -> None:
        self._server = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, pass_fds=self._descriptors)
        self._is_buried = False

    def _look(self) -> None:
        self._retired = [server for server in self._retired if server.poll() is None]
        server = self._server
        changed = self._watch.changed()
        if changed:
            say(f"reloading: {changed[0]}{f' and {len(changed) - 1} more' if len(changed) > 1 else ''} changed")
            if server is not None and server.poll() is None:
                server.terminate()  # it drains; the next one starts at once, on the same sockets
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
