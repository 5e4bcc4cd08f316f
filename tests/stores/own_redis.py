"""Redis servers that a test may pause, kill and start again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes import free_port

KEEP = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


class OwnRedis:
    """One server on a port of its own.

    Args:
        folder: for its files.
        arguments: of its command line; `KEEP` lets it have after a restart what it had before.
        port: a free one if not said.
    """

    def __init__(self, folder: Path, *arguments: str, port: int | None = None) -> None:
        found = os.environ.get("FERRULE_TEST_REDIS_SERVER") or shutil.which("redis-server")
        if not found:
            pytest.skip("no Redis server: scripts/test finds one and sets FERRULE_TEST_REDIS_SERVER")
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._command = [found, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(folder), *arguments]
        self._log = folder / "log"
        self.start()

    def start(self) -> None:
        """Start it, with what it had; returns when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                    sock.sendall(b"PING\r\n")
                    if sock.recv(100).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        self.close()
        raise AssertionError(self._log.read_text())

    def pause(self) -> None:
        """It answers nothing, and its connections stand."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """The end of `pause`."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self.kill()  # which ends one that is paused, too
