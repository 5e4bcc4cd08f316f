"""One task per request, the cheapest way that each event loop has."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from ferrule.kernel.concurrency import spawner as tasks_module
from ferrule.kernel.concurrency.spawner import AnyioSpawner, AsyncioSpawner, is_asyncio, spawner_for_this_loop

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_the_loop_decides(anyio_backend: str) -> None:
    """Plain tasks on asyncio, a task group on trio."""
    assert is_asyncio() == (anyio_backend == "asyncio")
    assert isinstance(spawner_for_this_loop(), AsyncioSpawner if anyio_backend == "asyncio" else AnyioSpawner)


async def test_draining_waits_for_what_runs_and_no_longer() -> None:
    """It returns early when all are done, and at the bound when they are not."""
    done: list[int] = []

    async def quick() -> None:
        await anyio.sleep(0.01)
        done.append(1)

    async with spawner_for_this_loop() as tasks:
        tasks.start(quick())
        tasks.start(quick())
        with anyio.fail_after(30):
            await tasks.drain(60)
        assert done == [1, 1]
        tasks.start(anyio.sleep_forever())
        with anyio.fail_after(30):
            await tasks.drain(0.01)
            await tasks.drain(0)


async def test_leaving_cancels_and_waits() -> None:
    """Clean-up has run when the block is left."""
    log: list[str] = []

    async def careful() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            log.append("clean")

    async with spawner_for_this_loop() as tasks:
        tasks.start(careful())
        await anyio.wait_all_tasks_blocked()
    log.append("left")
    assert log == ["clean", "left"]


async def test_one_task_is_cancelled_and_the_others_continue() -> None:
    """A handle cancels its own."""
    log: list[Any] = []

    async def wait(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            log.append(name)

    async with spawner_for_this_loop() as tasks:
        first = tasks.start(wait("first"))
        tasks.start(wait("second"))
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        assert log == ["first"]
    assert log == ["first", "second"]


async def test_a_task_that_does_not_end_is_abandoned_with_a_warning(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On asyncio; trio has no way to leave one behind."""
    if anyio_backend == "trio":
        pytest.skip("a nursery waits for its children")
    monkeypatch.setattr(tasks_module, "CANCEL_GRACE_S", 0.02)
    release = anyio.Event()

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            while not release.is_set():
                try:
                    await release.wait()
                except anyio.get_cancelled_exc_class():
                    continue

    with anyio.fail_after(30):
        async with spawner_for_this_loop() as tasks:
            tasks.start(stubborn())
            await anyio.wait_all_tasks_blocked()
    assert "did not end" in caplog.text
    release.set()
    await anyio.wait_all_tasks_blocked()


def test_a_program_that_has_not_imported_asyncio_does_not_run_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not imported only to ask."""
    assert is_asyncio() is False
    monkeypatch.delitem(sys.modules, "asyncio")
    assert is_asyncio() is False


async def test_the_running_loop_is_recognized(anyio_backend: str) -> None:
    """Within a task."""
    assert is_asyncio() is (anyio_backend == "asyncio")
