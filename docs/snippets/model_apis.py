"""The tools of servers for the API of a model, and the answers to its calls."""

import json
from typing import Any

# --8<-- [start:approve]
from ferrule.bridges import ToolUse


def allow(use: ToolUse) -> bool | str:
    """Let tools be called that only read; say to the model why others are not."""
    annotations = use.tool.annotations
    return bool(annotations and annotations.read_only_hint) or f"{use.name} may change something"


# --8<-- [end:approve]
from ferrule import Client, Context, MCPServer

docs = MCPServer("docs")


@docs.tool(annotations={"readOnlyHint": True})
def search(words: str, limit: int = 3) -> str:
    """Search the pages."""
    return f"{limit} pages about {words}"


@docs.tool
def delete(page: str) -> str:
    """Delete a page."""
    return f"{page} is gone"


@docs.tool
async def summary(page: str, ctx: Context) -> str:
    """Have a page summed up by the model of the client."""
    return (await ctx.sample(f"Sum up {page}", max_tokens=100)).text


# --8<-- [start:sampling]
from ferrule.bridges import sample_with


async def create(**request: Any) -> dict[str, Any]:
    """In a program of yours: ``AsyncAnthropic().messages.create``."""
    assert request["messages"][0]["role"] == "user"
    return {"role": "assistant", "model": "claude", "content": [{"type": "text", "text": "Short."}]}


client = Client(docs, sampling_handler=sample_with("anthropic", create, model="claude-opus-5", max_tokens=500))
# --8<-- [end:sampling]


async def check(mode: str) -> None:
    """In both eras."""
    import warnings

    from ferrule.protocol.deprecations import ProtocolDeprecationWarning

    warnings.simplefilter("ignore", ProtocolDeprecationWarning)
    async with Client(docs, mode=mode, sampling_handler=sample_with("anthropic", create, model="claude")) as client:
        tools = await client.tools_for("openai-chat")
        assert [tool["function"]["name"] for tool in tools] == ["delete", "search", "summary"]
        calls = [
            {"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for name, arguments in (("search", {"words": "brass"}), ("delete", {"page": "a"}))
        ]
        answer = await client.answer({"role": "assistant", "tool_calls": calls}, approve=allow)
        assert [message["content"] for message in answer] == [
            "3 pages about brass",
            "Error: delete may change something",
        ]
        assert (await client.call_tool("summary", {"page": "a"})).text == "Short."
