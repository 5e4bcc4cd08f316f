"""Several processes on one port: bind once, start workers that import the application anew, keep their number.

A worker is a fresh interpreter that gets the listening sockets by inheritance and the application by name
(``file.py:attribute`` or ``module:attribute``): application objects hold locks, loops and connections that survive no
copying. The supervisor serves nothing and imports no HTTP library.

* A worker that ends unexpectedly is replaced: within a second if it has served or was killed, else ever more slowly.
* SIGTERM and SIGINT end all workers in good order, each with its drain; a second one ends them at once.
* SIGHUP replaces them one after the other, a new one being ready before an old one is asked to end.
* A supervisor that is killed takes its workers along: they drain and end, so that the port is free for the next one.

Workers are a process group of their own, or Ctrl-C at a terminal would reach each of them twice, from the terminal
and from us, and twice means at once. They are ended by SIGINT, which leaves out the notice to load balancers, unless
all of them end because of a SIGTERM: as long as others serve on the port, balancers need not know.

POSIX only: Windows does not hand sockets down this way.
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

__all__ = ["WorkerError", "find_target", "in_worker", "load_target", "run_workers"]

log = logging.getLogger("ferrule.workers")

WORKER_ENV: Final = "FERRULE_WORKER"
"""Set in a worker, to its number."""

_LOOK_EVERY_S: Final = 0.05
_START_S: Final = 60.0
_MAX_BACKOFF_S: Final = 30.0
_MAX_MISSED_BACKOFF_S: Final = 1.0
_MAX_MISSED_FAILURES: Final = 3
_STABLE_S: Final = 10.0
_MAIN: Final = "__ferrule_worker__"


class WorkerError(FerruleError, RuntimeError):
    """Workers cannot be started as asked (the operator's mistake); the message says what to change."""


def in_worker() -> bool:
    """Return whether this process is a worker."""
    return WORKER_ENV in os.environ


def find_target(app: Any) -> str:
    """Return the name under which a fresh interpreter finds ``app``: ``file.py:attribute`` or ``module:attribute``.

    Raises:
        WorkerError: it is no attribute of any module.
    """
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
    """Return the object that a target names, imported here.

    Raises:
        WorkerError: there is none.
    """
    place, _, attribute = target.rpartition(":")
    if place.endswith(".py"):
        sys.path.insert(0, os.path.dirname(place))
        space = runpy.run_path(place, run_name=_MAIN)
    else:
        space = vars(import_module(place))
    if attribute not in space:
        raise WorkerError(f"{place} has no {attribute!r}")
    return space[attribute]


@dataclass(slots=True)
class _Worker:
    """One child."""

    number: int
    process: subprocess.Popen[bytes]
    ready_fd: int
    started_at: float
    is_ready: bool = False
    is_leaving: bool = False


@dataclass(slots=True)
class _Slot:
    """The place of one worker, whose process changes with each restart."""

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
    """Keep ``count`` workers running until a signal says otherwise.

    Args:
        target: see `find_target`; or what a worker calls for the application, which must be picklable by its name.
        sockets: listening; inherited by each worker.
        payload: pickled to each worker, and given to the application's ``serve_worker``.
        drain_s: seconds that a worker gets to end after SIGTERM, before it is killed.
        on_started: called once, when all workers serve.

    Raises:
        WorkerError: the platform cannot, the payload cannot be pickled, or no worker ever started.
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

    # -- one look -------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        for slot in self._slots:
            worker = slot.worker
            if worker is None:
                if time.monotonic() >= slot.not_before:
                    slot.worker = self._spawn(slot.number)
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
        # One that served is missed by its clients, and one that somebody killed may be well; one that ends by itself
        # before it serves would only keep the processors busy. Deaths of the former add up to no waits of the latter.
        is_missed = worker.is_ready or worker.process.returncode in (-signal.SIGKILL, -signal.SIGTERM)
        if is_missed:
            lived_long = worker.is_ready and time.monotonic() - worker.started_at > _STABLE_S
            slot.failures = 0 if lived_long else min(slot.failures, _MAX_MISSED_FAILURES)
        slot.failures += 1
        if not self._ever_started and slot.failures >= 2:
            raise WorkerError(f"The workers do not start: exit code {worker.process.returncode}; see their output")
        longest_s = _MAX_MISSED_BACKOFF_S if is_missed else _MAX_BACKOFF_S
        wait_s = 0.0 if slot.failures == 1 else min(longest_s, 0.1 * 2**slot.failures)
        slot.not_before = time.monotonic() + wait_s
        log.error(
            "Worker %d ended with code %s; another takes its place in %.1f s",
            worker.number, worker.process.returncode, wait_s,
        )  # fmt: skip

    def _replace_next(self) -> None:
        """A rolling restart, one worker at a time: the old one is asked to end when the new one serves."""
        for slot in self._slots:
            if slot.worker is None or not slot.worker.is_ready:
                return  # a new one is on its way
            for old in slot.old:
                if not old.is_leaving:
                    old.is_leaving, old.started_at = True, time.monotonic()
                    _tell_to_end(old, signal.SIGINT)
        if not self._to_replace:
            self._reloads = False
            return
        slot = self._to_replace.pop(0)
        if slot.worker is not None:
            slot.old.append(slot.worker)
            slot.worker = self._spawn(slot.number)

    # -- children -------------------------------------------------------------------------------------------------

    def _spawn(self, number: int) -> _Worker:
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main({write_fd})"],
            stdin=subprocess.PIPE,
            pass_fds=[*(sock.fileno() for sock in self._sockets), write_fd],
            env={**os.environ, WORKER_ENV: str(number)},
            process_group=0,
        )
        os.close(write_fd)
        assert process.stdin is not None
        try:
            process.stdin.write(self._message)  # and left open: when it ends, the worker knows that we are gone
            process.stdin.flush()
        except BrokenPipeError:  # it died at once; the next look finds out
            log.debug("worker %d died before it read anything", number)
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
                _tell_to_end(worker, self._stop_signal)
        deadline = time.monotonic() + self._drain_s + 5
        for worker in workers:
            while worker.process.poll() is None:
                if self._stops > 1 or time.monotonic() > deadline:
                    worker.process.kill()
                    worker.process.wait()
                    break
                time.sleep(_LOOK_EVERY_S)
            self._close(worker)


def _tell_to_end(worker: _Worker, number: signal.Signals) -> None:
    # One that does not serve yet has no handler that would take SIGINT without a word.
    worker.process.send_signal(number if worker.is_ready else signal.SIGTERM)


def _end_with_supervisor() -> None:
    """The thread of a worker that waits for the end of its supervisor, which shows as the end of stdin."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGINT)


def main(ready_fd: int) -> None:
    """What a worker runs."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # From our own parent, over a pipe that no other process has.
    target, fds, payload = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_supervisor, name="supervisor", daemon=True).start()
    app: Any = target() if callable(target) else load_target(target)
    sockets = [socket.socket(fileno=fd) for fd in fds]

    def ready(*_: Any) -> None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)

    app.serve_worker(sockets, payload, ready)
