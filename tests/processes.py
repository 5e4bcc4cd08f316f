"""Processes that tests start: a port to serve, the wait until it is served, and the list of running ones."""

from __future__ import annotations

import os
import random
import secrets
import socket
import subprocess
import time
from pathlib import Path

import pytest

START_LIMIT_S = 60.0

_PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections (Linux from 32,768 on), which could otherwise take a port
between two steps of a test."""

_SHARES = 16
_SHARE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
"""The ports are shared out among the processes of a test run: between the choice of a port and the start of a server on
it, no other process may choose it."""

_given: set[int] = set()

_CHOICE = random.SystemRandom()
"""No seed: Hypothesis sets that of `random` before each test, and test runs side by side would try the same ports."""

_MARK = f"/ferrule-tests-{secrets.token_hex(8)}"


def free_port(*, and_above: int = 0) -> int:
    """A port that nothing listens on, and that no other test of this run gets while there are further ones.

    Args:
        and_above: of the port so much higher the same is true; the bus of a Redis cluster listens 10,000 above.
    """
    own = _PORTS[_SHARE : len(_PORTS) - and_above : _SHARES]
    while True:
        port = _CHOICE.choice([each for each in own if each not in _given] or own)
        with socket.socket() as probe, socket.socket() as above:
            try:
                probe.bind(("127.0.0.1", port))
                if and_above:
                    above.bind(("127.0.0.1", port + and_above))
            except OSError:
                continue
            _given.add(port)
            return port


def wait_until_served(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when a connection to the port succeeds; fail with the log if the process ends or takes too long."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    process.kill()
    pytest.fail(f"the server did not listen on port {port}:\n{log.read_text(errors='replace')}")


def mark_processes() -> None:
    """Make every process that this one starts from now on recognisable, those of other programs too.

    The mark is a folder on ``PATH`` that does not exist: of all variables ``PATH`` is the one that even a filtered
    environment passes on, and a process keeps its environment when its parent has ended.
    """
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), _MARK])


def marked_processes() -> dict[int, str]:
    """The processes with our mark that still run, this one left out: process id → command line. Linux only."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid == os.getpid():
            continue
        try:
            if _MARK.encode() in (folder / "environ").read_bytes():
                found[pid] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has ended, or belongs to somebody else
            pass
    return found
