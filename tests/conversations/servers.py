"""The servers that the conversation files talk to, written on the kernel so that no layer above can hide a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.caching import CacheHint
from ferrule.protocol.errors import InvalidParams, MCPError, RequestTimeout, ResourceNotFound
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.wire.headers import compile_param_plan

Ctx = ServerRequestContext[Any]

TOOLS = [
    {
        "name": "echo",
        "description": "Give the text back.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    {"name": "scale", "title": "Scale", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
]


def default() -> Server[Any]:
    """Serves every method that any revision has, each in the shortest way that shows something."""
    server: Server[Any] = Server(
        "workshop",
        version="1.0",
        instructions="Ask for metal.",
        logging=True,
        list_changed=["tools", "prompts", "resources"],
        resource_updates=True,
        cache_hints={"tools/list": CacheHint(ttl_ms=1000, scope="public")},
    )
    for method, handler in HANDLERS.items():
        server.add_request_handler(method, handler)
    return server


def regional() -> Server[Any]:
    """A tool whose arguments are mirrored in headers."""
    server: Server[Any] = Server("regional", version="1.0")

    async def call(ctx: Ctx) -> Any:
        return text("served")

    server.add_request_handler("tools/call", call)
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    }
    server.attachments.made(MirroredHeaders).params["cut"] = compile_param_plan(
        {"type": "object", "properties": properties}
    )
    return server


def bare() -> Server[Any]:
    """Serves nothing but what every server does."""
    return Server("bare", version="1.0")


TASK = {
    "taskId": "t-1",
    "status": "working",
    "createdAt": "2025-11-25T10:00:00Z",
    "lastUpdatedAt": "2025-11-25T10:00:00Z",
    "ttl": 60000,
}


def tasks() -> Server[Any]:
    """Serves the tasks of revision 2025-11-25 by hand."""
    server: Server[Any] = Server("tasks", version="1.0")

    async def get(ctx: Ctx) -> Any:
        if ctx.params.task_id != "t-1":
            raise InvalidParams("Unknown task")
        return TASK

    async def list_all(ctx: Ctx) -> Any:
        return {"tasks": [TASK]}

    async def result(ctx: Ctx) -> Any:
        return text("done", _meta={"io.modelcontextprotocol/related-task": {"taskId": "t-1"}})

    async def cancel(ctx: Ctx) -> Any:
        await ctx.session.notify("notifications/tasks/status", {**TASK, "status": "cancelled"})
        return {**TASK, "status": "cancelled"}

    for method, handler in {
        "tasks/get": get,
        "tasks/list": list_all,
        "tasks/result": result,
        "tasks/cancel": cancel,
    }.items():
        server.add_request_handler(method, handler)
    return server


async def list_tools(ctx: Ctx) -> Any:
    if ctx.params.cursor == "page-2":
        return {"tools": TOOLS[1:]}
    if isinstance(ctx.params.cursor, str):
        raise InvalidParams("Unknown cursor")
    return {"tools": TOOLS[:1], "nextCursor": "page-2"}


async def call_tool(ctx: Ctx) -> Any:
    tool = TOOL_BODIES.get(ctx.params.name)
    if tool is None:
        raise InvalidParams("Unknown tool", data={"name": ctx.params.name})
    arguments = ctx.params.arguments
    return await tool(ctx, arguments if isinstance(arguments, dict) else {})


def text(value: str, **more: Any) -> dict[str, Any]:
    """A tool result of one text."""
    return {"content": [{"type": "text", "text": value}], **more}


async def echo(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    return text(arguments["text"])


async def scale(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    return text('{"kg":2}', structuredContent={"kg": 2})


async def fail(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    return text("no metal", isError=True)


async def crash(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    raise RuntimeError("a secret of the server")


async def own_error(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    raise MCPError("Out of metal", code=7, data={"metal": "brass"})


async def saw(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    for step in (1, 2):
        await ctx.session.progress(step, total=2, message=f"pass {step}")
    return text("cut")


async def talk(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    await ctx.session.log("info", {"step": 1}, logger="saw")
    await ctx.session.log("error", "blunt")
    return text("said")


async def hang(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    await anyio.sleep_forever()


async def ask_user(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    answer = await ctx.session.elicit("Who are you?", schema)
    return text(f"{answer.action}: {answer.content['name'] if isinstance(answer.content, dict) else 'nobody'}")


async def ask_model(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    answer = await ctx.session.send_request(
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5},
    )
    return text(answer["content"]["text"])


async def ask_roots(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    answer = await ctx.session.list_roots()
    return text(str(len(answer.roots)))


async def ask_in_vain(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    try:
        await ctx.session.send_request("roots/list", None, {"timeout_s": 0.02})
    except RequestTimeout:
        return text("nobody answered")
    return text("answered")


async def finish_elicitation(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    await ctx.session.notify("notifications/elicitation/complete", {"elicitationId": "e-1"})
    return text("told")


async def change_lists(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    for kind in ("tools", "prompts", "resources"):
        ctx.server.bus.publish(Event.list_changed(kind))
    ctx.server.bus.publish(Event.resource_updated("metal://brass"))
    return text("changed")


async def want_input(ctx: Ctx, arguments: dict[str, Any]) -> Any:
    answers = ctx.params.input_responses
    if isinstance(answers, dict) and "who" in answers:
        return text(f"hello, state {ctx.params.request_state}")
    return {
        "resultType": "input_required",
        "requestState": "sealed",
        "inputRequests": {
            "who": {
                "method": "elicitation/create",
                "params": {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
            }
        },
    }


TOOL_BODIES: dict[str, Callable[[Ctx, dict[str, Any]], Any]] = {
    "echo": echo,
    "scale": scale,
    "fail": fail,
    "crash": crash,
    "own-error": own_error,
    "saw": saw,
    "talk": talk,
    "hang": hang,
    "ask-user": ask_user,
    "ask-model": ask_model,
    "ask-roots": ask_roots,
    "change": change_lists,
    "ask-in-vain": ask_in_vain,
    "finish-elicitation": finish_elicitation,
    "want-input": want_input,
}


async def list_resources(ctx: Ctx) -> Any:
    return {"resources": [{"uri": "metal://brass", "name": "brass", "mimeType": "text/plain"}]}


async def list_templates(ctx: Ctx) -> Any:
    return {"resourceTemplates": [{"uriTemplate": "metal://{name}", "name": "metal"}]}


async def read_resource(ctx: Ctx) -> Any:
    if ctx.params.uri != "metal://brass":
        raise ResourceNotFound(ctx.params.uri, code=ctx.revision.missing_resource_code)
    return {"contents": [{"uri": "metal://brass", "mimeType": "text/plain", "text": "yellow"}]}


async def list_prompts(ctx: Ctx) -> Any:
    return {"prompts": [{"name": "order", "arguments": [{"name": "metal", "required": True}]}]}


async def get_prompt(ctx: Ctx) -> Any:
    arguments = ctx.params.arguments
    metal = arguments["metal"] if isinstance(arguments, dict) else "metal"
    return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Order {metal}."}}]}


async def complete(ctx: Ctx) -> Any:
    return {"completion": {"values": ["brass", "bronze"], "total": 2, "hasMore": False}}


HANDLERS: dict[str, Callable[[Ctx], Any]] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": complete,
}

SERVERS: dict[str, Callable[[], Server[Any]]] = {"default": default, "bare": bare, "regional": regional, "tasks": tasks}
"""The words of the ``server:`` line in a file's head."""
