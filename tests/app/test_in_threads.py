"""A sync function and the methods of its context: those without a result work; those with one raise with advice."""

# pyright: reportUnusedCoroutine=false
from __future__ import annotations

import gc
import logging
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_method_without_a_result_is_called_directly(mode: str, any_backend: str) -> None:
    """In order, and before the next line of the function; through ``from_thread`` it works as before."""
    app: MCPServer[Any] = MCPServer("threads", mask_errors=False)

    @app.tool
    def tell(ctx: Context) -> str:
        ctx.info("one")
        ctx.from_thread(ctx.info, "two")
        ctx.log("warning", "three")
        ctx.progress(1, 2, "half")
        ctx.notify_tools_changed()
        ctx.set_status("well")
        return "told"

    told: list[Any] = []
    async with Client(
        app,
        mode=mode,
        log_handler=lambda params: told.append(params.data),
        progress_handler=lambda *progress: told.append(progress),
    ) as client:
        assert (await client.call_tool("tell")).text == "told"
    assert told == ["one", "two", "three", (1, 2, "half")]


async def test_in_an_async_function_they_are_what_they_were() -> None:
    """They are coroutines, which a function may gather."""
    app: MCPServer[Any] = MCPServer("loop", mask_errors=False)

    @app.tool
    async def tell(ctx: Context) -> str:
        await ctx.info("one")
        await ctx.gather(ctx.info("two"), ctx.info("three"))
        return "told"

    told: list[Any] = []
    async with Client(app, log_handler=lambda params: told.append(params.data)) as client:
        assert (await client.call_tool("tell")).text == "told"
    assert told == ["one", "two", "three"]


async def test_a_result_that_is_not_there_yet_raises_with_advice(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the error of a result that was never used."""
    app: MCPServer[Any] = MCPServer("threads", mask_errors=False)

    @app.tool
    def use(ctx: Context) -> str:
        return str(ctx.elicit("Name?", str).data)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    @app.tool
    def judge(ctx: Context) -> str:
        return "yes" if ctx.roots() else "no"

    @app.tool
    def forget(ctx: Context) -> str:
        ctx.step("effect", lambda: 1)
        return "no"

    @app.tool
    def right(ctx: Context) -> str:
        first, second = ctx.from_thread(ctx.gather, ctx.elicit("1?", str), ctx.elicit("2?", str))
        return f"{first.data} {second.data}"

    async with Client(app, elicitation_handler=lambda params: {"value": params.message}, roots=["file:///a"]) as client:
        for tool, method in (("use", "elicit"), ("judge", "roots")):
            assert f"write ctx.from_thread(ctx.{method}, …)" in (await client.call_tool(tool)).text
        with caplog.at_level(logging.ERROR, "ferrule.app"):
            await client.call_tool("forget")
            gc.collect()
        assert "write ctx.from_thread(ctx.step, …)" in caplog.text
        assert (await client.call_tool("right")).text == "1? 2?"
