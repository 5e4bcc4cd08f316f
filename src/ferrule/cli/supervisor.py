"""Several processes on one listening socket: ``run --http`` with ``--workers`` or ``--reload``.

The supervisor binds once and hands the sockets down, so a worker that is replaced never closes the port: connections
that come meanwhile wait in the kernel's queue and are served by the next one. Each worker loads the file by itself.

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

__all__ = ["Supervisor", "bind_sockets"]

STOP_S: Final = 15.0
"""Seconds that workers get to end; a little more than an HTTP server's own draining."""
QUICK_DEATH_S: Final = 2.0
MAX_QUICK_DEATHS: Final = 5


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for the workers; both families for the loopback name, as clients may try either.

    Raises:
        OSError: the address cannot be bound.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    for family, _, _, _, address in dict.fromkeys(found):
        chosen = bound[0].getsockname()[1] if bound else address[1]
        try:
            bound.append(socket.create_server((address[0], chosen), family=family, backlog=2048))
        except OSError:
            if bound:  # the other family is switched off, or its port is taken; one is enough
                continue
            raise
    return bound


class Supervisor:
    """Keeps ``count`` copies of a command alive until a signal comes.

    Args:
        command: of one worker; ``--fd N`` is added for each socket.
        sockets: to hand down.
        count: of workers.
        watch: replaces the workers when a source changes; ``None``: never.
        wait_s: waits this many seconds, or less when a signal comes.
        on_started: called once signals are heard and the first workers are on their way.
    """

    def __init__(
        self,
        command: Sequence[str],
        sockets: Sequence[socket.socket],
        *,
        count: int = 1,
        watch: SourceWatch | None = None,
        wait_s: Callable[[float], None] = time.sleep,
        on_started: Callable[[], None] | None = None,
    ) -> None:
        self._descriptors = [sock.fileno() for sock in sockets]
        self._command = [*command, *(part for fd in self._descriptors for part in ("--fd", str(fd)))]
        self._count = count
        self._watch = watch
        self._wait_s = wait_s
        self._on_started = on_started
        self._workers: dict[subprocess.Popen[bytes], float] = {}
        self._retired: list[subprocess.Popen[bytes]] = []
        self._quick_deaths = 0
        self._signal: int | None = None

    def run(self) -> int:
        """Until a signal; the exit status."""
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._fill()
            if self._on_started is not None:
                self._on_started()
            while self._signal is None:
                self._wait_s(POLL_S)
                if not self._look():
                    return 1
        finally:
            self._stop([*self._workers, *self._retired])
            for number, handler in previous.items():
                signal.signal(number, handler)
        return 0  # told to end, by whichever signal, it has done so

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signal = number

    def _fill(self) -> None:
        while len(self._workers) < self._count and self._signal is None:
            worker = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, pass_fds=self._descriptors)
            self._workers[worker] = time.monotonic()

    def _look(self) -> bool:
        """One round; ``False`` to give up."""
        self._retired = [worker for worker in self._retired if worker.poll() is None]
        if self._watch is not None and (changed := self._watch.changed()):
            say(f"reloading: {changed[0]}{f' and {len(changed) - 1} more' if len(changed) > 1 else ''} changed")
            self._retire()
        else:
            for worker in [worker for worker in self._workers if worker.poll() is not None]:
                if not self._bury(worker):
                    return self._watch is not None
        self._fill()
        return True

    def _retire(self) -> None:
        """Tell the workers to drain; the next ones start at once, on the same sockets."""
        self._quick_deaths = 0
        for worker in self._workers:
            if worker.poll() is None:
                worker.terminate()
                self._retired.append(worker)
        self._workers.clear()

    def _bury(self, worker: subprocess.Popen[bytes]) -> bool:
        """A worker died; ``False``: do not start it again now."""
        started = self._workers.pop(worker)
        if self._watch is not None:
            say(f"the server ended with status {worker.returncode}; it starts again when a file changes")
            self._workers[worker] = float("inf")
            return False
        say(f"a worker ended with status {worker.returncode}")
        if time.monotonic() - started < QUICK_DEATH_S:
            self._quick_deaths += 1
            if self._quick_deaths >= MAX_QUICK_DEATHS:
                say("workers end as soon as they start; giving up")
                return False
        return True

    @staticmethod
    def _stop(workers: Sequence[subprocess.Popen[bytes]]) -> None:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
        deadline = time.monotonic() + STOP_S
        for worker in workers:
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        sys.stderr.flush()
