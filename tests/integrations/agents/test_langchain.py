"""LangChain's agents over tools of MCP servers."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any

import pytest

from ferrule import ClientGroup
from tests.integrations.agents.servers import make_server

pytest.importorskip("langchain_core")

from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from ferrule.integrations.agents.langchain import to_langchain_tools

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def anyio_backend() -> str:
    """LangChain runs on asyncio."""
    return "asyncio"


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call as a model's message has it."""
    return {"name": name, "args": arguments, "id": f"id-{name}", "type": "tool_call"}


async def test_results_and_errors_are_messages() -> None:
    """Text as text, an image as a block, a failure with its status; also an argument that LangChain uses itself."""
    async with ClientGroup({"c": make_server()}) as group:
        tools = {tool.name: tool for tool in await to_langchain_tools(group)}
        added = await tools["c_add"].ainvoke(call("c_add", {"a": 40}))
        assert isinstance(added, ToolMessage)
        assert (added.content, added.status, added.tool_call_id) == ("42", "success", "id-c_add")
        assert added.artifact.status == "done"
        seen = await tools["c_picture"].ainvoke(call("c_picture", {}))
        assert seen.content == [{"type": "image", "base64": "iVBORw0K", "mime_type": "image/png"}]
        failed = await tools["c_fail"].ainvoke(call("c_fail", {"config": "luck"}))
        assert (failed.content, failed.status) == ("no luck", "error")
        with pytest.raises(NotImplementedError, match="ainvoke"):
            tools["c_add"].invoke({"a": 1})


async def test_the_definitions_are_the_bridges() -> None:
    """LangChain passes schema and description on."""
    async with ClientGroup({"c": make_server()}) as group:
        tools = await to_langchain_tools(group)
        made = [convert_to_openai_tool(tool)["function"] for tool in tools]
    add = next(each for each in made if each["name"] == "c_add")
    assert add["description"] == "Add two numbers."
    assert add["parameters"]["required"] == ["a"]


class Model(FakeMessagesListChatModel):
    """A model that says what was recorded."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Remember nothing."""
        return self


async def test_an_agent_calls_them() -> None:
    """LangChain's own loop, with the approval of Ferrule."""
    pytest.importorskip("langchain")
    from langchain.agents import create_agent

    model = Model(
        responses=[
            AIMessage("", tool_calls=[call("c_add", {"a": 1}), call("c_fail", {"config": "x"})]),
            AIMessage("It is 3."),
        ]
    )
    async with ClientGroup({"c": make_server()}) as group:
        tools = await to_langchain_tools(group, approve=lambda use: use.name != "c_fail")
        done = await create_agent(model, tools).ainvoke({"messages": [("user", "1 + 2?")]})
    texts = {message.name: message.content for message in done["messages"] if isinstance(message, ToolMessage)}
    assert texts == {"c_add": "3", "c_fail": "The user did not allow this call"}
    assert done["messages"][-1].content == "It is 3."
