"""Processes that serve a port: finding one, and waiting until somebody listens there."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from pathlib import Path

import pytest

START_LIMIT_S = 30.0

_PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections, which could otherwise take a port between two steps of a test;
and with room for 10,000 more, where a cluster's bus listens."""


def free_port() -> int:
    """A port that nothing listens on."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until_served(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return once somebody listens on the port; fail with the log if the process ends or takes too long."""
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
