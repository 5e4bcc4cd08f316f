"""A future whose outcome continues its task in the same iteration of the event loop."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from ferrule.kernel.concurrency.prompt_future import PromptFuture

pytestmark = pytest.mark.anyio

_name: ContextVar[str] = ContextVar("name", default="")


def _future() -> PromptFuture:
    return PromptFuture(loop=asyncio.get_running_loop())


async def test_its_task_continues_before_settle_returns() -> None:
    future, seen = _future(), list[Any]()

    async def use() -> None:
        seen.append(await future)
        seen.append(asyncio.current_task() is task)

    task = asyncio.ensure_future(use())
    await asyncio.sleep(0)

    def settle() -> None:
        future.settle(7, None)
        assert seen == [7, True]

    asyncio.get_running_loop().call_soon(settle)
    await task
    assert seen == [7, True]


async def test_its_task_continues_in_its_own_context() -> None:
    future = _future()

    async def use() -> str:
        _name.set("of the task")
        await future
        return _name.get()

    task = asyncio.ensure_future(use())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(future.settle, None, None, context=copy_context())
    assert await task == "of the task"
    assert _name.get() == ""


async def test_an_exception_is_raised_in_its_task() -> None:
    future = _future()

    async def use() -> None:
        await future

    task = asyncio.ensure_future(use())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(future.settle, None, LookupError("none"))
    with pytest.raises(LookupError, match="none"):
        await task


async def test_a_cancelled_task_cancels_it() -> None:
    future = _future()

    async def use() -> None:
        await future

    task = asyncio.ensure_future(use())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert future.cancelled()


async def test_functions_of_asyncio_wait_for_it_as_for_any_future() -> None:
    future = _future()
    asyncio.get_running_loop().call_soon(future.settle, 3, None)
    assert await asyncio.wait_for(asyncio.shield(future), 60) == 3
    assert await future == 3
    late = list[Any]()
    future.add_done_callback(late.append)
    await asyncio.sleep(0)
    assert late == [future]


async def test_a_removed_callback_is_not_called() -> None:
    future, called = _future(), list[Any]()
    future.add_done_callback(called.append)
    assert future.remove_done_callback(called.append) == 1
    future.settle(1, None)
    await asyncio.sleep(0)
    assert called == []
