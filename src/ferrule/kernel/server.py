"""The registry that the kernel reads (handlers by method, middleware, hints, identity), and what each handler gets.

`Server` knows no transport and no function signature. ``ferrule.app.MCPServer`` builds one; use it directly for a
gateway, a proxy, or a method that no decorator offers. `ServerRequestContext` is one request or notification with all
that belongs to it; a real dataclass, because middleware rewrites it: ``call_next(replace(ctx, params=…))``.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypedDict, TypeVar
from warnings import warn

from msgspec import Struct

from ferrule.kernel.attachments import Attachments
from ferrule.kernel.changes.bus import LIST_CHANGED_METHODS, SubscriptionBus
from ferrule.kernel.connection import InitializationOptions
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.protection import ServerProtection
from ferrule.kernel.standard_methods import register_builtins
from ferrule.protocol.caching import CacheHint
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.wire.codec import Encoded, to_builtins
from ferrule.wire.headers import ParamHeader
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.revisions import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    MODERN_PROTOCOL_VERSIONS,
    REVISIONS,
    Revision,
    has_server_notification,
)
from ferrule.wire.struct import Value
from ferrule.wire.types import META_SERVER_INFO, Icon, Implementation, ServerCapabilities

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ferrule.kernel.session import ServerSession

__all__ = [
    "CallNext",
    "ComponentServer",
    "GrantTopics",
    "Handler",
    "HandlerEntry",
    "HandlerResult",
    "InitializationOptions",
    "Server",
    "ServerMiddleware",
    "ServerRequestContext",
]

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

# With a default, `MCPServer("x")` and a bare `Context` need no annotation. For type checkers alone: at run time
# `typing.TypeVar` knows defaults from Python 3.13 on.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as _TypeVar

    LifespanT = _TypeVar("LifespanT", default=Any)
    LifespanT_co = _TypeVar("LifespanT_co", covariant=True, default=Any)
    LifespanT_contra = _TypeVar("LifespanT_contra", contravariant=True, default=Any)
else:
    LifespanT = TypeVar("LifespanT")
    LifespanT_co = TypeVar("LifespanT_co", covariant=True)
    LifespanT_contra = TypeVar("LifespanT_contra", contravariant=True)

HandlerResult: TypeAlias = Struct | Mapping[str, Any] | Encoded | None
"""A result: a protocol Struct, a mapping under wire names, ready-made JSON bytes, or ``None`` for an empty one."""


class ComponentServer(Protocol):
    """A server of a layer above that can be mounted in another one."""

    @property
    def lowlevel(self) -> Server[Any]:
        """The registry of its own components."""
        ...


@dataclass(slots=True, init=False, repr=False, eq=False)
class ServerRequestContext(Generic[LifespanT_co]):
    """One inbound request or notification.

    Attributes:
        session: sends messages to the peer.
        lifespan_context: the value that the server's lifespan yielded.
        method: as the peer wrote it.
        params: the raw mapping in middleware; the typed params of the method in the handler.
        request_id: ``None`` for a notification.
        meta: the raw ``params._meta``; empty if there is none.
        protocol_version: the revision of this message.
        transport: facts of the transport that received the message.
        server: the server that serves it.
        component_server: the mounted server whose component serves it; ``None`` for a component of ``server``.
    """

    session: ServerSession
    lifespan_context: LifespanT_co
    method: str
    params: Any
    request_id: RequestId | None
    meta: Mapping[str, Any]
    protocol_version: str
    transport: TransportContext
    server: Server[Any]
    component_server: ComponentServer | None = None

    # Written out, because a dataclass would compile them at each start of a process.

    def __init__(
        self,
        session: ServerSession,
        lifespan_context: LifespanT_co,
        method: str,
        params: Any,
        request_id: RequestId | None,
        meta: Mapping[str, Any],
        protocol_version: str,
        transport: TransportContext,
        server: Server[Any],
        component_server: ComponentServer | None = None,
    ) -> None:
        self.session = session
        self.lifespan_context = lifespan_context
        self.method = method
        self.params = params
        self.request_id = request_id
        self.meta = meta
        self.protocol_version = protocol_version
        self.transport = transport
        self.server = server
        self.component_server = component_server

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self._parts())})"

    def __eq__(self, other: object) -> bool:
        return self._parts() == other._parts() if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _parts(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__dataclass_fields__]

    @property
    def revision(self) -> Revision:
        """The revision of this message, with its tables and flags."""
        return self.session.connection.revision

    @property
    def home(self) -> Any:
        """The old name of ``component_server``, deprecated; ferrule 0.3 removes it."""
        warnings.warn(
            "ServerRequestContext.home is now component_server; ferrule 0.3 removes the old name",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.component_server


Handler: TypeAlias = Callable[[ServerRequestContext[Any]], Awaitable[Any]]
"""``async (ctx) -> result``: the shape of all handlers."""

CallNext: TypeAlias = Callable[[ServerRequestContext[Any]], Awaitable[Any]]
"""``async (ctx) -> result``: the rest of the chain, which a middleware calls."""


class ServerMiddleware(Protocol[LifespanT_contra]):
    """``async (ctx, call_next) -> result``, wrapping every request and notification.

    Generic over the lifespan state, so that a middleware written for ``object`` fits any server.
    """

    async def __call__(self, ctx: ServerRequestContext[LifespanT_contra], call_next: CallNext, /) -> Any:
        """Return the result of one message: of ``call_next(ctx)``, or another one; raise to refuse the message.

        ``ctx.request_id`` is ``None`` for a notification, whose result is discarded.
        """
        ...


GrantTopics: TypeAlias = Callable[[ServerRequestContext[Any], Any], Awaitable[tuple[Any, Iterable[tuple[str, str]]]]]
"""``(ctx, wanted) -> (granted, topics)``: the part of a ``subscriptions/listen`` filter that an extension grants
(``None`` for nothing), in its wire form, and the ``(method, topic)`` pairs of the events that match it."""


class HandlerEntry(Value, frozen=True):
    """One registered handler.

    Attributes:
        method: the JSON-RPC method.
        handler: ``async (ctx) -> result`` with ``ctx.params`` typed. Set by `Server.add_request_handler`: for tools,
            resources and prompts by ``serve`` of the sets in `ferrule.app.components`, for other methods by
            `ferrule.kernel.standard_methods` and extensions.
        params_type: the type of ``ctx.params``; ``None`` for the specification's type of the method, and for the raw
            mapping if the specification does not define the method.
        extension: identifier of the extension that defines the method, which the client must have declared.
        trusted: the results are well-formed by construction and are not checked.
    """

    method: str
    handler: Handler
    params_type: type[Any] | None = None
    extension: str | None = None
    trusted: bool = False


def check_lifespan(lifespan: object) -> None:
    """Check that a lifespan is not a plain generator or coroutine function.

    Raises:
        TypeError: ``lifespan`` lacks ``@asynccontextmanager``.
    """
    # Only functions written in Python have code, and a lifespan may be any callable.
    flags = getattr(getattr(lifespan, "__code__", None), "co_flags", 0)
    if flags & (CO_ASYNC_GENERATOR | CO_GENERATOR):
        raise TypeError("lifespan= needs @contextlib.asynccontextmanager above its function")
    if flags & CO_COROUTINE:
        raise TypeError(
            "lifespan= is a coroutine function; it needs a `yield`, and @contextlib.asynccontextmanager above it"
        )


if TYPE_CHECKING:  # at run time its annotations would be compiled

    class _Display(TypedDict, total=False):
        """Deprecated options of `Server`, which are fields of its `Implementation` now."""

        title: str | None
        description: str | None
        website_url: str | None
        icons: Iterable[Icon] | None


def _identity(name: str | Implementation, version: str | None, display: _Display) -> Implementation:
    """Return the identity that the arguments of `Server` describe.

    Raises:
        TypeError: there is no such option, or ``version`` or a display option is given with an `Implementation`.
    """
    unknown = set(display) - _DISPLAY
    if unknown:
        raise TypeError(f"Server() has no option {', '.join(sorted(unknown))}")
    if isinstance(name, Implementation):
        if version is not None or display:
            raise TypeError("With an Implementation, version and the display options must be set in it")
        return name
    version = "0" if version is None else version
    if not display:
        return Implementation(name, version)
    warnings.warn(
        f"ferrule 0.3 removes Server({', '.join(f'{option}=…' for option in sorted(display))}); pass an "
        "Implementation (in ferrule.types) instead of the name",
        DeprecationWarning,
        stacklevel=3,
    )
    icons = display.get("icons")
    return Implementation(
        name,
        version,
        title=display.get("title"),
        description=display.get("description"),
        website_url=display.get("website_url"),
        icons=None if icons is None else list(icons),
    )


_DISPLAY: Final = frozenset({"title", "description", "website_url", "icons"})


@asynccontextmanager
async def _no_lifespan(_: Server[Any]) -> AsyncGenerator[Any]:
    yield {}


def _warn_moved(old: str, new: str) -> None:
    warn(
        f"Server.{old} is now attachments.made(ferrule.protocol.inbound.MirroredHeaders).{new}; "
        "ferrule 0.3 removes the old name",
        DeprecationWarning,
        stacklevel=3,
    )


class Server(Generic[LifespanT]):
    """A registry of handlers.

    Args:
        name: the server's name, or an `Implementation` (in `ferrule.types`) with its name, version and display options.
        version: the server's own version; ``"0"`` by default. Not together with an `Implementation`.
        instructions: for the model: how to use this server as a whole.
        lifespan: ``async with lifespan(server) as state`` while the server runs; handlers receive ``state``.
        middleware: outermost first; the list may be changed later.
        cache_hints: hints by method; ``"*"`` for all cacheable methods of the revision.
        logging: announce the logging capability and serve ``logging/setLevel``.
        list_changed: kinds of lists (``"tools"``, ``"prompts"``, ``"resources"``) whose changes are published.
        resource_updates: serve subscriptions to single resources.
        bus: where changes are published; ``None`` makes one.
        modern_versions: revisions of the modern era to serve; empty turns the era off.
        protection: authorizes the requests that come over a network; ``None`` accepts all. See
            `ferrule.kernel.protection`.
        display: ``title=``, ``description=``, ``website_url=`` and ``icons=``, deprecated until ferrule 0.3: set them
            in the `Implementation`.

    Raises:
        TypeError: there is no such option, ``version`` is given together with an `Implementation`, or ``lifespan`` is
            not a function that returns an async context manager.

    Attributes:
        server_info: this server's identity, sent to clients.
        cache_hints: method → hint for clients, as given.
        extensions: identifier → settings of each added extension, as announced to clients.
        handshake_extensions: identifiers of the extensions that are announced to legacy clients too.
        result_types: ``resultType`` of an extension → the extension's identifier.
        info_stamp: ``_meta`` of each modern result, with this server's identity; not to be changed.
        attachments: values that layers above keep with the server, one of each class.
        filter_grants: key of a listen filter → the function that grants it, of an extension.
        uses_logging: whether a component may send log messages, asked when ``logging`` is not set; ``None``: no
            component may.
        has_resource: ``(ctx, uri)`` → whether a client may subscribe to a resource; ``None`` for any resource.
        resource_visibility: principal of an HTTP request → ``(uri) -> bool``: whether it may receive updates of a
            resource.
        capability_sources: ``revision -> capabilities`` that extensions add to the announced ones.
        unwrap_request: called with each request, its params raw, before the middleware, if there is any; returns the
            request that the middleware receives. ``None`` for the request as it came.
    """

    def __init__(
        self,
        name: str | Implementation,
        *,
        version: str | None = None,
        instructions: str | None = None,
        lifespan: Callable[[Server[LifespanT]], AbstractAsyncContextManager[LifespanT]] | None = None,
        middleware: Iterable[ServerMiddleware[LifespanT]] = (),
        cache_hints: Mapping[str, CacheHint] | None = None,
        logging: bool = False,
        list_changed: Iterable[str] = (),
        resource_updates: bool = False,
        bus: SubscriptionBus | None = None,
        modern_versions: tuple[str, ...] = MODERN_PROTOCOL_VERSIONS,
        protection: ServerProtection | None = None,
        **display: Unpack[_Display],
    ) -> None:
        self.server_info = _identity(name, version, display)
        self.instructions = instructions
        self.middleware: list[ServerMiddleware[Any]] = list(middleware)
        self.cache_hints: dict[str, CacheHint] = dict(cache_hints or {})
        self.logging = logging
        self.list_changed: set[str] = set(list_changed)
        self.resource_updates = resource_updates
        self.bus = SubscriptionBus() if bus is None else bus
        self.modern_versions = modern_versions
        self.extensions: dict[str, dict[str, Any]] = {}
        self.handshake_extensions: set[str] = set()
        self.result_types: dict[str, str] = {}
        self.filter_grants: dict[str, GrantTopics] = {}
        self.uses_logging: Callable[[], bool] | None = None  # set by `ferrule.app.server.MCPServer`
        # Set by `ferrule.app.components.resources.ResourceSet`; the second one also by `ferrule.client.gateway.proxy`.
        self.has_resource: Callable[[ServerRequestContext[Any], str], bool] | None = None
        self.resource_visibility: Callable[[Any], Callable[[str], bool]] | None = None
        # Filled by `ferrule.extensions.base` and `ferrule.client.gateway.proxy`.
        self.capability_sources: list[Callable[[Revision], Mapping[str, Any]]] = []
        # Set by `ferrule.app.components.tools.ToolSet.offer_search`.
        self.unwrap_request: Callable[[ServerRequestContext[Any]], ServerRequestContext[Any]] | None = None
        self.attachments = Attachments()
        self._protection = protection
        check_lifespan(lifespan)
        self._lifespan: Callable[[Server[Any]], AbstractAsyncContextManager[Any]] = lifespan or _no_lifespan
        self._requests: dict[str, HandlerEntry] = {}
        self._notifications: dict[str, HandlerEntry] = {}
        # The composed chain by its innermost step; composing it for each request would cost a closure for each
        # middleware.
        self._chains: dict[CallNext, tuple[list[ServerMiddleware[Any]], CallNext]] = {}
        # Last, so that an application's handlers replace them and not the other way round.
        register_builtins(self)

    @cached_property
    def info_stamp(self) -> dict[str, Any]:
        """The ``_meta`` members that identify this server in each modern result."""
        # On first use and not at the start: a Ctrl-C during msgspec's conversion can crash the interpreter, and a
        # program that is starting has no signal handler yet.
        return {META_SERVER_INFO: to_builtins(self.server_info)}

    @property
    def param_headers(self) -> dict[str, tuple[ParamHeader, ...]]:
        """Deprecated; ferrule 0.3 removes it: `MirroredHeaders.params` of ``attachments``."""
        _warn_moved("param_headers", "params")
        return self.attachments.made(MirroredHeaders).params

    @property
    def name_params(self) -> dict[str, str]:
        """Deprecated; ferrule 0.3 removes it: `MirroredHeaders.names` of ``attachments``."""
        _warn_moved("name_params", "names")
        return self.attachments.made(MirroredHeaders).names

    # -- registering ------------------------------------------------------------------------------------------

    def wrap_lifespan(
        self, wrap: Callable[[AbstractAsyncContextManager[Any]], AbstractAsyncContextManager[Any]]
    ) -> None:
        """Run code around the lifespan of this server: a program that serves it has parts of its own to open and close.

        Args:
            wrap: returns a context manager around the given one; both have the same state.
        """
        inner = self._lifespan
        self._lifespan = lambda server: wrap(inner(server))

    def add_request_handler(
        self,
        method: str,
        handler: Handler,
        *,
        params_type: type[Any] | None = None,
        extension: str | None = None,
        trusted: bool = False,
    ) -> None:
        """Register the handler of a request method; it replaces an earlier one.

        Args:
            method, handler, params_type, extension, trusted: see `HandlerEntry`.
        """
        self._requests[method] = HandlerEntry(method, handler, params_type, extension, trusted)

    def add_notification_handler(self, method: str, handler: Handler, *, params_type: type[Any] | None = None) -> None:
        """Register the handler of a notification method, ``async (ctx) -> None``; it replaces an earlier one."""
        self._notifications[method] = HandlerEntry(method, handler, params_type)

    def request(self, method: str, *, params_type: type[Any] | None = None) -> Callable[[HandlerT], HandlerT]:
        """Return a decorator that registers a request handler and returns the function unchanged."""

        def register(handler: HandlerT) -> HandlerT:
            self.add_request_handler(method, handler, params_type=params_type)
            return handler

        return register

    def notification(self, method: str, *, params_type: type[Any] | None = None) -> Callable[[HandlerT], HandlerT]:
        """Return a decorator that registers a notification handler and returns the function unchanged."""

        def register(handler: HandlerT) -> HandlerT:
            self.add_notification_handler(method, handler, params_type=params_type)
            return handler

        return register

    def remove_request_handler(self, method: str) -> None:
        """Remove the handler of a request method, if there is one."""
        self._requests.pop(method, None)

    def add_extension(
        self,
        identifier: str,
        settings: Mapping[str, Any] | None = None,
        *,
        result_types: Iterable[str] = (),
        in_handshake: bool = False,
    ) -> None:
        """Announce an extension and the ``resultType`` values that it defines.

        Args:
            identifier: ``reverse.domain/name``.
            settings: the settings object to announce; ``None`` for an empty one.
            result_types: values of ``resultType`` that only clients with the extension may get.
            in_handshake: announce it to legacy clients too, in the capabilities of ``initialize``.
        """
        self.extensions[identifier] = dict(settings or {})
        if in_handshake:
            self.handshake_extensions.add(identifier)
        for result_type in result_types:
            self.result_types[result_type] = identifier

    # -- reading ----------------------------------------------------------------------------------------------

    @property
    def protection(self) -> ServerProtection | None:
        """The server's protection, as given. It cannot be set: transports that serve already would not use it."""
        return self._protection

    def get_request_handler(self, method: str) -> HandlerEntry | None:
        """Return the handler of a request method; ``None`` if there is none."""
        return self._requests.get(method)

    @property
    def request_handlers(self) -> Mapping[str, HandlerEntry]:
        """The handlers of all request methods, as they are at any time."""
        return self._requests

    def get_notification_handler(self, method: str) -> HandlerEntry | None:
        """Return the handler of a notification method; ``None`` if there is none."""
        return self._notifications.get(method)

    def lifespan(self) -> AbstractAsyncContextManager[LifespanT]:
        """Return the lifespan's context manager; enter it once for each start of the server."""
        return self._lifespan(self)

    def create_initialization_options(self, revision: Revision | None = None) -> InitializationOptions:
        """Return identity and capabilities as announced to a revision; ``None`` means the newest that is served."""
        spoken = REVISIONS[(self.modern_versions or HANDSHAKE_PROTOCOL_VERSIONS)[-1]] if revision is None else revision
        return InitializationOptions(self.server_info, self.capabilities(spoken), self.instructions)

    def capabilities(self, revision: Revision) -> ServerCapabilities:
        """Return the capabilities of the server in a revision, derived from its handlers."""
        bundle: dict[str, Any] = {}
        if "tools/list" in self._requests:  # a server that declares a capability must serve its list method
            bundle["tools"] = self._list_capability(revision, "tools")
        if "prompts/list" in self._requests:
            bundle["prompts"] = self._list_capability(revision, "prompts")
        if "resources/list" in self._requests or "resources/templates/list" in self._requests:
            resources = self._list_capability(revision, "resources")
            if self.resource_updates:
                resources["subscribe"] = True
            bundle["resources"] = resources
        # 2024-11-05 has the method but no capability for it.
        if "completion/complete" in self._requests and revision.has_completions_capability:
            bundle["completions"] = {}
        if self.announces_logging:
            bundle["logging"] = {}
        announced = self.extensions if revision.has_extensions else self.handshake_extensions
        if announced:
            bundle["extensions"] = {name: dict(each) for name, each in self.extensions.items() if name in announced}
        for source in self.capability_sources:
            # After the own ones: an extension may replace a capability by a larger one.
            bundle.update(source(revision))
        return ServerCapabilities(bundle)

    @property
    def announces_logging(self) -> bool:
        """Whether the server may send log messages and serves ``logging/setLevel``."""
        return self.logging or (self.uses_logging is not None and self.uses_logging())

    def changing_lists(self, revision: Revision) -> set[str]:
        """Return the kinds of lists whose changes are published and can be sent to a client of ``revision``."""
        methods = LIST_CHANGED_METHODS
        return {kind for kind in self.list_changed if has_server_notification(revision, methods[kind])}

    def _list_capability(self, revision: Revision, kind: str) -> dict[str, Any]:
        return {"listChanged": True} if kind in self.changing_lists(revision) else {}

    def chain(self, innermost: CallNext) -> CallNext:
        """Return ``innermost`` wrapped in the middleware; composed again only after the list has changed."""
        composed = self._chains.get(innermost)
        # Compared as lists, because applications change `middleware` in place.
        if composed is not None and composed[0] == self.middleware:
            return composed[1]
        call = innermost
        for middleware in reversed(self.middleware):
            call = _wrap(middleware, call)
        if self.unwrap_request is not None and self.middleware:
            call = _unwrapped(self.unwrap_request, call)
        self._chains[innermost] = (list(self.middleware), call)
        return call


def _unwrapped(
    unwrap: Callable[[ServerRequestContext[Any]], ServerRequestContext[Any]], call_next: CallNext
) -> CallNext:
    def call(ctx: ServerRequestContext[Any]) -> Any:
        return call_next(unwrap(ctx))

    return call


def _wrap(middleware: ServerMiddleware[Any], call_next: CallNext) -> CallNext:
    def call(ctx: ServerRequestContext[Any]) -> Any:
        return middleware(ctx, call_next)

    return call
