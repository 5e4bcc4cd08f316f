"""2025-03-26: Streamable HTTP, tool annotations, audio, batches (here only).

It does not have yet, against 2025-06-18: structured output, elicitation, resource links, titles, ``_meta`` on
definitions and content, the version header.
"""

from ferrule.wire.revisions.base import derive, without
from ferrule.wire.revisions.r2025_06_18 import REVISION as NEWER
from ferrule.wire.types.base import Annotations, Implementation
from ferrule.wire.types.client_features.roots import Root
from ferrule.wire.types.content import ResourceContents, ToolContentBlock
from ferrule.wire.types.server_features.completion import CompleteRequestParams, PromptReference
from ferrule.wire.types.server_features.prompts import Prompt, PromptArgument
from ferrule.wire.types.server_features.resources import Resource, ResourceTemplate
from ferrule.wire.types.server_features.tools import Tool, ToolResult

__all__ = ["REVISION"]

REVISION = derive(
    NEWER,
    "2025-03-26",
    absent={
        Annotations: {"last_modified"},
        CompleteRequestParams: {"context"},
        Implementation: {"title"},
        Prompt: {"title", "meta"},
        PromptArgument: {"title"},
        PromptReference: {"title"},
        Resource: {"title", "meta"},
        ResourceContents: {"meta"},
        ResourceTemplate: {"title", "meta"},
        Root: {"meta"},
        Tool: {"title", "output_schema", "meta"},
        ToolContentBlock: {"meta"},
        ToolResult: {"structured_content"},
    },
    server_requests=without(NEWER.server_requests, {"elicitation/create"}),
    content_kinds=frozenset({"text", "image", "audio", "resource"}),
    structured_output="none",
    has_batches=True,
    requires_version_header=False,
)
