"""A server as it was written on the low-level ``Server`` of ``mcp`` 1.x."""

import asyncio
import sys
from enum import Enum

import mcp.server.stdio
import mcp.types as types
from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

server = Server("low", version="1.2")
levels = []
heard = []


class Names(str, Enum):  # noqa: UP042 - as servers wrote it
    ECHO = "echo"


@server.list_tools()
async def handle_list_tools() -> list[types.Tool]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return [
        types.Tool(name=Names.ECHO, description="Say it again.", inputSchema=schema),
        types.Tool(name="data", inputSchema={"type": "object"}, outputSchema={"type": "object", "required": ["a"]}),
        types.Tool(name="changed", inputSchema={"type": "object"}),
        types.Tool(name="asked", inputSchema={"type": "object"}),
        types.Tool(name="about", inputSchema={"type": "object"}),
    ]


@server.call_tool()
async def handle_call_tool(name: str, arguments: dict | None):
    session = server.request_context.session
    if name == "echo":
        return [types.TextContent(type="text", text=arguments["text"])]
    if name == "data":
        return {"a": 1}
    if name == "changed":
        await session.send_tool_list_changed()
        await session.send_resource_updated(AnyUrl("memo://one"))
        return [
            types.EmbeddedResource(type="resource", resource=types.TextResourceContents(uri="memo://one", text="x"))
        ]
    if name == "asked":
        answer = await session.elicit("Sure?", {"type": "object", "properties": {"yes": {"type": "boolean"}}})
        return [types.TextContent(type="text", text=f"{answer.action} {answer.content}")]
    if name == "about":
        wanted = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        text = f"{session.client_params.clientInfo.name} {session.check_client_capability(wanted)} {levels}"
        return [types.TextContent(type="text", text=text)]
    if name in ("letters", "items"):
        return "abc" if name == "letters" else [types.TextContent(type="text", text="x"), 5]
    if name == "heard":
        return [types.TextContent(type="text", text=" ".join(heard))]
    raise ValueError(f"Unknown tool: {name}")


@server.list_resources()
async def handle_list_resources() -> list[types.Resource]:
    return [types.Resource(uri=AnyUrl("memo://one"), name="One", mimeType="text/plain")]


@server.read_resource()
async def handle_read_resource(uri: AnyUrl) -> str:
    if uri.scheme != "memo":
        raise McpError(types.ErrorData(code=-32050, message="No such scheme", data={"scheme": uri.scheme}))
    return f"memo of {str(uri).removeprefix('memo://')}"


@server.list_prompts()
async def handle_list_prompts(request: types.ListPromptsRequest) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="topic", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="ask", arguments=[argument])])


@server.get_prompt()
async def handle_get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=arguments["topic"]))
    return types.GetPromptResult(description="A question", messages=[message])


@server.completion()
async def handle_completion(ref, argument, context):
    return types.Completion(values=[argument.value + "!"])


@server.set_logging_level()
async def handle_level(level: types.LoggingLevel) -> None:
    levels.append(level)


@server.subscribe_resource()
async def handle_subscribe(uri: AnyUrl) -> None:
    heard.append(f"subscribe {uri}")


@server.unsubscribe_resource()
async def handle_unsubscribe(uri: AnyUrl) -> None:
    heard.append(f"unsubscribe {uri}")


async def handle_initialized(notification: types.InitializedNotification) -> None:
    heard.append("initialized")


async def handle_roots(notification: types.RootsListChangedNotification) -> None:
    heard.append("roots")


server.notification_handlers[types.InitializedNotification] = handle_initialized
server.notification_handlers[types.RootsListChangedNotification] = handle_roots


def sse(port: int) -> None:
    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")

    async def handle_sse(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())
        return Response()

    routes = [Route("/sse", endpoint=handle_sse), Mount("/messages/", app=transport.handle_post_message)]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning")


def http(port: int) -> None:
    from contextlib import asynccontextmanager

    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(app=server, event_store=None, json_response=False)

    async def handle(scope, receive, send):
        await manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def lifespan(app):
        async with manager.run():
            yield

    uvicorn.run(Starlette(routes=[Mount("/mcp", app=handle)], lifespan=lifespan), port=port, log_level="warning")


async def main(stdout=None):
    async with mcp.server.stdio.stdio_server(stdout=stdout) as (read_stream, write_stream):
        options = InitializationOptions(
            server_name="low",
            server_version="1.2",
            capabilities=server.get_capabilities(
                notification_options=NotificationOptions(tools_changed=True), experimental_capabilities={"x": {}}
            ),
        )
        assert "capabilities" in InitializationOptions.model_fields
        await server.run(read_stream, write_stream, options)


if __name__ == "__main__":
    if sys.argv[1:] == ["guarded"]:
        import os

        import anyio

        own = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        os.write(1, b"noise\n")
        asyncio.run(main(anyio.wrap_file(own)))
    elif len(sys.argv) > 1:
        {"sse": sse, "http": http}[sys.argv[1]](int(sys.argv[2]))
    else:
        asyncio.run(main())
