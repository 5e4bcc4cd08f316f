"""PostgreSQL servers that a test may pause, kill and start again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import free_port


def _unprivileged() -> list[str]:
    """What stands before a command that must not run as root, as PostgreSQL does not."""
    if os.getuid() != 0:
        return []
    import grp
    import pwd

    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    return ["setpriv", "--reuid=nobody", f"--regid={group}", "--clear-groups"]


class OwnPostgres:
    """One server on a port of its own, whose data outlasts `kill`.

    Args:
        settings: of its configuration, such as ``max_connections=20``.
        port: a free one if not said.
    """

    def __init__(self, *settings: str, port: int | None = None) -> None:
        found = os.environ.get("FERRULE_TEST_POSTGRES_PROGRAMS")
        if not found:
            pytest.skip("no PostgreSQL: scripts/test finds one and sets FERRULE_TEST_POSTGRES_PROGRAMS")
        self.port = port or free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        # Not in the folder of the test, which the other user cannot reach.
        self._folder = Path(tempfile.mkdtemp(prefix="ferrule-postgres-"))
        if os.getuid() == 0:
            shutil.chown(self._folder, "nobody")
        self._programs = Path(found)
        data = str(self._folder / "data")
        first = [*_unprivileged(), str(self._programs / "initdb"), "--pgdata", data, "--username", "postgres"]
        first += ["--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--wal-segsize", "1"]
        subprocess.run(first, cwd=self._folder, check=True, capture_output=True)
        self._command = [*_unprivileged(), str(self._programs / "postgres"), "-D", data, "-h", "127.0.0.1"]
        self._command += ["-p", str(self.port), "-k", ""]
        # The machine does not fail in these tests, only processes do.
        for setting in ("fsync=off", "full_page_writes=off", *settings):
            self._command += ["-c", setting]
        self._log = self._folder / "log"
        self.start()

    def start(self) -> None:
        """Start it, with what it had; returns when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.05)
        said = self._log.read_text()
        self.close()
        raise AssertionError(said)

    def _answers(self) -> bool:
        # The first message of the protocol: version 3.0, and the user.
        body = b"\0\3\0\0user\0postgres\0database\0postgres\0\0"
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                sock.sendall((len(body) + 4).to_bytes(4, "big") + body)
                return sock.recv(1) == b"R"  # an error, as while it recovers, begins with E
        except OSError:
            return False

    def _processes(self) -> list[int]:
        """The server, and the processes of its connections."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [self._process.pid, *(int(pid) for pid, parent in rows if int(parent) == self._process.pid)]

    def _signal(self, number: int) -> None:
        # First the one that would begin others; a connection may end meanwhile.
        os.kill(self._process.pid, number)
        self._signal_all(self._processes()[1:], number)

    @staticmethod
    def _signal_all(pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause(self) -> None:
        """It answers nothing, and its connections stand."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """The end of `pause`."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """``kill -9`` of all its processes."""
        pids = self._processes()[1:]
        self._process.kill()
        self._signal_all(pids, signal.SIGKILL)
        self._process.wait()
        self._wait_for(pids)

    def stop(self) -> None:
        """Shut it down as an operator does, with its connections open."""
        self.go_on()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    @staticmethod
    def _wait_for(pids: list[int]) -> None:
        """Wait until processes are gone, which hold the shared memory of the server."""
        deadline = time.monotonic() + 60
        for pid in pids:
            while time.monotonic() < deadline:
                try:
                    os.kill(pid, 0)
                except ProcessLookupError:
                    break
                time.sleep(0.01)

    def close(self) -> None:
        """End it, and delete its data."""
        if self._process.poll() is None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
