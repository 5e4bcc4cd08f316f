"""The example server as a foreign client meets it: a command line, and an address."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import free_port, wait_until_served


@pytest.fixture(scope="session")
def stdio_command(examples_dir: Path) -> list[str]:
    """The command that a host would have in its configuration."""
    return [sys.executable, str(examples_dir / "server.py")]


@pytest.fixture(scope="module")
def http_url(stdio_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the example server, started by its own command as a process of its own."""
    port = free_port()
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
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text(errors="replace")
