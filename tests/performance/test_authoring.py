"""What dependencies, middleware and mounts add to a call, in Python calls; and what registering a tool costs."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest

from ferrule import Context, MCPServer
from ferrule.app.execution.dependencies import Depends
from tests.app.support import RecordingDispatch, call, text_of

pytestmark = pytest.mark.anyio

MAX_MORE_CALLS = 16
"""For one dependency, three middlewares and a mount of depth three: four or five each, and about 0.5 µs per call."""

MAX_CALLS_PER_TOOL = 120
"""Python calls to register one tool; a thousand of them take some 10 ms."""


async def passes(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    return await call_next(ctx)


def settings() -> str:
    return "s"


def nested(depth: int, **options: Any) -> tuple[MCPServer, str]:
    """A server with an echo at the bottom of ``depth`` mounts; and the echo's name at the top."""
    inner, name = MCPServer("bottom"), "echo"

    @inner.tool
    async def echo(text: str, ctx: Context, found: Annotated[str, Depends(settings)]) -> str:
        return text + found

    for level in range(depth):
        outer = MCPServer(f"level{level}", **(options if level == depth - 1 else {}))
        outer.mount(inner, prefix=f"p{level}")
        inner, name = outer, f"p{level}_{name}"
    return inner, name


def plain() -> tuple[MCPServer, str]:
    app = MCPServer("plain")

    @app.tool
    async def echo(text: str, ctx: Context) -> str:
        return text

    return app, "echo"


async def counted(app: MCPServer, name: str) -> int:
    """Python calls of one call, after the first one has made what is made once."""
    assert text_of(await call(app, name, {"text": "x"})).startswith("x")
    calls = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    dispatch = RecordingDispatch()
    sys.setprofile(profile)
    try:
        await call(app, name, {"text": "x"}, dispatch=dispatch)
    finally:
        sys.setprofile(None)
    return calls


async def test_dependencies_middleware_and_mounts_add_a_handful_of_calls():
    base = await counted(*plain())
    loaded = await counted(*nested(3, middleware=[passes, passes, passes]))
    assert base > 5, "the counter does not count"
    assert loaded - base <= MAX_MORE_CALLS


async def test_a_mounted_tool_costs_the_same_at_any_depth():
    assert len({await counted(*nested(depth)) for depth in (0, 1, 3, 6)}) == 1


def test_registering_is_cheap():
    app = MCPServer("many")

    def made(number: int) -> Any:
        async def tool(a: int, b: str = "x") -> str:
            """Do it."""
            return b

        tool.__name__ = f"tool_{number}"
        return tool

    functions = [made(number) for number in range(100)]
    calls = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        for function in functions:
            app.add_tool(function)
    finally:
        sys.setprofile(None)
    assert 100 < calls <= 100 * MAX_CALLS_PER_TOOL
