"""A changed file is noticed when it is whole, and SIGHUP at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ferrule.cli.gateway.watch import watch_file

pytestmark = pytest.mark.anyio


async def test_a_change_is_taken_when_two_looks_see_the_same(tmp_path: Path) -> None:
    """Not while it is written, nor while an editor has it away; each change once."""
    path = tmp_path / "mcp.json"
    path.write_text("1")
    taken: list[str] = []
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: path.write_text("half"),
        lambda: path.write_text("whole, "),
        lambda: None,
        lambda: None,
        path.unlink,
        lambda: path.write_text("again"),
        lambda: None,
        lambda: None,
    ]

    async def changed() -> None:
        taken.append(path.read_text())

    async def sleep(_: float) -> None:
        if not steps:
            await anyio.sleep_forever()
        steps.pop(0)()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: watch_file(path, changed, sleep=sleep))
        while steps or len(taken) < 2:
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert taken == ["whole, ", "again"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
async def test_sighup_reads_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it did not change."""
    monkeypatch.delenv("FERRULE_WORKER", raising=False)
    path = tmp_path / "mcp.json"
    path.write_text("1")
    done, looking = anyio.Event(), anyio.Event()

    async def changed() -> None:
        done.set()

    async def sleep(_: float) -> None:
        looking.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: watch_file(path, changed, sleep=sleep))
        await looking.wait()
        await anyio.wait_all_tasks_blocked()  # the receiver of the signal is there
        os.kill(os.getpid(), signal.SIGHUP)
        await done.wait()
        group.cancel_scope.cancel()
