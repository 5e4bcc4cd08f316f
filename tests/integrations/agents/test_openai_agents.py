"""The agents of OpenAI's Agents SDK over tools of MCP servers, with a stub of the Responses API."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import pytest

from ferrule import ClientGroup
from tests.client.bridges.recorded import RESPONSES
from tests.integrations.agents.servers import make_server, stub_of

pytest.importorskip("agents", reason="no package openai-agents")
pytest.importorskip("agents.tool", reason="no package openai-agents")

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI

from ferrule.integrations.agents.openai_agents import to_function_tools

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def anyio_backend() -> str:
    """The SDK runs on asyncio."""
    return "asyncio"


def finished(text: str) -> dict[str, Any]:
    """A response with the last message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    return {**RESPONSES["openai"](), "output": [message]}


@pytest.mark.parametrize("strict", [False, True])
async def test_an_agent_calls_them(strict: bool) -> None:
    """Text, an image, a failure and malformed arguments, each in its place."""
    calls = RESPONSES["openai"](
        ("1", "c_add", {"a": 40, "b": None} if strict else {"a": 40}),
        ("2", "c_picture", {}),
        ("3", "c_fail", {"config": "luck"}),
        ("4", "c_add", "[1]"),
    )
    with stub_of(calls, finished("done")) as stub:
        model = OpenAIResponsesModel("gpt-5.6", AsyncOpenAI(api_key="none", base_url=f"{stub.url}/v1", max_retries=0))
        async with ClientGroup({"c": make_server()}) as group:
            agent = Agent(name="a", model=model, tools=list(await to_function_tools(group, strict=strict)))
            result = await Runner.run(agent, "what?", run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "done"
    sent = stub.requests[0][1]["tools"]
    assert [(tool["name"], tool["strict"]) for tool in sent] == [
        ("c_add", strict),
        ("c_fail", strict),
        ("c_picture", strict),
    ]
    outputs = {
        item["call_id"]: item["output"]
        for item in stub.requests[1][1]["input"]
        if item.get("type") == "function_call_output"
    }
    assert outputs["1"] == "42"
    assert outputs["2"][0]["image_url"] == "data:image/png;base64,iVBORw0K"
    assert outputs["3"] == "Error: no luck"
    assert outputs["4"].startswith("Error: ")
