"""ferrule.client.groups.handlers: a handler that wants to know the server is told its name."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import ClientGroup, Context, MCPServer
from ferrule.client.groups.handlers import handlers_for


def make_app(name: str) -> MCPServer[Any]:
    """A server that logs and reports progress."""
    app = MCPServer(f"{name} calls itself so", logging=True)

    @app.tool
    async def talk(ctx: Context) -> str:
        """Talk."""
        await ctx.progress(1, 2, "half")
        await ctx.warning("careful")
        return "done"

    return app


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_logs_progress_and_notifications_with_the_name_in_the_configuration(mode: str) -> None:
    """What a server calls itself is its own choice."""
    logs: list[Any] = []
    progress: list[Any] = []
    messages: list[Any] = []

    def log(params: Any, server: str) -> None:
        logs.append((server, params.data))

    def progressed(done: float, total: float | None, message: str | None, server: str) -> None:
        progress.append((server, done))

    def message(method: str, params: Any, server: str) -> None:
        messages.append((server, method))

    on_progress: Any = progressed
    apps = {"a": make_app("x"), "b": make_app("y")}
    async with ClientGroup(
        apps, mode=mode, log_handler=log, progress_handler=on_progress, message_handler=message
    ) as group:
        await group.call_tool("a_talk")
        await group.call_tool("b_talk")
    assert logs == [("a", "careful"), ("b", "careful")]
    assert progress == [("a", 1), ("b", 1)]
    assert {each for each in messages if each[1] == "notifications/message"} == {
        ("a", "notifications/message"),
        ("b", "notifications/message"),
    }


def test_handlers_for_one_server_stay_as_they_are() -> None:
    """A further parameter with a default is not ours; one that cannot be inspected is called as before."""

    def log(params: Any) -> None: ...
    def message(method: str, params: Any, depth: int = 0) -> None: ...

    options: Any = {"log_handler": log, "message_handler": message, "progress_handler": print, "mode": "auto"}
    assert handlers_for("a", options) == options
