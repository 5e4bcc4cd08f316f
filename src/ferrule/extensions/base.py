"""What an extension of the protocol is made of, and how it is put on a server.

An `Extension` names itself, says what it adds, and is installed once; whatever it adds goes through public names of
the layers below, so an extension of your own can do all that the ones of this package do. A server has none until its
author adds one (``MCPServer(extensions=[…])``), and a client gets nothing of an extension that it did not declare:
in the modern era with the very request, in the legacy era at the handshake.

Source: 2026-07-28 "Versioning" (extensions), SEP-2133.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ferrule.kernel.server import GrantTopics, Server, ServerRequestContext
from ferrule.protocol.capabilities import declares_extension
from ferrule.protocol.errors import MissingRequiredClientCapability
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.server import MCPServer

__all__ = ["Extension", "ExtensionMethod"]

# A reverse-domain prefix, one slash, a name (the grammar of ``_meta`` keys with a mandatory prefix).
_IDENTIFIER: Final = re.compile(
    r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class ExtensionMethod:
    """A request that an extension serves.

    Attributes:
        handler: ``async (ctx) -> result``; ``ctx.params`` is of ``params_type``, the raw mapping without one.
        params_type: what params are converted to.
        name_param: the param that the ``Mcp-Name`` header mirrors, if one does.
        needs_opt_in: refuse modern requests that do not declare the extension (-32021). Off for methods of a
            legacy core, which exist by their revision.
    """

    handler: Callable[[ServerRequestContext[Any]], Awaitable[Any]]
    params_type: type[Any] | None = None
    name_param: str | None = None
    needs_opt_in: bool = True


class Extension:
    """Base of extensions; override what you need.

    Attributes:
        identifier: ``reverse.domain/name``.
        serves_tasks: it makes tasks of tools that ask for it (``task=``).
    """

    identifier: ClassVar[str]
    serves_tasks: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        identifier = getattr(cls, "identifier", None)  # an abstract subclass has none
        if identifier is not None and not _IDENTIFIER.fullmatch(identifier):
            raise ValueError(f"{identifier!r} is not an extension identifier: a domain prefix, a slash and a name")

    # -- what it adds ---------------------------------------------------------------------------------------------

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that the server declares for this extension; ``{}`` for support without settings."""
        return {}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        """Return the extension's requests by method."""
        return {}

    def result_types(self) -> Iterable[str]:
        """Values of ``resultType`` that only clients with the extension may get."""
        return ()

    def filters(self) -> Mapping[str, GrantTopics]:
        """Return, by key of a ``subscriptions/listen`` filter, the function that grants its values."""
        return {}

    def capabilities(self, revision: Revision) -> Mapping[str, Any]:
        """Return capabilities for revisions in which the feature is part of the core."""
        return {}

    def prepare_tool(self, tool: ToolComponent) -> None:
        """Called for each tool of an `MCPServer`, those before the extension and those after it."""

    def running(self, server: Server[Any], state: Any) -> AbstractAsyncContextManager[Any]:
        """Held while an `MCPServer` runs, inside its lifespan; ``state`` is what that yielded."""
        return nullcontext()

    # -- using it -------------------------------------------------------------------------------------------------

    def is_declared(self, ctx: ServerRequestContext[Any]) -> bool:
        """Return whether the client of this request declared the extension."""
        return declares_extension(ctx.session.connection.client_capabilities_raw, self.identifier)

    def require(self, ctx: ServerRequestContext[Any]) -> None:
        """Refuse a request whose client did not declare the extension.

        Raises:
            MissingRequiredClientCapability: -32021, naming the extension.
        """
        if not self.is_declared(ctx):
            raise MissingRequiredClientCapability({"extensions": {self.identifier: {}}})

    def install(self, server: Server[Any]) -> None:
        """Register everything on a low-level server; `MCPServer` calls this.

        Raises:
            ValueError: a method, result type or filter key is taken by another extension.
        """
        if self.identifier in server.extensions:
            raise ValueError(f"The server has the extension {self.identifier} already")
        result_types = list(self.result_types())
        methods, filters = self.methods(), self.filters()
        taken = [name for name in methods if server.get_request_handler(name) is not None]
        taken += [name for name in result_types if name in server.result_types]
        taken += [name for name in filters if name in server.filter_grants]
        if taken:
            raise ValueError(f"{self.identifier} cannot be added: {', '.join(taken)} is served already")
        server.add_extension(self.identifier, self.settings(), result_types=result_types)
        for name, method in methods.items():
            server.add_request_handler(
                name,
                method.handler,
                params_type=method.params_type,
                extension=self.identifier if method.needs_opt_in else None,
                trusted=True,
            )
            if method.name_param is not None:
                server.name_params[name] = method.name_param
        server.filter_grants.update(filters)
        server.capability_sources.append(self.capabilities)

    def attach(self, app: MCPServer[Any]) -> None:
        """Put it on an `MCPServer`; called by ``MCPServer.add_extension``."""
        self.install(app.lowlevel)
