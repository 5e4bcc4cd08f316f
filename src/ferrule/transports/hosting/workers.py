"""Several processes on one port: bind once, start workers that import the application, and replace those that end.

A worker is a new interpreter. It inherits the listening sockets and imports the application by its name
(``file.py:attribute`` or ``module:attribute``), because application objects have locks, event loops and connections
that cannot be copied. The supervisor serves nothing and imports no HTTP library.

* A worker that ends unexpectedly is replaced: within a second if it has served or was killed, else with back-off.
* SIGTERM and SIGINT end all workers, each with its drain; a second signal kills them.
* SIGHUP replaces them one after the other; a new one is ready before an old one gets a signal to end.
* If the supervisor is killed, its workers drain and end, so that the port is free for another one.

Each worker has its own process group. Otherwise Ctrl-C in a terminal would reach it twice, from the terminal and from
the supervisor, and a second signal skips the drain. Workers are ended by SIGINT, which skips the notice to load
balancers, unless all of them end because of a SIGTERM: while others serve on the port, load balancers need no notice.

POSIX only: on Windows sockets cannot be inherited this way.
"""

from __future__ import annotations

import logging
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from ferrule.wire.faults import FerruleError

__all__ = ["WorkerError", "backoff_s", "find_target", "in_worker", "load_target", "run_workers"]

log = logging.getLogger("ferrule.workers")

WORKER_ENV: Final = "FERRULE_WORKER"
"""Set in a worker, to its number."""

_LOOK_EVERY_S: Final = 0.05
# Imports of large applications take long, but one that hangs must be noticed.
_START_S: Final = 60.0
_MAX_BACKOFF_S: Final = 30.0
_MAX_MISSED_BACKOFF_S: Final = 1.0
_MAX_MISSED_FAILURES: Final = 3
# A worker that served for so long counts as healthy.
_STABLE_S: Final = 10.0
_MAIN: Final = "__ferrule_worker__"


class WorkerError(FerruleError, RuntimeError):
    """Workers cannot be started with these settings (the operator's mistake); the message says what to change."""


def in_worker() -> bool:
    """Return whether this process is a worker."""
    return WORKER_ENV in os.environ


def find_target(app: Any) -> str:
    """Return the name under which a fresh interpreter finds ``app``: ``file.py:attribute`` or ``module:attribute``.

    Raises:
        WorkerError: it is not an attribute of any module.
    """
    # The script first: its objects must be imported from its file, not from a module that only refers to them.
    main = sys.modules.get("__main__")
    modules = [("__main__", main), *sys.modules.items()]
    for name, module in modules:
        if module is None or (name == "__main__" and module is not main):
            continue
        for attribute, value in list(vars(module).items()):
            if value is not app:
                continue
            if module is not main:
                return f"{name}:{attribute}"
            file = getattr(module, "__file__", None)  # Python's: not every module has one
            if file is not None:
                return f"{os.path.abspath(file)}:{attribute}"
    raise WorkerError("Workers import the server by its name: keep it in a variable of a module or script")


def load_target(target: str) -> Any:
    """Import a target of `find_target` and return the object.

    Raises:
        WorkerError: there is no such attribute.
    """
    place, _, attribute = target.rpartition(":")
    if place.endswith(".py"):
        sys.path.insert(0, os.path.dirname(place))
        # Not `__main__`, or the script would start workers of its own.
        space = runpy.run_path(place, run_name=_MAIN)
    else:
        space = vars(import_module(place))
    if attribute not in space:
        raise WorkerError(f"{place} has no {attribute!r}")
    return space[attribute]


@dataclass(slots=True)
class _Worker:
    """One worker process, as the supervisor sees it."""

    number: int
    process: subprocess.Popen[bytes]
    ready_fd: int
    started_at: float
    is_ready: bool = False
    is_leaving: bool = False


@dataclass(slots=True)
class _Slot:
    """The position of one worker; each restart puts another process there."""

    number: int
    worker: _Worker | None = None
    failures: int = 0
    not_before: float = 0.0
    old: list[_Worker] = field(default_factory=list["_Worker"])


def run_workers(
    target: str | Callable[[], Any],
    count: int,
    sockets: Sequence[socket.socket],
    payload: dict[str, Any],
    *,
    drain_s: float,
    on_started: Callable[[], None] | None = None,
) -> None:
    """Run ``count`` workers until a signal arrives.

    Args:
        target: see `find_target`; or a function that returns the application and can be pickled by its name.
        count: number of workers.
        sockets: listening sockets, which each worker inherits.
        payload: pickled for each worker, and passed to the application's ``serve_worker``.
        drain_s: seconds that a worker may take to end after SIGTERM, before it is killed.
        on_started: called once, when all workers serve.

    Raises:
        WorkerError: the platform is Windows, the payload cannot be pickled, or the workers do not start.
    """
    if sys.platform == "win32":
        raise WorkerError("workers= needs POSIX; on Windows start several processes behind a proxy")
    try:
        message = pickle.dumps((target, [sock.fileno() for sock in sockets], payload))
    except Exception as error:
        raise WorkerError(
            f"These options cannot be given to workers: {error}; set them on the server object"
        ) from error
    _Supervisor(count, sockets, message, drain_s, on_started).run()


class _Supervisor:
    def __init__(
        self,
        count: int,
        sockets: Sequence[socket.socket],
        message: bytes,
        drain_s: float,
        on_started: Callable[[], None] | None,
    ) -> None:
        self._slots = [_Slot(number) for number in range(1, count + 1)]
        self._sockets = sockets
        self._message = message
        self._drain_s = drain_s
        self._on_started = on_started
        self._stops = 0
        self._stop_signal = signal.SIGTERM
        self._reloads = False
        self._to_replace: list[_Slot] = []
        self._ever_started = False

    def run(self) -> None:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._reload)
        try:
            while not self._stops:
                self._tend()
                time.sleep(_LOOK_EVERY_S)
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, *_: Any) -> None:
        if not self._stops:
            self._stop_signal = signal.Signals(number)
        self._stops += 1

    def _reload(self, *_: Any) -> None:
        self._reloads = True
        self._to_replace = list(self._slots)

    # -- one check -------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        for slot in self._slots:
            worker = slot.worker
            if worker is None:
                if time.monotonic() >= slot.not_before:
                    slot.worker = self._start(slot)
            elif worker.process.poll() is not None:
                self._lost(slot, worker)
            elif not worker.is_ready:
                self._look_whether_ready(slot, worker)
            for old in list(slot.old):
                if old.process.poll() is not None:
                    self._close(old)
                    slot.old.remove(old)
                elif old.is_leaving and time.monotonic() - old.started_at > self._drain_s + 5:
                    old.process.kill()
        if self._on_started is not None and all(slot.worker and slot.worker.is_ready for slot in self._slots):
            on_started, self._on_started = self._on_started, None
            on_started()
        if self._reloads and self._on_started is None:
            self._replace_next()

    def _look_whether_ready(self, slot: _Slot, worker: _Worker) -> None:
        try:
            ready = os.read(worker.ready_fd, 1)
        except BlockingIOError:
            if time.monotonic() - worker.started_at > _START_S:
                log.error("Worker %d did not start within %g s", worker.number, _START_S)
                worker.process.kill()
            return
        if ready:
            worker.is_ready = self._ever_started = True

    def _lost(self, slot: _Slot, worker: _Worker) -> None:
        self._close(worker)
        slot.worker = None
        # A worker that has served, or was killed by a signal, is replaced soon, since clients need it. One that ends by
        # itself before it serves would only use the processors. Ends of the first kind cause no long wait later.
        is_missed = worker.is_ready or worker.process.returncode in (-signal.SIGKILL, -signal.SIGTERM)
        if is_missed:
            lived_long = worker.is_ready and time.monotonic() - worker.started_at > _STABLE_S
            slot.failures = 0 if lived_long else min(slot.failures, _MAX_MISSED_FAILURES)
        slot.failures += 1
        if not self._ever_started and slot.failures >= 2:
            raise WorkerError(f"The workers do not start: exit code {worker.process.returncode}; see their output")
        longest_s = _MAX_MISSED_BACKOFF_S if is_missed else _MAX_BACKOFF_S
        wait_s = 0.0 if slot.failures == 1 else backoff_s(slot.failures, longest_s)
        slot.not_before = time.monotonic() + wait_s
        log.error(
            "Worker %d ended with code %s; another takes its place in %.1f s",
            worker.number, worker.process.returncode, wait_s,
        )  # fmt: skip

    def _replace_next(self) -> None:
        """Continue a rolling restart, one worker at a time: the old one is ended when the new one serves."""
        for slot in self._slots:
            if slot.worker is None or not slot.worker.is_ready:
                return  # a new one is on its way
            for old in slot.old:
                if not old.is_leaving:
                    old.is_leaving, old.started_at = True, time.monotonic()
                    _signal_to_end(old, signal.SIGINT)
        if not self._to_replace:
            self._reloads = False
            return
        slot = self._to_replace[0]
        if slot.worker is None or time.monotonic() < slot.not_before:
            return
        worker = self._start(slot)
        if worker is not None:
            slot.old.append(slot.worker)
            slot.worker = worker
            del self._to_replace[0]

    # -- children -------------------------------------------------------------------------------------------------

    def _start(self, slot: _Slot) -> _Worker | None:
        """Return a new worker for a slot; ``None`` if the system has no room for it, and try again later.

        Raises:
            WorkerError: no worker has served yet.
        """
        try:
            return self._spawn(slot.number)
        except OSError as error:  # no memory, or too many processes: the other workers must go on
            if not self._ever_started:
                raise WorkerError(f"The workers do not start: {error}") from error
            slot.failures += 1
            wait_s = backoff_s(slot.failures, _MAX_BACKOFF_S)
            slot.not_before = time.monotonic() + wait_s
            log.error("Worker %d cannot be started: %s; trying again in %.1f s", slot.number, error, wait_s)
            return None

    def _spawn(self, number: int) -> _Worker:
        read_fd, write_fd = os.pipe()
        try:
            os.set_blocking(read_fd, False)
            process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main({write_fd})"],
                stdin=subprocess.PIPE,
                pass_fds=[*(sock.fileno() for sock in self._sockets), write_fd],
                env={**os.environ, WORKER_ENV: str(number)},
                process_group=0,
            )
        except BaseException:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        assert process.stdin is not None
        try:
            process.stdin.write(
                self._message
            )  # and left open: the worker sees by its end that the supervisor has ended
            process.stdin.flush()
        except BrokenPipeError:  # it has ended already; the next check notices it
            log.debug("worker %d ended before it read its settings", number)
        return _Worker(number, process, read_fd, time.monotonic())

    @staticmethod
    def _close(worker: _Worker) -> None:
        os.close(worker.ready_fd)
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):
            worker.process.stdin.close()

    def _end(self) -> None:
        workers = [worker for slot in self._slots for worker in (slot.worker, *slot.old) if worker is not None]
        for worker in workers:
            if worker.process.poll() is None:
                _signal_to_end(worker, self._stop_signal)
        deadline = time.monotonic() + self._drain_s + 5
        for worker in workers:
            while worker.process.poll() is None:
                if self._stops > 1 or time.monotonic() > deadline:
                    worker.process.kill()
                    worker.process.wait()
                    break
                time.sleep(_LOOK_EVERY_S)
            self._close(worker)


def backoff_s(failures: int, longest_s: float) -> float:
    """Return the seconds to wait after so many failures in a row, at most ``longest_s``."""
    # Bounded before the power: a float has no room for that of a thousand failures.
    return min(longest_s, 0.1 * 2.0 ** min(failures, 16))


def _signal_to_end(worker: _Worker, number: signal.Signals) -> None:
    # A worker that does not serve yet has no handler for SIGINT and would print a traceback.
    worker.process.send_signal(number if worker.is_ready else signal.SIGTERM)


def _end_with_supervisor() -> None:
    """Wait for the end of the supervisor, which closes stdin, and end this worker; run in a thread."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGINT)


def main(ready_fd: int) -> None:
    """Run a worker.

    Args:
        ready_fd: the descriptor that the worker writes to when it serves.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Unpickling is safe here: only the supervisor has the other end of this pipe.
    target, fds, payload = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_supervisor, name="supervisor", daemon=True).start()
    app: Any = target() if callable(target) else load_target(target)
    sockets = [socket.socket(fileno=fd) for fd in fds]

    def ready(*_: Any) -> None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)

    app.serve_worker(sockets, payload, ready)
