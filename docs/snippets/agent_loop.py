"""The loop of an agent over several servers, with a script in place of the model."""

from __future__ import annotations

# --8<-- [start:loop]
from collections.abc import Callable
from typing import Any

from ferrule import ClientGroup

Model = Callable[[list[Any], list[Any]], dict[str, Any]]


async def run_agent(group: ClientGroup, model: Model, task: str) -> list[Any]:
    """Let a model work with the tools of all servers until it calls none; return the conversation."""
    tools = await group.tools_for("anthropic")
    messages: list[Any] = [{"role": "user", "content": task}]
    while True:
        response = model(messages, tools)  # for instance anthropic.Anthropic().messages.create(…)
        messages.append({"role": "assistant", "content": response["content"]})
        results = await group.answer(response)
        if not results:
            return messages
        messages += results


# --8<-- [end:loop]


# --8<-- [start:script]
def scripted(*turns: list[tuple[str, dict[str, Any]]]) -> Model:
    """A stand-in for a model: in each turn it calls these tools, and at last it says that it is done."""
    rest = list(turns)

    def model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        calls = rest.pop(0) if rest else []
        offered = {tool["name"] for tool in tools}
        assert all(name in offered for name, _ in calls), f"no such tool: {calls}"
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": f"call_{len(messages)}_{number}", "name": name, "input": arguments}
            for number, (name, arguments) in enumerate(calls)
        ]
        return {
            "role": "assistant",
            "content": content or [{"type": "text", "text": "Done."}],
            "stop_reason": "tool_use" if calls else "end_turn",
        }

    return model


# --8<-- [end:script]

# --8<-- [start:test]
from ferrule import Context, MCPServer
from ferrule.testing import calls_of

notes, stock = MCPServer("notes"), MCPServer("stock")


@notes.tool
def add_note(title: str) -> str:
    """Keep a note."""
    return f"kept {title}"


@stock.tool
async def reserve(part: str, ctx: Context) -> str:
    """Reserve a part, if the user agrees."""
    return f"{part} is reserved" if await ctx.confirm(f"Reserve {part}?") else "not reserved"


async def test_the_agent(mode: str) -> None:
    model = scripted([("stock_reserve", {"part": "bolt"})], [("notes_add_note", {"title": "bolt"})])
    servers = {"notes": notes, "stock": stock}
    with calls_of(stock) as calls:
        async with ClientGroup(servers, mode=mode, elicitation_handler=lambda params: {"confirm": True}) as group:
            messages = await run_agent(group, model, "Get me a bolt.")
    calls.assert_exactly("reserve")
    assert "bolt is reserved" in str(messages)
    assert "kept bolt" in str(messages)


# --8<-- [end:test]


async def check(mode: str) -> None:
    """In both eras; a model that calls what is not there is noticed."""
    import pytest

    await test_the_agent(mode)
    async with ClientGroup({"notes": notes}, mode=mode) as group:
        with pytest.raises(AssertionError, match="no such tool"):
            await run_agent(group, scripted([("notes_burn", {})]), "Burn them.")
