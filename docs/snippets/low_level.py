"""The registry without decorators."""

# --8<-- [start:code]
from ferrule import Client, Server
from ferrule.types import ListToolsResult, Tool, ToolResult, text_block

server = Server("raw", version="1.0")


@server.request("tools/list")
async def list_tools(ctx) -> ListToolsResult:
    """`ctx.params` is typed by the specification; the result is checked against it."""
    return ListToolsResult([Tool("echo", input_schema={"type": "object", "properties": {"text": {"type": "string"}}})])


@server.request("tools/call")
async def call_tool(ctx) -> ToolResult:
    return ToolResult([text_block(ctx.params.arguments["text"])])


@server.request("example.com/when")
async def when(ctx) -> dict:
    """A method of your own: raw params, unless `params_type=` names a class."""
    return {"revision": ctx.protocol_version}


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule import MCPError

    async with Client(server, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["echo"]
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        assert (await client.request("example.com/when"))["revision"] == client.protocol_version
        with pytest.raises(MCPError, match=r"The server offers no prompts \[-32601\]"):
            await client.list_prompts()
