"""Pydantic AI's agents over tools of MCP servers."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import pytest

from ferrule import ClientGroup
from tests.integrations.agents.servers import make_server

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ferrule.integrations.agents.pydantic_ai import MCPServerTools

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def anyio_backend() -> str:
    """Pydantic AI runs on asyncio."""
    return "asyncio"


async def test_an_agent_calls_them() -> None:
    """Text, an image, a failure and a refusal, each in its place."""
    seen: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        if len(seen) == 1:
            return ModelResponse(
                parts=[
                    ToolCallPart("c_add", {"a": 40}, "1"),
                    ToolCallPart("c_picture", "{}", "2"),
                    ToolCallPart("c_fail", {"config": "luck"}, "3"),
                    ToolCallPart("c_add", {"a": 13}, "4"),
                ]
            )
        return ModelResponse(parts=[TextPart("done")])

    async with ClientGroup({"c": make_server()}) as group:
        toolset = MCPServerTools(group, id="mcp", approve=lambda use: use.arguments.get("a") != 13 or "Not 13")
        agent = Agent(FunctionModel(model), toolsets=[toolset])
        result = await agent.run("what?")
    assert result.output == "done"
    tools = {tool.name: tool for tool in seen[0].function_tools}
    assert sorted(tools) == ["c_add", "c_fail", "c_picture"]
    assert tools["c_add"].description == "Add two numbers."
    assert tools["c_add"].parameters_json_schema["required"] == ["a"]
    returned = {
        part.tool_call_id: part
        for message in result.all_messages()
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    assert returned["1"].content == "42"
    pictures = returned["2"].content
    picture = pictures[0] if isinstance(pictures, list) else pictures
    assert isinstance(picture, BinaryContent)
    assert picture.data == b"\x89PNG\r\n"
    assert (returned["3"].outcome, returned["3"].content) == ("failed", "no luck")
    assert (returned["4"].outcome, returned["4"].content) == ("failed", "Not 13")
