"""Tools of MCP servers as LangChain tools, for LangGraph's and LangChain's agents.

Needs ``langchain-core`` 1.0 or later. The tools are asynchronous: use ``agent.ainvoke`` and ``tool.ainvoke``.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Unpack

from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr

from ferrule.bridges import AnswerOptions, ApiName, CallOutcome, Media, ToolBridge, ToolEntry, ToolSource, plain_text

__all__ = ["MCPTool", "to_langchain_tools"]


class MCPTool(BaseTool):  # type: ignore[misc,unused-ignore]  # untyped where it is not installed
    """A tool of an MCP server. Its result is text, or content blocks in LangChain's form; the artifact of the message
    is the `ferrule.bridges.CallOutcome`. A failed call is a message with the status ``error``."""

    response_format: str = "content_and_artifact"
    handle_tool_error: bool = True
    _bridge: ToolBridge = PrivateAttr()
    _options: AnswerOptions = PrivateAttr()

    def __init__(self, bridge: ToolBridge, entry: ToolEntry, options: AnswerOptions) -> None:
        super().__init__(
            name=entry.name,
            description=entry.description or entry.name,
            args_schema=entry.schema,
            metadata={"mcp_server": entry.server},
        )
        self._bridge, self._options = bridge, options

    async def _arun(self, /, **arguments: Any) -> tuple[Any, CallOutcome]:
        outcome = await self._bridge.call(self.name, arguments, **self._options)
        if outcome.is_error:
            raise ToolException(plain_text(outcome.parts))
        return _content(outcome), outcome

    def _run(self, /, **arguments: Any) -> Any:
        raise NotImplementedError("Tools of MCP servers are asynchronous: use ainvoke")


async def to_langchain_tools(
    source: ToolSource, api: ApiName = "openai-chat", **options: Unpack[AnswerOptions]
) -> list[MCPTool]:
    """Return the tools of an open client or group as LangChain tools.

    Args:
        source: a `ferrule.Client` or `ferrule.ClientGroup`; it must stay open while the tools are used.
        api: the API of the model, whose subset of JSON Schema the schemas keep to.
        options: for each call, as for `ferrule.Client.answer`: ``approve``, ``timeout_s`` and bounds.
    """
    bridge = ToolBridge(source, api)
    return [MCPTool(bridge, entry, options) for entry in await bridge.entries()]


def _content(outcome: CallOutcome) -> str | list[dict[str, Any]]:
    if not any(isinstance(part, Media) for part in outcome.parts):
        return plain_text(outcome.parts)
    return [
        _media(part) if isinstance(part, Media) else {"type": "text", "text": plain_text([part])}
        for part in outcome.parts
    ]


def _media(part: Media) -> dict[str, Any]:
    kind = part.mime_type.partition("/")[0]
    block = {"type": kind if kind in ("image", "audio") else "file", "base64": part.data, "mime_type": part.mime_type}
    return block if kind in ("image", "audio") else {**block, "filename": part.name}
