"""The example server as a foreign client meets it: a command line, and an address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

START_LIMIT_S = 20.0


@pytest.fixture(scope="session")
def stdio_command(examples_dir: Path) -> list[str]:
    """The command that a host would have in its configuration."""
    return [sys.executable, str(examples_dir / "server.py")]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    pytest.fail(f"the example server did not listen on port {port}:\n{log.read_text(errors='replace')}")


@pytest.fixture(scope="module")
def http_url(stdio_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the example server, started by its own command as a process of its own."""
    port = _free_port()
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*stdio_command, "http", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        wait_until_served(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
        assert process.poll() is None, log.read_text(errors="replace")
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text(errors="replace")
