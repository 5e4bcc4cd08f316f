"""What a call that goes through rounds costs, in Python calls and tasks; a round waits for passes of the loop."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from ferrule import Context
from tests.app.rounds.driving import Call, accept, served

pytestmark = pytest.mark.anyio

MAX_CALLS = 650
"""Our own, for three rounds of two questions; five standstills of `QUIET_PASSES` passes are 40 of them."""


def asking() -> Any:
    app = served()

    @app.tool
    async def body(ctx: Context) -> str:
        first = await ctx.elicit("How many?", int)
        second = await ctx.elicit("And then?", int)
        return f"{first.data} {second.data}"

    return app


async def three_rounds(app: Any) -> None:
    call = await Call(app).send()
    for number in (1, 2):
        await call.reply(accept(number))
    assert call.result["content"][0]["text"] == "1 2"


async def test_three_rounds_are_so_many_calls():
    app = asking()
    await three_rounds(app)
    calls = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_globals.get("__name__", "").startswith("ferrule.")

    sys.setprofile(profile)
    try:
        await three_rounds(app)
    finally:
        sys.setprofile(None)
    assert 300 < calls <= MAX_CALLS


async def test_a_round_starts_no_task():
    """One task costs more than counting a standstill."""
    app, loop = asking(), asyncio.get_running_loop()
    made: list[Any] = []

    def factory(running: Any, coroutine: Any, **options: Any) -> Any:
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=running, **options)

    loop.set_task_factory(factory)
    try:
        await three_rounds(app)
        assert made == []
        await loop.create_task(asyncio.sleep(0))
        assert made, "the counter does not count"
    finally:
        loop.set_task_factory(None)
