"""Tools of MCP servers as function tools of OpenAI's Agents SDK: ``Agent(…, tools=await to_function_tools(group))``.

Needs ``openai-agents``.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Unpack

from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from ferrule.bridges import AnswerOptions, CallOutcome, Media, ToolBridge, ToolEntry, ToolSource, plain_text

__all__ = ["to_function_tools"]


async def to_function_tools(
    source: ToolSource, *, strict: bool = False, **options: Unpack[AnswerOptions]
) -> list[FunctionTool]:
    """Return the tools of an open client or group as function tools. An error is a text for the model.

    Args:
        source: a `ferrule.Client` or `ferrule.ClientGroup`; it must stay open while the tools are used.
        strict: use OpenAI's strict mode for each tool whose schema can be written in it.
        options: for each call, as for `ferrule.Client.answer`: ``approve``, ``timeout_s`` and bounds.
    """
    bridge = ToolBridge(source, "openai", strict=strict)
    return [_function_tool(bridge, entry, options) for entry in await bridge.entries()]


def _function_tool(bridge: ToolBridge, entry: ToolEntry, options: AnswerOptions) -> FunctionTool:
    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        # Contexts of older versions have no id of the call.
        outcome = await bridge.call(entry.name, arguments, id=getattr(context, "tool_call_id", ""), **options)
        return _output(outcome)

    return FunctionTool(
        name=entry.name,
        description=entry.description,
        params_json_schema=entry.schema,
        on_invoke_tool=invoke,
        strict_json_schema=entry.is_strict,
    )


def _output(outcome: CallOutcome) -> Any:
    text = plain_text(outcome.parts)
    if outcome.is_error:
        return f"Error: {text}"
    if not any(isinstance(part, Media) for part in outcome.parts):
        return text
    return [
        _media(part) if isinstance(part, Media) else ToolOutputText(text=plain_text([part])) for part in outcome.parts
    ]


def _media(part: Media) -> ToolOutputImage | ToolOutputFileContent:
    url = f"data:{part.mime_type};base64,{part.data}"
    if part.mime_type.startswith("image/"):
        return ToolOutputImage(image_url=url)
    return ToolOutputFileContent(file_data=url, filename=part.name)
