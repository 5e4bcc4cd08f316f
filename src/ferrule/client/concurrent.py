"""Runs coroutines concurrently; the first failure is raised as it is, not in an exception group."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import anyio

from ferrule.transports.watch import runs_on_trio

__all__ = ["gather"]

T = TypeVar("T")


async def gather(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in order. If one fails, the others are cancelled and awaited, and its error is raised."""
    works = list(coroutines)
    if len(works) == 1:
        return [await works[0]]
    if runs_on_trio():
        return await _gather_on_trio(works)
    import asyncio

    tasks = [asyncio.ensure_future(work) for work in works]
    if not tasks:
        return []
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task for task in tasks if task in done and not task.cancelled() and task.exception()), None)
        if failed is None:
            return [task.result() for task in tasks]
    finally:
        running = [task for task in tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
    for task in tasks:
        if task is not failed and not task.cancelled():
            task.exception()  # read, so that asyncio does not log it: another error is raised
    error = failed.exception()
    assert error is not None
    raise error


async def _gather_on_trio(works: list[Coroutine[Any, Any, T]]) -> list[T]:
    results: dict[int, T] = {}
    failures: list[Exception] = []

    async def one(index: int, work: Coroutine[Any, Any, T], group: anyio.abc.TaskGroup) -> None:
        try:
            results[index] = await work
        except Exception as error:
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index, work in enumerate(works):
            group.start_soon(one, index, work, group)
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(works))]
