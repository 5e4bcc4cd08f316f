"""A server-side cache of results, for example of a tool that often calls a slow service with the same arguments.

The server's store keeps the results, so that workers with the same store share them. The key of a result is the tool,
the arguments, the revision of the protocol and the *partition*: who may see it. The cache hints of the specification
(2026-07-28, "Caching") are for clients and do not cover ``tools/call``.

Middleware runs before the guard of a tool or resource. A cached result must therefore be returned only after that guard
was checked here.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ferrule.app.application import application_of
from ferrule.app.authorization.principals import principal_id, principal_of, scopes_of
from ferrule.app.execution.running_task import is_task_body
from ferrule.app.middleware.names import names_of
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware, PlainCall
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.kernel.session import ASKED
from ferrule.stores.store import Store
from ferrule.wire.codec import decode, encode, encode_str
from ferrule.wire.faults import EncodeError, FerruleError

if TYPE_CHECKING:
    from ferrule.app.components.component import Component
    from ferrule.app.components.mounting import MountableServer
    from ferrule.app.server import MCPServer
    from ferrule.stores.cache import CacheStore

__all__ = ["CacheResults", "store_of"]

logger = logging.getLogger("ferrule.app")

_THIS_PROCESS: Final = secrets.token_hex(8)
_KINDS: Final = {"tools/call": "name", "resources/read": "uri"}
_NOT_KEPT: Final = ("inputResponses", "requestState", "task")
"""A request with one of these params is a later round of a call, or begins a task: its result is not cached."""

Context = ServerRequestContext[Any]


def store_of(server: Server[Any]) -> Store | None:
    """Return the store of a server, or of the gateway that it belongs to; ``None`` if it has none."""
    application = application_of(server)
    return server.attachments.get(Store) if application is None else application.store


class CacheResults(FastMiddleware):
    """Middleware that returns the cached result of an equal call.

    Only complete results without an error are cached. Input requests, results of calls that asked the client a
    question, task handles and results of later rounds are not. Progress, log messages and notifications are sent only
    when the function runs.

    A *private* result is returned only to the same authenticated principal with the same scopes; without a principal,
    in the same legacy session; without a session, on stdio and in one process, in this process. Over HTTP without
    principal and session, private results are not cached. A *public* result is returned to all that may use the tool.

    Put it last in the list of middleware, so that the others see every request.

    Args:
        ttl_s: seconds that a result is cached.
        tools: names of the cached tools.
        resources: cached URIs; one that ends with ``*`` matches all URIs with that beginning.
        scope: ``"private"`` or ``"public"``.
        vary: called for each request; returns text that is part of the key.
        max_result_bytes: larger results are not cached.

    Raises:
        ValueError: there are neither tools nor resources, or ``ttl_s`` is not positive.
    """

    def __init__(
        self,
        ttl_s: float,
        *,
        tools: Iterable[str] = (),
        resources: Iterable[str] = (),
        scope: Literal["private", "public"] = "private",
        vary: Callable[[Context], str] | None = None,
        max_result_bytes: int = 1 << 20,
    ) -> None:
        self._ttl_s = ttl_s
        self._tools = frozenset(names_of(tools))
        given = names_of(resources)
        self._uris = frozenset(uri for uri in given if not uri.endswith("*"))
        self._uri_starts = tuple(uri[:-1] for uri in given if uri.endswith("*"))
        self._is_public = scope == "public"
        self._vary = vary
        self._max_result_bytes = max_result_bytes
        self._has_warned = False
        if not ttl_s > 0 or not (self._tools or given):
            raise ValueError("CacheResults needs a ttl_s above 0, and names of tools or URIs of resources")
        if scope not in ("private", "public"):
            raise ValueError("scope is private or public")

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        name = self._name(ctx)
        place = None if name is None else self._location_of(ctx, name)
        if name is None or place is None or not self._may_use(ctx, name):
            return await call_next(ctx)
        cache, group, key = place
        try:
            found = await cache.get(group, key)
        except OSError as error:
            logger.warning("the cache cannot be reached, so the call is made: %s", error)
            return await call_next(ctx)
        if found is not None:
            return decode(found)
        result = await call_next(ctx)
        if ASKED in ctx.session.notes:  # the result depends on a user's answer
            return result
        kept = self._kept(result)
        if kept is not None:
            try:
                await cache.put(group, key, kept, ttl_s=self._ttl_s)
            except OSError as error:
                logger.warning("a result could not be kept: %s", error)
        return result

    def admits_fast(self, call: PlainCall) -> bool:
        """Return whether the results of a tool are not cached; the others wait for the store."""
        return call.name not in self._tools

    async def forget(self, server: MCPServer[Any], name: str) -> None:
        """Drop the cached results of a tool (by name) or resource (by URI), because its data have changed.

        Args:
            server: the server; for a tool of a mounted server the outermost one.
            name: as clients request it.

        Raises:
            OSError: the store cannot be reached.
        """
        path = self._path(server)
        if server.store is not None and path is not None:
            await server.store.cache.drop(self._group(server, path, name))

    # --- which requests -----------------------------------------------------------------------------------------------

    def _name(self, ctx: Context) -> str | None:
        """Return the tool's name or the URI of a request whose result may be kept; ``None`` for other requests."""
        kind = _KINDS.get(ctx.method)
        if kind is None or ctx.request_id is None or is_task_body(ctx):
            return None
        params: Any = ctx.params
        if not isinstance(params, Mapping) or any(word in params for word in _NOT_KEPT):
            return None
        name: Any = cast("Mapping[str, Any]", params).get(kind)
        if not isinstance(name, str):
            return None
        if kind == "name":
            return name if name in self._tools else None
        return name if name in self._uris or name.startswith(self._uri_starts) else None

    def _may_use(self, ctx: Context, name: str) -> bool:
        """Return whether the component exists and its guard accepts the request; otherwise its handler raises."""
        app = cast("MCPServer[Any]", application_of(ctx.server))
        if not any(middleware is self for middleware in ctx.server.middleware):
            return True  # middleware of a mounted server runs after the guard was checked
        component: Component[Any]
        if ctx.method == "tools/call":
            tool = app.tools.index.live.get(name)
            if tool is None:
                return False
            component, arguments = tool, ctx.params.get("arguments")
        else:
            found = app.resources.find(name, lambda guard: guard.is_visible(ctx))
            if found is None:
                return False
            component, arguments = found
        guard = component.guard
        if guard is None:
            return True
        if not guard.is_visible(ctx):
            return False
        try:
            guard.check(ctx, lambda: component.bind(arguments))
        except FerruleError:  # the handler raises it
            return False
        return True

    # --- under which key ----------------------------------------------------------------------------------------------

    def _location_of(self, ctx: Context, name: str) -> tuple[CacheStore, str, str] | None:
        app = cast("MCPServer[Any] | None", application_of(ctx.server))
        if app is None or app.store is None:
            return None
        path, partition = self._path(app), self._partition(ctx)
        if path is None or partition is None:
            return None
        asked = {word: value for word, value in ctx.params.items() if word != "_meta"}
        varied = "" if self._vary is None else self._vary(ctx)
        try:
            key = encode_str([ctx.method, ctx.protocol_version, partition, varied, sorted(asked.items())])
        except (EncodeError, TypeError):
            return None
        return app.store.cache, self._group(app, path, name), key

    @staticmethod
    def _group(app: MCPServer[Any], path: str, name: str) -> str:
        return encode_str(["result", app.name, app.version, path, name])

    def _partition(self, ctx: Context) -> list[Any] | None:
        """Return the part of the key for those that may get this result; ``None`` if it must not be cached."""
        principal = principal_of(ctx)
        if self._is_public:
            # Public within a tenant. An authenticator of the program may return any object.
            tenant = getattr(principal, "tenant", None)
            return [] if tenant is None else ["tenant", str(tenant)]
        if principal is not None:
            return ["principal", principal_id(principal), sorted(map(str, scopes_of(principal)))]
        if ctx.session.session_id is not None:
            return ["session", ctx.session.session_id]
        if not ctx.transport.is_network:
            return ["process", _THIS_PROCESS]
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "CacheResults caches no private results of anonymous requests: "
                "authenticate them, or set scope='public' if all may see the same"
            )
        return None

    def _path(self, app: MountableServer) -> str | None:
        """Return the mount path of the server with this middleware, which distinguishes tools of the same name.

        ``None`` if more than one server has it.
        """
        found = list(self._paths(app, ""))
        return found[0] if len(found) == 1 else None

    def _paths(self, app: MountableServer, path: str) -> Iterable[str]:
        if any(middleware is self for middleware in app.lowlevel.middleware):
            yield path
        for number, mount in enumerate(app.mounts):
            yield from self._paths(mount.server, f"{path}/{number}")

    def _kept(self, result: Any) -> bytes | None:
        """Return the encoded result to cache; ``None`` for one that is not cached."""
        try:
            encoded = encode(result)
        except EncodeError:
            return None
        if len(encoded) > self._max_result_bytes:
            return None
        facts: Any = decode(encoded)
        if not isinstance(facts, dict):
            return None
        found = cast("dict[str, Any]", facts)
        is_complete = found.get("resultType") in (None, "complete") and "task" not in found
        return encoded if is_complete and found.get("isError") is not True else None
