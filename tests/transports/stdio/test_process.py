"""The branches of other systems, by setting the platform here."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ferrule.transports.stdio import process as _process
from ferrule.transports.stdio.process import ChildProcess, found_program
from ferrule.transports.stdio.server import _signals_that_stop

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="sets the platform that it is on there"),
]


def test_a_script_is_found_by_its_bare_name_on_windows(tmp_path: Path) -> None:
    """``npx`` is ``npx.cmd`` there, and the system starts only what is named whole."""
    script = tmp_path / "npx"
    script.touch(mode=0o755)
    assert found_program("npx", str(tmp_path), platform="win32") == str(script)
    assert found_program("npx", str(tmp_path), platform="linux") == "npx"
    assert found_program("none", str(tmp_path), platform="win32") == "none"


def test_ctrl_break_stops_a_server_where_it_exists() -> None:
    """Our own client sends it on Windows, where there is no SIGTERM to send."""
    assert _signals_that_stop(signal) == (signal.SIGINT, signal.SIGTERM)
    assert _signals_that_stop(SimpleNamespace(SIGINT=2, SIGTERM=15, SIGBREAK=21)) == (2, 15, 21)


@pytest.mark.usefixtures("any_backend")
async def test_killing_a_tree_on_windows_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """``taskkill`` takes a while, and is not asked about a process that has ended."""
    ended = anyio.Event()
    child = ChildProcess([sys.executable, "-c", "input()"], env={}, cwd=None, capture_stderr=False, on_exit=ended.set)
    pipes = child.take_pipes()
    asked: list[Any] = []
    kill = subprocess.Popen.kill

    def taskkill(command: list[str], **options: Any) -> None:
        asked.append(command)
        kill(child._popen)

    monkeypatch.setattr(_process.sys, "platform", "win32")
    monkeypatch.setattr(_process.subprocess, "run", taskkill)
    try:
        child.kill()
        with anyio.fail_after(60):
            await ended.wait()
        child.kill()
    finally:
        monkeypatch.undo()
    assert asked == [["taskkill", "/T", "/F", "/PID", str(child.pid)]]
    await child.wait_for_group(10)
    child.release()
    import os

    for fd in pipes:
        if fd >= 0:
            os.close(fd)
