"""Coroutines run for synchronous code."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.django.running import run_and_wait


async def fail() -> None:
    raise ValueError("no luck")


def test_an_error_is_that_of_the_coroutine_alone() -> None:
    """A traceback that begins with "no running event loop" sends its reader to the wrong place."""
    with pytest.raises(ValueError, match="no luck") as caught:
        run_and_wait(fail())
    assert caught.value.__context__ is None


def test_a_thread_with_an_event_loop_is_refused() -> None:
    """It would wait for itself."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match="use the async method"):
            run_and_wait(fail())

    asyncio.run(main())
