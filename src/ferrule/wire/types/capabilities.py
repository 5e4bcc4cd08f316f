"""Capabilities: what each side declares that it can do.

Open bundles: each *is* the JSON object it came from, so keys that this library does not know survive at every level
(extensions, a newer revision). An attribute reads ``None`` when the capability is not declared; an empty bundle
means declared without options.

The rule a newcomer would break: test with ``is not None``; ``{}`` is falsy, and is a declaration.
"""

from typing import Any

from ferrule.wire.struct import OpenBundle

__all__ = [
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "ElicitationCapability",
    "ElicitationTasks",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "SamplingTasks",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "ToolTasks",
    "ToolsCapability",
]


class RootsCapability(OpenBundle):
    """The client lists roots; ``list_changed``: it also says when they change (legacy revisions only)."""

    list_changed: bool | None


class SamplingCapability(OpenBundle):
    """The client samples its model; ``tools`` and ``context`` (2025-11-25 on) are what it accepts beside messages."""

    context: dict[str, Any] | None
    tools: dict[str, Any] | None


class ElicitationCapability(OpenBundle):
    """The client asks its user. Neither ``form`` nor ``url`` declared means forms only."""

    form: dict[str, Any] | None
    url: dict[str, Any] | None


class SamplingTasks(OpenBundle):
    """Which sampling requests the client runs as tasks."""

    create_message: dict[str, Any] | None


class ElicitationTasks(OpenBundle):
    """Which elicitation requests the client runs as tasks."""

    create: dict[str, Any] | None


class ClientTaskRequests(OpenBundle):
    """The requests that the client runs as tasks; what is not listed it does not."""

    sampling: SamplingTasks | None
    elicitation: ElicitationTasks | None


class ClientTasksCapability(OpenBundle):
    """Tasks on the client's side, 2025-11-25 only."""

    list: dict[str, Any] | None
    cancel: dict[str, Any] | None
    requests: ClientTaskRequests | None


class ClientCapabilities(OpenBundle):
    """What a client can do for a server: at ``initialize``, or in the ``_meta`` of every modern request."""

    experimental: dict[str, Any] | None
    roots: RootsCapability | None
    sampling: SamplingCapability | None
    elicitation: ElicitationCapability | None
    tasks: ClientTasksCapability | None
    extensions: dict[str, Any] | None


class PromptsCapability(OpenBundle):
    """The server has prompts; ``list_changed``: it says when the list changes."""

    list_changed: bool | None


class ResourcesCapability(OpenBundle):
    """The server has resources; ``subscribe``: a client may ask to hear when one changes."""

    subscribe: bool | None
    list_changed: bool | None


class ToolsCapability(OpenBundle):
    """The server has tools; ``list_changed``: it says when the list changes."""

    list_changed: bool | None


class ToolTasks(OpenBundle):
    """Which tool requests the server runs as tasks."""

    call: dict[str, Any] | None


class ServerTaskRequests(OpenBundle):
    """The requests that the server runs as tasks; what is not listed it does not."""

    tools: ToolTasks | None


class ServerTasksCapability(OpenBundle):
    """Tasks on the server's side, 2025-11-25 only."""

    list: dict[str, Any] | None
    cancel: dict[str, Any] | None
    requests: ServerTaskRequests | None


class ServerCapabilities(OpenBundle):
    """What a server can answer: in the `InitializeResult`, or in the `DiscoverResult`."""

    experimental: dict[str, Any] | None
    logging: dict[str, Any] | None
    completions: dict[str, Any] | None
    prompts: PromptsCapability | None
    resources: ResourcesCapability | None
    tools: ToolsCapability | None
    tasks: ServerTasksCapability | None
    extensions: dict[str, Any] | None
