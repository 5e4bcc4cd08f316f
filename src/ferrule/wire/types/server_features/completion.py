"""Completion of prompt arguments and of resource template variables."""

from typing import ClassVar

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import RequestParams, Result

__all__ = [
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "PromptReference",
    "ResourceTemplateReference",
]


class PromptReference(WireStruct, tag_field="type", tag="ref/prompt"):
    """Names the prompt whose argument the user is typing."""

    type: ClassVar[str] = "ref/prompt"
    name: str
    title: str | None = None


class ResourceTemplateReference(WireStruct, tag_field="type", tag="ref/resource"):
    """Names the resource template (or resource) whose variable is typed; ``ResourceReference`` before 2025-06-18."""

    type: ClassVar[str] = "ref/resource"
    uri: str


class CompletionArgument(WireStruct):
    """The name of the argument, and the text that the user has typed so far."""

    name: str
    value: str


class CompletionContext(WireStruct):
    """The arguments that already have a value (2025-06-18 on)."""

    arguments: dict[str, str] | None = None


class CompleteRequestParams(RequestParams):
    """Params of ``completion/complete``."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(WireStruct):
    """At most 100 ``values``; ``total`` is the number of all values, ``has_more`` whether there are more than these."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """The result of ``completion/complete``."""

    completion: Completion
