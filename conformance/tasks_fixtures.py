"""The fixtures of the suite's ``tasks-*`` scenarios, written as an author would: functions with ``task=``.

Hooked into ``conformance/server.py`` with one line: ``install(server, TOOLS)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from ferrule import Context, MCPError, MCPServer, ToolError
from ferrule.app.tools import ToolComponent
from ferrule.extensions.tasks import Tasks
from ferrule.kernel.context import ServerRequestContext
from ferrule.kernel.server import Server
from ferrule.stores.store import Store
from ferrule.wire.codec import to_builtins

Ctx = ServerRequestContext[Any]
Tool = Callable[[Ctx, Mapping[str, Any]], Awaitable[dict[str, Any]]]

POLL_INTERVAL_MS = 100
JOB_S = 1.0


async def greet(name: str) -> str:
    """Answers at once."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Computes for some seconds."""
    await anyio.sleep(seconds)
    return f"{label} done after {seconds:g} s"


async def failing_job() -> str:
    """Fails after a second, as a tool does."""
    await anyio.sleep(JOB_S)
    raise ToolError("The job failed")


async def protocol_error_job() -> str:
    """Fails as a protocol does."""
    await anyio.sleep(JOB_S / 5)
    raise MCPError("The job broke the protocol", code=-32603)


async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it deletes."""
    answer = await ctx.elicit(
        f"Delete {filename}?",
        {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]},
        key="confirm",
    )
    return f"{'Deleted' if (answer.data or {}).get('confirm') else 'Kept'} {filename}"


async def multi_input(ctx: Context) -> str:
    """Asks two things at once."""
    form = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
    first, second = await ctx.gather(ctx.elicit("First?", form), ctx.elicit("Second?", form))
    return f"first {first.action}, second {second.action}"


async def test_tool_with_task(ctx: Context) -> str:
    """Asks for a name as a round of the call, then becomes a task."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = await ctx.elicit("What is your name?", form, key="user_name")
    await ctx.begin_task()
    await anyio.sleep(JOB_S / 5)
    return f"Hello, {(answer.data or {}).get('name', 'nobody')}!"


def install(server: Server[Any], tools: dict[str, tuple[dict[str, Any], Tool]], store: Store | None = None) -> Tasks:
    """Put the extension and its tools on the server under test."""
    tasks = Tasks(poll_interval_ms=POLL_INTERVAL_MS, store=None if store is None else store.tasks)
    app = MCPServer("tasks", extensions=[tasks])
    app.add_tool(greet, structured=False)
    for function in (slow_compute, confirm_delete, multi_input):
        app.add_tool(function, structured=False, task="optional")
    for function in (failing_job, protocol_error_job):
        app.add_tool(function, structured=False, task="required")
    app.add_tool(test_tool_with_task, structured=False, task="required", task_after_s=None)
    tasks.install(server)
    for component in app.tools.index:
        tools[component.name] = (to_builtins(component.definition()), _served(component))
    return tasks


def _served(component: ToolComponent) -> Tool:
    async def call(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = await component.run(ctx, dict(arguments))
        return result

    return call
