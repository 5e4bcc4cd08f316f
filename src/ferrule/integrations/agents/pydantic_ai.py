"""Tools of MCP servers as a toolset of Pydantic AI: ``Agent(…, toolsets=[MCPServerTools(group)])``.

Needs ``pydantic-ai-slim`` 2 or later.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false, reportUnknownArgumentType=false

from __future__ import annotations

from base64 import b64decode
from typing import Any, Unpack

from pydantic_ai import BinaryContent, RunContext, ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from ferrule.bridges import AnswerOptions, ApiName, Media, Text, ToolBridge, ToolSource, plain_text

__all__ = ["MCPServerTools"]

_ANY = SchemaValidator(core_schema.any_schema())


class MCPServerTools(AbstractToolset[Any]):  # type: ignore[misc,unused-ignore]  # untyped where it is not installed
    """The tools of an open client or group. A failed call raises ``ToolFailed``, which the model gets.

    Args:
        source: a `ferrule.Client` or `ferrule.ClientGroup`; it must stay open while the agent runs.
        api: the API of the model, whose subset of JSON Schema the schemas keep to.
        id: the id of the toolset, which Pydantic AI needs for durable execution.
        options: for each call, as for `ferrule.Client.answer`: ``approve``, ``timeout_s`` and bounds.
    """

    def __init__(
        self,
        source: ToolSource,
        api: ApiName = "openai-chat",
        *,
        id: str | None = None,
        **options: Unpack[AnswerOptions],
    ) -> None:
        self._bridge = ToolBridge(source, api)
        self._id = id
        self._options = options

    @property
    def id(self) -> str | None:
        """The id that was given."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that the servers have now."""
        return {
            entry.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=entry.name,
                    description=entry.description or None,
                    parameters_json_schema=entry.schema,
                    metadata={"mcp_server": entry.server},
                ),
                max_retries=1,
                args_validator=_ANY,  # the server checks the arguments
            )
            for entry in await self._bridge.entries()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool, and return its text, or texts and binary contents.

        Raises:
            ToolFailed: the call failed; its text is for the model.
        """
        outcome = await self._bridge.call(name, tool_args, id=ctx.tool_call_id or "", **self._options)
        if outcome.is_error:
            raise ToolFailed(plain_text(outcome.parts))
        if all(isinstance(part, Text) for part in outcome.parts):
            return plain_text(outcome.parts)
        return [
            BinaryContent(b64decode(part.data), media_type=part.mime_type)
            if isinstance(part, Media)
            else plain_text([part])
            for part in outcome.parts
        ]
