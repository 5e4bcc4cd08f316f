"""`Extension`: the server's half of a protocol extension; `ferrule.extensions.client` has the client's.

An `Extension` has an identifier and the parts that it adds to a server, and is installed once. It uses only public
names of the layers below, so that other packages can write extensions as well. A server has no extension until its
author adds one (``MCPServer(extensions=[…])``). A client gets nothing of an extension that it did not declare: in the
modern era in the request, in the legacy era in the handshake.

Source: 2026-07-28 "Versioning" (extensions), SEP-2133.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ferrule.extensions.identifier import check_identifier
from ferrule.kernel.server import GrantTopics, Server, ServerRequestContext
from ferrule.protocol.caching import DEFAULT_CACHE_HINT
from ferrule.protocol.capabilities import extension_settings
from ferrule.protocol.errors import MethodNotFound, MissingRequiredClientCapability
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.execution.context import Context
    from ferrule.app.server import MCPServer

__all__ = ["Extension", "ExtensionMethod", "ExtensionNotification"]


@dataclass(frozen=True, slots=True)
class ExtensionMethod:
    """A request that an extension serves.

    Attributes:
        handler: ``async (ctx) -> result``; ``ctx.params`` is of ``params_type``, the raw mapping without one.
        params_type: the type that params are converted to; ``None`` for the raw mapping.
        name_param: the param that the ``Mcp-Name`` header mirrors; ``None`` for none.
        needs_opt_in: refuse modern requests that do not declare the extension (-32021). Off for methods of a
            legacy core, which exist by their revision, and of extensions that only the server declares.
        cacheable: its results have ``ttlMs`` and ``cacheScope`` in revisions that have them: those of
            ``cache_hints[method]``, else of ``cache_hints["*"]``, else no reuse. A result may set its own.
    """

    handler: Callable[[ServerRequestContext[Any]], Awaitable[Any]]
    params_type: type[Any] | None = None
    name_param: str | None = None
    needs_opt_in: bool = True
    cacheable: bool = False


@dataclass(frozen=True, slots=True)
class ExtensionNotification:
    """A notification of clients that an extension takes.

    Attributes:
        handler: ``async (ctx) -> None``; ``ctx.params`` is of ``params_type``, the raw mapping without one.
        params_type: the type that params are converted to; a malformed notification is logged and dropped.
    """

    handler: Callable[[ServerRequestContext[Any]], Awaitable[None]]
    params_type: type[Any] | None = None


class Extension:
    """Base of extensions; override what you need.

    Attributes:
        identifier: ``reverse.domain/name``.
        serves_tasks: it makes tasks of tools that ask for it (``task=``).
        in_handshake: announce it to legacy clients too, in the capabilities of ``initialize``.
    """

    identifier: ClassVar[str]
    serves_tasks: ClassVar[bool] = False
    in_handshake: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_identifier(cls)

    # -- what it adds ---------------------------------------------------------------------------------------------

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that the server declares for this extension; ``{}`` for support without settings."""
        return {}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        """Return the extension's requests by method."""
        return {}

    def notifications(self) -> Mapping[str, ExtensionNotification]:
        """Return the notifications of clients that the extension takes, by method."""
        return {}

    def result_types(self) -> Iterable[str]:
        """Return the values of ``resultType`` that only clients with the extension may get."""
        return ()

    def filters(self) -> Mapping[str, GrantTopics]:
        """Return, by key of a ``subscriptions/listen`` filter, the function that grants its values."""
        return {}

    def capabilities(self, revision: Revision) -> Mapping[str, Any]:
        """Return capabilities for revisions in which the feature is part of the core."""
        return {}

    def prepare_tool(self, tool: ToolComponent) -> None:
        """Prepare a tool of an `MCPServer`; called for each tool, registered before or after the extension."""

    def mounted_in(self, parent: MCPServer[Any]) -> None:
        """Prepare a server in which the extension's server is mounted; called once for each.

        A parent does not get the extensions of mounted servers, unless they add themselves here.
        """

    def running(self, server: Server[Any], state: Any) -> AbstractAsyncContextManager[Any]:
        """Return a context that is open while an `MCPServer` runs; ``state`` is the value of its lifespan."""
        return nullcontext()

    # -- using it -------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, source: ServerRequestContext[Any] | Context[Any] | Server[Any]) -> Self:
        """Return the extension of this class, or of a subclass, that a server has.

        Args:
            source: a request that the server serves, or the low-level server.

        Raises:
            KeyError: the server has no such extension.
        """
        if not isinstance(source, Server):
            source = (source if isinstance(source, ServerRequestContext) else source.request).server
        return source.attachments[cls]

    def client_settings(self, ctx: ServerRequestContext[Any] | Context[Any]) -> Mapping[str, Any] | None:
        """Return the settings that the client of this request declared for the extension; ``None`` if it did not.

        They come from a peer: check what you use.
        """
        return extension_settings(ctx.session.connection.client_capabilities_raw, self.identifier)

    def is_declared(self, ctx: ServerRequestContext[Any] | Context[Any]) -> bool:
        """Return whether the client of this request declared the extension."""
        return self.client_settings(ctx) is not None

    def require(self, ctx: ServerRequestContext[Any] | Context[Any]) -> None:
        """Refuse a request whose client did not declare the extension.

        Raises:
            MissingRequiredClientCapability: -32021, naming the extension.
            MethodNotFound: the same for a legacy client, whose revision does not have that error.
        """
        if self.is_declared(ctx):
            return
        if not ctx.session.connection.revision.has_extensions:
            raise MethodNotFound(ctx.method)
        raise MissingRequiredClientCapability({"extensions": {self.identifier: {}}})

    def install(self, server: Server[Any]) -> None:
        """Register everything on a low-level server; `MCPServer` calls this.

        Raises:
            ValueError: a method, notification, result type or filter key is taken by another extension.
        """
        if self.identifier in server.extensions:
            raise ValueError(f"The server has the extension {self.identifier} already")
        result_types = list(self.result_types())
        methods, notifications, filters = self.methods(), self.notifications(), self.filters()
        taken = [name for name in methods if server.get_request_handler(name) is not None]
        taken += [name for name in notifications if server.get_notification_handler(name) is not None]
        taken += [name for name in result_types if name in server.result_types]
        taken += [name for name in filters if name in server.filter_grants]
        if taken:
            raise ValueError(f"{self.identifier} cannot be added: {', '.join(taken)} is served already")
        server.add_extension(
            self.identifier, self.settings(), result_types=result_types, in_handshake=self.in_handshake
        )
        for name, method in methods.items():
            self._add_method(server, name, method)
        for name, notification in notifications.items():
            server.add_notification_handler(name, notification.handler, params_type=notification.params_type)
        server.filter_grants.update(filters)
        server.capability_sources.append(self.capabilities)
        for kind in type(self).__mro__:  # found by the class of its author, too, where a program has a subclass
            if kind is not Extension and issubclass(kind, Extension):
                server.attachments[kind] = self

    def _add_method(self, server: Server[Any], name: str, method: ExtensionMethod) -> None:
        server.add_request_handler(
            name,
            method.handler,
            params_type=method.params_type,
            extension=self.identifier if method.needs_opt_in else None,
            trusted=True,
        )
        if method.name_param is not None:
            server.attachments.made(MirroredHeaders).names[name] = method.name_param
        if method.cacheable:  # a hint under the method's own name applies to methods that the revision does not list
            hints = server.cache_hints
            hints.setdefault(name, hints.get("*", DEFAULT_CACHE_HINT))

    def attach(self, app: MCPServer[Any]) -> None:
        """Add the extension to an `MCPServer`; called by ``MCPServer.add_extension``."""
        self.install(app.lowlevel)
