"""An agent inside a tool: the server borrows its client's model (sampling) and lets it use the server's own tools.

The loop is the usual one: ask the model, run the tools that it requests, send it their results, until it answers. The
server has no key for any model; the client pays and decides. Here the model is a fake of a few lines that runs
anywhere.
Sampling with tools exists since 2025-11-25; 2026-07-28 serves it as a round of the call and calls it deprecated.

python examples/agent.py                          shows it in both eras
python examples/agent.py stdio                    serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

from typing import Any

from ferrule import Client, Context, MCPServer
from ferrule.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    ToolContentBlock,
    text_block,
    tool_result_block,
    tool_use_block,
)

app = MCPServer("agent", version="1.0")

MAX_TURNS = 5
PARTS = {"ring": 240, "cap": 90, "rod": 15}


@app.tool(tags=["for-the-agent"])
async def in_stock(part: str) -> int:
    """How many of a part are in stock."""
    return PARTS[part]


@app.tool
async def ask_the_clerk(question: str, ctx: Context) -> str:
    """Answer a question about the stock."""
    tools = [tool.definition() for tool in app.tools.index if "for-the-agent" in tool.tags]
    messages = [SamplingMessage("user", text_block(question))]
    for _ in range(MAX_TURNS):  # bounded: a model may request tools for ever
        said = await ctx.sample(messages, system_prompt="You are a clerk.", tools=tools, max_tokens=500)
        if said.stop_reason != "toolUse":
            return said.text
        blocks = said.content if isinstance(said.content, list) else [said.content]
        messages.append(SamplingMessage("assistant", blocks))
        messages.append(
            SamplingMessage("user", [await use(block, ctx) for block in blocks if block.type == "tool_use"])
        )
    return "The clerk is still thinking; ask something simpler."


async def use(block: ToolContentBlock, ctx: Context) -> ToolContentBlock:
    """Run one tool for the model; what goes wrong is an answer, too."""
    if block.name != "in_stock":
        return tool_result_block(block.id or "", [text_block("There is no such tool")], is_error=True)
    result = await ctx.call_tool(block.name, block.input)
    return tool_result_block(block.id or "", result.content, is_error=result.is_error)


def fake_model(params: CreateMessageRequestParams) -> CreateMessageResult:
    """First wants the stock of every part that the question names, then adds up the results."""
    last: Any = params.messages[-1].content
    if isinstance(last, ToolContentBlock):
        wanted = [part for part in PARTS if part in (last.text or "")]
        uses = [tool_use_block(f"call-{n}", "in_stock", {"part": part}) for n, part in enumerate(wanted)]
        return CreateMessageResult(role="assistant", content=uses, model="fake", stop_reason="toolUse")
    numbers = [int(block.content[0].text) for block in last]
    said = text_block(f"{' + '.join(map(str, numbers))} = {sum(numbers)} pieces")
    return CreateMessageResult(role="assistant", content=said, model="fake", stop_reason="endTurn")


async def show(client: Client) -> None:
    """One question, two turns of the model, two uses of a tool."""
    result = await client.call_tool("ask_the_clerk", {"question": "How many rings and caps are there?"})
    print(f"  {result.text}")


if __name__ == "__main__":
    import warnings

    from showing import main

    from ferrule.protocol.deprecations import ProtocolDeprecationWarning

    warnings.simplefilter("ignore", ProtocolDeprecationWarning)  # said above
    main(app, show, sampling_handler=fake_model, sampling_tools=True)
