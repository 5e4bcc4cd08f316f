"""Servers of web applications in processes of their own, for tests of integrations."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from types import MappingProxyType

from tests.conftest import ROOT

__all__ = ["Host", "hosted", "program_environment"]


def program_environment() -> dict[str, str]:
    """Return the environment of a program that imports the package and its tests from this source tree."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


class Host:
    """A server in a process of its own.

    Attributes:
        url: of the endpoint.
        process: of the server.
        lines: what it has written so far.
    """

    def __init__(self, command: list[str], listening: str, environment: Mapping[str, str], python: str) -> None:
        self.process = subprocess.Popen(
            [python, "-u", "-m", *command],
            cwd=ROOT,
            env={**program_environment(), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.url = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(listening, line)
            if found is not None:
                self.url = f"http://127.0.0.1:{found[1]}/mcp"
                break
        assert self.url, "".join(self.lines)
        self._wait_for(int(self.url.split(":")[2].partition("/")[0]))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _wait_for(self, port: int) -> None:
        until = time.monotonic() + 60  # some servers say where they listen before they do
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 60).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def stop(self) -> int:
        """End it as an operator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def hosted(
    command: list[str],
    listening: str = r"Listening at: http://127\.0\.0\.1:(\d+)",
    environment: Mapping[str, str] = MappingProxyType({}),
    python: str = sys.executable,
) -> Generator[Host]:
    """Run a server in a process of its own.

    Args:
        command: of ``python -m``.
        listening: finds the port in what it writes.
        environment: further variables of the environment.
        python: the interpreter.
    """
    host = Host(command, listening, environment, python)
    try:
        yield host
    finally:
        if host.process.poll() is None:
            host.stop()
