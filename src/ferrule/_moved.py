"""Modules that have a new name since 0.2: importing the old one works until 0.3, and warns.

`ferrule` asks here for modules of its own that Python does not find; nothing is loaded before that.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

__all__ = ["MOVED", "spec_of"]

MOVED: Final = {
    "ferrule.app.adapters": "ferrule.app.signatures.adapters",
    "ferrule.app.annotations": "ferrule.app.signatures.annotations",
    "ferrule.app.arguments": "ferrule.app.signatures.coercion",
    "ferrule.app.calls": "ferrule.app.execution.invoke",
    "ferrule.app.completion": "ferrule.app.components.completion",
    "ferrule.app.content": "ferrule.app.results.content",
    "ferrule.app.context": "ferrule.app.execution.context",
    "ferrule.app.docstrings": "ferrule.app.signatures.docstrings",
    "ferrule.app.encoders": "ferrule.app.results.encoders",
    "ferrule.app.fields": "ferrule.app.signatures.fields",
    "ferrule.app.guards": "ferrule.wire.json_types",
    "ferrule.app.handles": "ferrule.app.authorization.handles",
    "ferrule.app.hints": "ferrule.app.signatures.introspection",
    "ferrule.app.homes": "ferrule.app.components.mount_path",
    "ferrule.app.inject": "ferrule.app.execution.dependencies",
    "ferrule.app.limits": "ferrule.app.execution.limits",
    "ferrule.app.local": "ferrule.app.serving.in_process",
    "ferrule.app.markers": "ferrule.app.signatures.markers",
    "ferrule.app.mounting": "ferrule.app.components.mounting",
    "ferrule.app.options": "ferrule.app.components.options",
    "ferrule.app.pagination": "ferrule.app.components.pagination",
    "ferrule.app.principals": "ferrule.app.authorization.principals",
    "ferrule.app.profile": "ferrule.app.signatures.schema_profile",
    "ferrule.app.prompts": "ferrule.app.components.prompts",
    "ferrule.app.protection": "ferrule.app.authorization.guards",
    "ferrule.app.registry": "ferrule.app.components.registry",
    "ferrule.app.resources": "ferrule.app.components.resources",
    "ferrule.app.result_cache": "ferrule.app.middleware.result_cache",
    "ferrule.app.rounds.stillness": "ferrule.app.rounds.quiescence",
    "ferrule.app.rounds.surface": "ferrule.app.rounds.interaction",
    "ferrule.app.rounds.waiting": "ferrule.app.rounds.suspension",
    "ferrule.app.running_task": "ferrule.app.execution.running_task",
    "ferrule.app.scalars": "ferrule.app.signatures.scalars",
    "ferrule.app.scaling": "ferrule.app.serving.workers",
    "ferrule.app.schema": "ferrule.app.signatures.json_schema",
    "ferrule.app.shapes": "ferrule.app.signatures.shapes",
    "ferrule.app.signature": "ferrule.app.signatures.function",
    "ferrule.app.threads": "ferrule.app.execution.threads",
    "ferrule.app.tools": "ferrule.app.components.tools",
    "ferrule.app.validation": "ferrule.app.signatures.validation",
    "ferrule.auth.shapes": "ferrule.wire.json_types",
    "ferrule.cli.http_tracing": "ferrule.cli.tracing.http_tracing",
    "ferrule.cli.installing": "ferrule.cli.hosts.installing",
    "ferrule.cli.recording": "ferrule.cli.tracing.recording",
    "ferrule.client.authorization": "ferrule.client.connection.authorization",
    "ferrule.client.cache": "ferrule.client.calls.cache",
    "ferrule.client.callbacks": "ferrule.client.calls.callbacks",
    "ferrule.client.forms": "ferrule.client.calls.forms",
    "ferrule.client.group": "ferrule.client.groups.group",
    "ferrule.client.groups.supervisor": "ferrule.client.supervision.supervisor",
    "ferrule.client.harmless": "ferrule.client.calls.terminal_text",
    "ferrule.client.hearing": "ferrule.client.gateway.upstream_changes",
    "ferrule.client.jsonlike": "ferrule.wire.json_types",
    "ferrule.client.keeper": "ferrule.client.supervision.supervisor",
    "ferrule.client.lanes": "ferrule.client.gateway.backend_sessions",
    "ferrule.client.links": "ferrule.client.connection.channels",
    "ferrule.client.names": "ferrule.client.groups.names",
    "ferrule.client.negotiate": "ferrule.client.connection.negotiation",
    "ferrule.client.opening": "ferrule.client.connection.connector",
    "ferrule.client.parking": "ferrule.client.gateway.parked_calls",
    "ferrule.client.proxy": "ferrule.client.gateway.proxy",
    "ferrule.client.results": "ferrule.client.calls.results",
    "ferrule.client.rounds": "ferrule.client.calls.rounds",
    "ferrule.client.schema_check": "ferrule.client.calls.schema_check",
    "ferrule.client.subscriptions": "ferrule.client.calls.subscriptions",
    "ferrule.client.tasks": "ferrule.client.calls.tasks",
    "ferrule.client.toolbook": "ferrule.client.calls.tool_metadata",
    "ferrule.extensions.tasks.desk": "ferrule.extensions.tasks.repository",
    "ferrule.extensions.tasks.echo": "ferrule.extensions.tasks.legacy.notifications",
    "ferrule.extensions.tasks.legacy_notifications": "ferrule.extensions.tasks.legacy.notifications",
    "ferrule.extensions.tasks.upkeep": "ferrule.extensions.tasks.scheduler",
    "ferrule.inspector.bench": "ferrule.inspector.controller",
    "ferrule.inspector.gate": "ferrule.inspector.access",
    "ferrule.inspector.lane": "ferrule.inspector.connection",
    "ferrule.integrations.opentelemetry_metrics": "ferrule.integrations.opentelemetry.metrics",
    "ferrule.kernel.builtin": "ferrule.kernel.standard_methods",
    "ferrule.kernel.bus": "ferrule.kernel.changes.bus",
    "ferrule.kernel.cancellation": "ferrule.kernel.concurrency.cancellation",
    "ferrule.kernel.context": "ferrule.kernel.server",
    "ferrule.kernel.pump": "ferrule.kernel.legacy.change_forwarder",
    "ferrule.kernel.questions": "ferrule.kernel.outbound_request",
    "ferrule.kernel.relay": "ferrule.kernel.changes.relay",
    "ferrule.kernel.tasks": "ferrule.kernel.concurrency.spawner",
    "ferrule.kernel.turns": "ferrule.kernel.concurrency.yielding",
    "ferrule.protocol.handshake": "ferrule.protocol.legacy.handshake",
    "ferrule.stores.redis_server": "ferrule.stores.redis.server",
    "ferrule.stores.redis_sessions": "ferrule.stores.redis.sessions",
    "ferrule.stores.redis_tasks": "ferrule.stores.redis.tasks",
    "ferrule.stores.sqlite_file": "ferrule.stores.sqlite.file",
    "ferrule.stores.sqlite_sessions": "ferrule.stores.sqlite.sessions",
    "ferrule.stores.sqlite_tasks": "ferrule.stores.sqlite.tasks",
    "ferrule.transports.aiohttp_client": "ferrule.transports.http.aiohttp_backend",
    "ferrule.transports.asgi.channel": "ferrule.transports.asgi.legacy.stream",
    "ferrule.transports.asgi.events": "ferrule.stores.events",
    "ferrule.transports.asgi.exchange": "ferrule.transports.asgi.modern.exchange",
    "ferrule.transports.asgi.legacy_exchange": "ferrule.transports.asgi.legacy.exchange",
    "ferrule.transports.asgi.questions": "ferrule.transports.asgi.legacy.questions",
    "ferrule.transports.asgi.session": "ferrule.transports.asgi.legacy.session",
    "ferrule.transports.asgi.sessions": "ferrule.transports.asgi.legacy.sessions",
    "ferrule.transports.asgi.shared": "ferrule.transports.asgi.legacy.shared",
    "ferrule.transports.fetching": "ferrule.transports.http.fetching",
    "ferrule.transports.http_adapters": "ferrule.transports.http.adapters",
    "ferrule.transports.http_bodies": "ferrule.transports.http.bodies",
    "ferrule.transports.http_client": "ferrule.transports.http.backend",
    "ferrule.transports.http_cookies": "ferrule.transports.http.cookies",
    "ferrule.transports.http_errors": "ferrule.transports.http.errors",
    "ferrule.transports.http_flight": "ferrule.transports.http.pending_request",
    "ferrule.transports.http_listening": "ferrule.transports.http.listening",
    "ferrule.transports.http_protocol": "ferrule.transports.hosting.http_protocol",
    "ferrule.transports.http_sending": "ferrule.transports.http.sending",
    "ferrule.transports.http_server": "ferrule.transports.hosting.uvicorn_server",
    "ferrule.transports.options": "ferrule.transports.hosting.options",
    "ferrule.transports.running": "ferrule.transports.hosting.running",
    "ferrule.transports.sse_client": "ferrule.transports.sse.client",
    "ferrule.transports.stdio_client": "ferrule.transports.stdio.client",
    "ferrule.transports.streamable_client": "ferrule.transports.http.client",
    "ferrule.transports.workers": "ferrule.transports.hosting.workers",
    "ferrule.wire.types.completion": "ferrule.wire.types.server_features.completion",
    "ferrule.wire.types.elicitation": "ferrule.wire.types.client_features.elicitation",
    "ferrule.wire.types.logging": "ferrule.wire.types.server_features.logging",
    "ferrule.wire.types.prompts": "ferrule.wire.types.server_features.prompts",
    "ferrule.wire.types.resources": "ferrule.wire.types.server_features.resources",
    "ferrule.wire.types.roots": "ferrule.wire.types.client_features.roots",
    "ferrule.wire.types.sampling": "ferrule.wire.types.client_features.sampling",
    "ferrule.wire.types.tools": "ferrule.wire.types.server_features.tools",
}
"""Old name -> new name."""


class _Alias:
    """Loads the module of the new name in the place of the old one."""

    def __init__(self, new_name: str) -> None:
        self._new_name = new_name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that both names give the same classes."""
        module = import_module(self._new_name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own specification back; it has run before."""
        module.__spec__ = self._spec


def spec_of(name: str) -> ModuleSpec | None:
    """Return how to import an old name, with a warning that names the new one; ``None`` for any other name.

    Args:
        name: dotted, such as ``ferrule.transports.http_client``.
    """
    new_name = MOVED.get(name)
    if new_name is None:
        return None
    warnings.warn(
        f"{name} is now {new_name}; ferrule 0.3 removes the old name", DeprecationWarning, stacklevel=3
    )  # behind this function and the finder stands the import: Python skips its own machinery
    return ModuleSpec(name, _Alias(new_name))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
