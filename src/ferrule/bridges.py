"""Tools of MCP servers for the APIs of models: Anthropic, OpenAI, Gemini, and servers that speak OpenAI's API.

`ferrule.Client.tools_for` and `ferrule.Client.answer` are the short way, of a `ferrule.ClientGroup` as well. This
module has what they are made of, and handlers that let the program's own model answer what servers ask.
"""

from ferrule.client.bridges.apis.api import ToolEntry
from ferrule.client.bridges.apis.known import ApiName
from ferrule.client.bridges.bridge import Answer, Approver, ToolBridge, ToolSource, ToolUse
from ferrule.client.bridges.entries import tokens_of
from ferrule.client.bridges.options import AnswerOptions, ToolsForOptions
from ferrule.client.bridges.parts import Media, Text, plain_text
from ferrule.client.bridges.sampling.handlers import answer_with, sample_with
from ferrule.client.bridges.turns import CallOutcome, ModelCall, Status

__all__ = [
    "Answer",
    "AnswerOptions",
    "ApiName",
    "Approver",
    "CallOutcome",
    "Media",
    "ModelCall",
    "Status",
    "Text",
    "ToolBridge",
    "ToolEntry",
    "ToolSource",
    "ToolUse",
    "ToolsForOptions",
    "answer_with",
    "plain_text",
    "sample_with",
    "tokens_of",
]
