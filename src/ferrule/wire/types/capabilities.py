"""Capabilities: the features that each side declares.

Each type is an open bundle: a view of the received JSON object, so that unknown keys (of extensions, of a newer
revision) are kept at every level. An attribute is ``None`` if the capability is not declared; an empty bundle is a
declaration without options. Therefore test with ``is not None``: an empty bundle is false in a condition.
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
    """The client lists roots; ``list_changed``: it sends a notification when they change (legacy revisions only)."""

    list_changed: bool | None


class SamplingCapability(OpenBundle):
    """The client samples its model; ``tools`` and ``context`` (2025-11-25 on): it accepts the params of that name."""

    context: dict[str, Any] | None
    tools: dict[str, Any] | None


class ElicitationCapability(OpenBundle):
    """The client asks its user. If neither ``form`` nor ``url`` is declared, it supports forms only."""

    form: dict[str, Any] | None
    url: dict[str, Any] | None


class SamplingTasks(OpenBundle):
    """The sampling requests that the client runs as tasks."""

    create_message: dict[str, Any] | None


class ElicitationTasks(OpenBundle):
    """The elicitation requests that the client runs as tasks."""

    create: dict[str, Any] | None


class ClientTaskRequests(OpenBundle):
    """The requests that the client runs as tasks; it does not run any other request as a task."""

    sampling: SamplingTasks | None
    elicitation: ElicitationTasks | None


class ClientTasksCapability(OpenBundle):
    """Tasks on the client's side, 2025-11-25 only."""

    list: dict[str, Any] | None
    cancel: dict[str, Any] | None
    requests: ClientTaskRequests | None


class ClientCapabilities(OpenBundle):
    """The capabilities of a client, sent with ``initialize``, or in the ``_meta`` of every modern request."""

    experimental: dict[str, Any] | None
    roots: RootsCapability | None
    sampling: SamplingCapability | None
    elicitation: ElicitationCapability | None
    tasks: ClientTasksCapability | None
    extensions: dict[str, Any] | None


class PromptsCapability(OpenBundle):
    """The server has prompts; ``list_changed``: it sends a notification when the list changes."""

    list_changed: bool | None


class ResourcesCapability(OpenBundle):
    """The server has resources; ``subscribe``: a client may subscribe to the changes of one.

    ``list_changed``: the server sends a notification when the list changes.
    """

    subscribe: bool | None
    list_changed: bool | None


class ToolsCapability(OpenBundle):
    """The server has tools; ``list_changed``: it sends a notification when the list changes."""

    list_changed: bool | None


class ToolTasks(OpenBundle):
    """The tool requests that the server runs as tasks."""

    call: dict[str, Any] | None


class ServerTaskRequests(OpenBundle):
    """The requests that the server runs as tasks; it does not run any other request as a task."""

    tools: ToolTasks | None


class ServerTasksCapability(OpenBundle):
    """Tasks on the server's side, 2025-11-25 only."""

    list: dict[str, Any] | None
    cancel: dict[str, Any] | None
    requests: ServerTaskRequests | None


class ServerCapabilities(OpenBundle):
    """The capabilities of a server, in the `InitializeResult` or the `DiscoverResult`."""

    experimental: dict[str, Any] | None
    logging: dict[str, Any] | None
    completions: dict[str, Any] | None
    prompts: PromptsCapability | None
    resources: ResourcesCapability | None
    tools: ToolsCapability | None
    tasks: ServerTasksCapability | None
    extensions: dict[str, Any] | None
