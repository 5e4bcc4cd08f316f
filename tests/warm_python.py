"""Programs of Python that start at once: a process with what they import begins each of them by ``fork()``.

Starting Python with Django, Django REST framework and this package takes a second of one processor; a copy of a process
that has imported them takes some milliseconds. A program has a process, a folder, an environment, an exit status and
standard streams of its own, as if it had been started by its name. It differs in that the modules of the list are
imported before it begins.

Run as a program, this file is that process; it takes its orders from the socket whose number is its first argument and
imports the modules that its other arguments name.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any
from weakref import WeakSet

__all__ = ["WarmPython", "close_all"]

_NUMBER_BYTES = 12
"""Of a number on the socket: the size of an order, the id of a process, a status."""

_open: WeakSet[WarmPython] = WeakSet()


class WarmPython:
    """A process that begins programs of Python.

    Without ``fork()`` each program is started by its name, as `subprocess.run` does.

    Args:
        modules: what the process imports.
        environment: of the process; ``PYTHONPATH`` leads to the modules.
        python: the interpreter.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str], python: str = sys.executable) -> None:
        _open.add(self)
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        if not hasattr(os, "fork"):
            return
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [python, "-P", __file__, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
            )

    def run(
        self,
        *command: str,
        cwd: os.PathLike[str],
        env: Mapping[str, str],
        input: str = "",
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and wait for its end.

        Args:
            command: what stands behind ``python``: ``-m`` and a module, ``-c`` and statements, or the path of a file;
                and arguments.
            cwd: the folder that the program runs in.
            env: its environment.
            input: what it reads.
            timeout: in seconds, after which it is ended.

        Raises:
            subprocess.TimeoutExpired: it was ended.
        """
        if self._process is None:
            return subprocess.run(
                [self._python, *command], cwd=cwd, env=dict(env), input=input, timeout=timeout, capture_output=True,
                text=True,
            )  # fmt: skip
        with contextlib.ExitStack() as files:
            streams = [files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3)]
            streams[0].write(input)
            streams[0].seek(0)
            status = self._order({"command": command, "cwd": os.fspath(cwd), "env": dict(env)}, streams, timeout)
            out, err = (_whole(each) for each in streams[1:])
        return subprocess.CompletedProcess([self._python, *command], status, out, err)

    def _order(self, order: dict[str, Any], streams: Sequence[IO[str]], timeout: float) -> int:
        data = json.dumps(order).encode()
        self._orders.settimeout(None)
        socket.send_fds(self._orders, [_number(len(data))], [each.fileno() for each in streams])
        self._orders.sendall(data)
        pid = self._answer()
        self._orders.settimeout(timeout)
        try:
            return self._answer()
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._orders.settimeout(None)
            self._answer()
            raise subprocess.TimeoutExpired([self._python, *order["command"]], timeout) from None

    def _answer(self) -> int:
        found = self._orders.recv(_NUMBER_BYTES, socket.MSG_WAITALL)
        if not found:
            raise RuntimeError("the process that begins programs has ended")
        return int(found)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._orders.close()
            self._process.wait(60)


def close_all() -> None:
    """End what was not closed."""
    for each in list(_open):
        each.close()


def _whole(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


def _number(value: int) -> bytes:
    return b"%*d" % (_NUMBER_BYTES, value)


def _serve(orders: socket.socket) -> dict[str, Any] | None:
    """Begin a process for each order; return the order in each of them, and nothing in this process at its end."""
    while True:
        size, streams, _, _ = socket.recv_fds(orders, _NUMBER_BYTES, 3)
        if not size:
            return None
        data = orders.recv(int(size), socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            orders.close()
            found: dict[str, Any] = json.loads(data)
            return found
        for stream in streams:
            os.close(stream)
        orders.sendall(_number(pid))
        _, status = os.waitpid(pid, 0)
        orders.sendall(_number(os.waitstatus_to_exitcode(status)))


def _become(order: dict[str, Any]) -> None:
    """Run the program of an order in this process."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    if "PYTHONUNBUFFERED" in os.environ:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    first, *rest = order["command"]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if first == "-m":
        sys.path[:0] = [os.getcwd(), *paths]
        sys.argv[:] = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[:0] = ["", *paths]
        sys.argv[:] = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[:0] = [os.path.dirname(os.path.abspath(first)), *paths]
        sys.argv[:] = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _main() -> None:
    import importlib

    for module in sys.argv[2:]:
        importlib.import_module(module)
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        order = _serve(orders)
    if order is not None:
        _become(order)


if __name__ == "__main__":
    _main()
