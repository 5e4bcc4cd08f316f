"""Several servers as one: ``ferrule run mcp.json``.

A server in front of a `proxy` for each of them. A tool ``search`` of the server ``docs`` is ``docs_search``; resources
keep their URIs. Whatever a call brings with it (progress, questions in either era, cancellation, log messages) belongs
to the one proxy that serves it, so nothing of that is done again here: a request is handed on with another name in it.

A server that cannot be reached is left out and said so; it is tried again in the background
(`ferrule.client.groups.supervisor`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio

from ferrule.client.concurrent import gather
from ferrule.client.gateway.proxy import Proxy, proxy
from ferrule.client.groups.names import NameBook, UriBook
from ferrule.client.groups.supervisor import ConnectionSupervisor, Sleep
from ferrule.kernel.builtin import listen as builtin_listen
from ferrule.kernel.builtin import set_level as builtin_set_level
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.errors import (
    FerruleError,
    InvalidParams,
    LocalError,
    MCPError,
    RequestTimeout,
    ResourceNotFound,
)
from ferrule.transports.background import Background
from ferrule.wire.codec import convert
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import REVISIONS
from ferrule.wire.uri_template import UriTemplate, first_match

__all__ = ["gateway"]

logger = logging.getLogger("ferrule.cli.gateway")

OPEN_S: Final = 10.0
"""Seconds that the start waits for servers that do not answer; one that connects later is used from then on."""
LIST_S: Final = 30.0
"""Seconds that a list waits for a server; one that needs longer counts as away until it answers."""
MAX_PAGES: Final = 1000
_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
"""List → the member of its result, and the field that names one."""
_UNKNOWN: Final = (JsonRpcErrorCode.METHOD_NOT_FOUND, JsonRpcErrorCode.INVALID_PARAMS, -32002)


@dataclass(slots=True)
class _GatewayMember:
    name: str
    prefix: str
    proxy: Proxy | None
    keeper: ConnectionSupervisor
    life: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def is_up(self) -> bool:
        return self.keeper.is_up

    @property
    def error(self) -> Exception | None:
        return self.keeper.error


def gateway(
    targets: Mapping[str, Any],
    *,
    name: str = "gateway",
    open_s: float = OPEN_S,
    list_s: float = LIST_S,
    sleep: Sleep = anyio.sleep,
    **options: Any,
) -> Server[Any]:
    """Return one server in front of several.

    Args:
        targets: name → target of a `Client`, or the error that reading its entry gave.
        name: the name of the server that this makes.
        open_s: seconds that the start waits for servers that do not answer.
        list_s: seconds that a list waits for one server.
        sleep: waits between two attempts to reach a server.
        options: for the clients behind, as for `Client`.
    """
    return _Gateway(targets, name, open_s, list_s, sleep, options).server


class _Gateway:
    def __init__(
        self,
        targets: Mapping[str, Any],
        name: str,
        open_s: float,
        list_s: float,
        sleep: Sleep,
        options: Mapping[str, Any],
    ) -> None:
        self.server: Server[Any] = Server(name, lifespan=self._lifespan, middleware=[self._pass_notifications])
        self._open_s = open_s
        self._list_s = list_s
        self._sleep = sleep
        self._background = Background()
        self._templates: list[tuple[UriTemplate | None, str, _GatewayMember]] = []
        self._members: dict[str, _GatewayMember] = {}
        taken: set[str] = set()
        for label, target in targets.items():
            prefix = wanted = (
                re.sub(r"[^A-Za-z0-9_-]+", "_", label) or "server"
            )  # model APIs refuse anything else in a tool's name
            while prefix in taken:
                prefix += "x"
            if prefix != wanted:
                logger.warning("Names of the server %r begin with %r: another one has %r", label, prefix, wanted)
            taken.add(prefix)
            self._members[label] = self._member(label, prefix, target, options)
        prefixes = {label: f"{member.prefix}_" for label, member in self._members.items()}
        self._names = {"tools": NameBook("tool", prefixes), "prompts": NameBook("prompt", prefixes)}
        self._uris = {"resources": UriBook("resource"), "resourceTemplates": UriBook("template")}

    def _member(self, label: str, prefix: str, target: Any, options: Mapping[str, Any]) -> _GatewayMember:
        try:
            if isinstance(target, Exception):
                raise target
            server = proxy(target, **options)
            if server.protection is not None:
                raise ValueError(
                    "it has auth=, and a gateway has no way to get a token: serve it itself, or give its URL"
                )
        except (TypeError, ValueError, KeyError, OSError) as error:
            logger.warning("The server %r is left out: %s", label, error)
            keeper = ConnectionSupervisor(label, _never)
            keeper.error = error
            return _GatewayMember(label, prefix, None, keeper)
        server.bus = self.server.bus  # what changes behind is heard in front

        async def bring_up() -> None:
            await self._bring_up(member)

        made = Proxy.of(server)
        member = _GatewayMember(label, prefix, made, ConnectionSupervisor(label, bring_up, sleep=self._sleep))
        made.use_bus(self.server.bus)
        return member

    # -- life -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        self._background = Background()
        members = [member for member in self._members.values() if member.proxy is not None]
        try:
            for member in members:
                member.keeper.start(self._background)
            with anyio.move_on_after(self._open_s):
                await gather([member.keeper.first_attempt() for member in members])
            if not any(member.is_up for member in members):
                if any(member.error is None for member in members):  # none refused: one may be slow to start
                    await self._one_is_up(members)
                if not any(member.is_up for member in members):
                    why = "; ".join(f"{member.name}: {member.error}" for member in self._members.values())
                    raise LocalError(f"None of the servers can be reached: {why}")
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._background.aclose()
                for member in members:
                    await member.life.aclose()

    async def _one_is_up(self, members: list[_GatewayMember]) -> None:
        """Wait until one server is connected, or every first attempt has failed."""
        await gather([member.keeper.first_attempt() for member in members])

    async def _bring_up(self, member: _GatewayMember) -> None:
        assert member.proxy is not None
        server = member.proxy.server
        await member.life.aclose()
        life = member.life = AsyncExitStack()
        await life.enter_async_context(server.lifespan())
        had = set(self.server.list_changed), self.server.resource_updates
        for method in (*_LISTS, "tools/call", "prompts/get", "resources/read", "completion/complete"):
            if server.get_request_handler(method) is not None:
                self._serve(method)
        self.server.list_changed |= server.list_changed
        self.server.logging = self.server.logging or server.logging
        self.server.add_request_handler("logging/setLevel", self._set_level, params_type=dict[str, Any], trusted=True)
        self.server.instructions = self._instructions()
        if server.resource_updates and not self.server.resource_updates:
            self.server.resource_updates = True
            for method in ("resources/subscribe", "resources/unsubscribe"):
                self.server.add_request_handler(method, self._to_owner, params_type=dict[str, Any], trusted=True)
        self.server.add_request_handler("subscriptions/listen", self._listen, trusted=True)
        for kind in sorted(had[0] & server.list_changed):  # earlier lists did not contain this server
            self.server.bus.publish(Event.list_changed(kind))

    def _serve(self, method: str) -> None:
        handlers: Mapping[str, Any] = {
            "tools/call": self._to_prefixed,
            "prompts/get": self._to_prefixed,
            "resources/read": self._to_owner,
            "completion/complete": self._complete,
        }
        handler = handlers.get(method, self._list)
        self.server.add_request_handler(method, handler, params_type=dict[str, Any], trusted=True)

    def _instructions(self) -> str | None:
        parts = [
            f"{member.prefix}: {member.proxy.server.instructions}"
            for member in self._members.values()
            if member.proxy is not None and member.proxy.server.instructions
        ]
        return "\n\n".join(parts) or None

    def _up(self) -> list[_GatewayMember]:
        """Return the servers that are connected."""
        return [member for member in self._members.values() if member.is_up]

    # -- lists ------------------------------------------------------------------------------------------------------

    async def _list(self, ctx: ServerRequestContext[Any]) -> Any:
        """Return every page of every connected server as one page."""
        key, name = _LISTS[ctx.method]
        pages = [(member, items) for member, items in await self._ask_all(ctx, key) if items is not None]
        made: list[Any] = []
        if key in self._names:
            own_names = [(member.name, [item[name] for item in items]) for member, items in pages]
            shown = self._names[key].merge(own_names)
            for member, items in pages:
                named = [(own, shown.get((member.name, own[name]))) for own in _once_each(items, name)]
                made += [{**own, name: called} for own, called in named if called is not None]
        else:
            found = [(member.name, items) for member, items in pages]
            kept = self._uris[key].merge(found, lambda item: str(item[name]))
            made = [item for _, item in kept]
            if key == "resourceTemplates":
                self._templates = [(_compiled(item[name]), item[name], self._members[server]) for server, item in kept]
        return {key: made}

    async def _ask_all(self, ctx: ServerRequestContext[Any], key: str) -> list[tuple[_GatewayMember, list[Any] | None]]:
        return await gather([self._ask(member, ctx, key) for member in self._up()])

    async def _ask(
        self, member: _GatewayMember, ctx: ServerRequestContext[Any], key: str
    ) -> tuple[_GatewayMember, list[Any] | None]:
        """Return every page of one server; ``None`` where it fails."""
        try:
            with anyio.fail_after(self._list_s):
                return member, await self._pages(member, ctx, key)
        except TimeoutError:
            member.keeper.lose(RequestTimeout(ctx.method, self._list_s), self._answers(member))
        except MCPError as error:
            if error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:
                return member, []
            logger.warning("The server %r did not answer: %s", member.name, error)
        except FerruleError as error:
            member.keeper.lose(error, self._answers(member))
        return member, None

    def _answers(self, member: _GatewayMember) -> Callable[[], Any]:
        """Return an attempt that succeeds once a server answers again."""

        async def attempt() -> None:
            assert member.proxy is not None
            await member.proxy.check(self._list_s)

        return attempt

    async def _pages(self, member: _GatewayMember, ctx: ServerRequestContext[Any], key: str) -> list[Any]:
        _, name = _LISTS[ctx.method]
        items: list[Any] = []
        seen: set[str] = set()
        params = {each: value for each, value in ctx.params.items() if each != "cursor"}
        for _ in range(MAX_PAGES):
            page: Any = await _hand_on(member, replace(ctx, params=params))
            items += page.get(key) if is_list(page.get(key)) else []
            cursor: Any = page.get("nextCursor")
            if cursor is None:
                return items
            if not isinstance(cursor, str) or cursor in seen:
                logger.warning("%s of the server %r gives the cursor %.80r again", ctx.method, member.name, cursor)
                return _once_each(items, name)
            seen.add(cursor)
            params = {**params, "cursor": cursor}
        logger.warning(
            "%s of the server %r has more than %d pages; the rest is left out", ctx.method, member.name, MAX_PAGES
        )
        return items

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _to_prefixed(self, ctx: ServerRequestContext[Any]) -> Any:
        kind = "tools" if ctx.method == "tools/call" else "prompts"
        member, own = await self._split(ctx, kind, ctx.params.get("name"))
        return await _hand_on(member, replace(ctx, params={**ctx.params, "name": own}))

    async def _split(self, ctx: ServerRequestContext[Any], kind: str, name: Any) -> tuple[_GatewayMember, str]:
        if not isinstance(name, str):
            raise InvalidParams(f"Invalid params for {ctx.method}: a name is text")
        names = self._names[kind]
        if names.is_open(name):
            await self._list(replace(ctx, method=f"{kind}/list", params={}))
        found = names.owner(name)
        if found is None:
            raise InvalidParams(f"{name!r} begins with the name of no server")
        member = self._members[found[0]]
        await self._reach(member)
        return member, found[1]

    async def _reach(self, member: _GatewayMember) -> None:
        """A server that is away is tried once more for a request that needs that very one."""
        if not member.is_up and member.proxy is not None:
            with anyio.move_on_after(self._open_s):
                try:
                    await member.keeper.reach()
                except Exception as error:
                    logger.debug("The server %r cannot be reached: %s", member.name, error)
        if not member.is_up:
            raise MCPError(f"The server {member.name!r} cannot be reached", code=JsonRpcErrorCode.INTERNAL_ERROR)

    async def _to_owner(self, ctx: ServerRequestContext[Any]) -> Any:
        """To the server whose resource it is: as listed, or as a template says, or whichever has it."""
        uri: Any = ctx.params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams(f"Invalid params for {ctx.method}: a URI is text")
        owner = self._owner(uri)
        if owner is not None:
            return await _hand_on(owner, ctx)
        last: MCPError | None = None
        is_subscription = ctx.method != "resources/read"
        for member in self._up():
            assert member.proxy is not None
            if is_subscription and not member.proxy.server.resource_updates:
                continue
            try:
                found = await _hand_on(member, ctx)
            except MCPError as error:
                if error.code not in _UNKNOWN:
                    raise
                last = error
            else:
                self._uris["resources"].remember(uri, member.name)
                return found
        raise last or ResourceNotFound(uri, code=ctx.revision.missing_resource_code)

    def _owner(self, uri: str) -> _GatewayMember | None:
        name = self._uris["resources"].owner(uri)
        owner = self._members.get(name) if name is not None else None
        if owner is None:
            found = first_match([template for template, _, _ in self._templates if template], uri)
            if found is not None:
                owner = next(member for template, _, member in self._templates if template is found[0])
        return owner if owner is not None and owner.is_up else None

    async def _complete(self, ctx: ServerRequestContext[Any]) -> Any:
        reference: Any = ctx.params.get("ref")
        if not is_mapping(reference):
            raise InvalidParams("Invalid params for completion/complete: `ref` is an object")
        if reference.get("type") == "ref/prompt":
            member, own = await self._split(ctx, "prompts", reference.get("name"))
            return await _hand_on(member, replace(ctx, params={**ctx.params, "ref": {**reference, "name": own}}))
        uri = reference.get("uri")
        for _, text, member in self._templates:
            if text == uri and member.is_up:
                return await _hand_on(member, ctx)
        raise InvalidParams(f"No server has a template {uri!r}: list them first")

    async def _set_level(self, ctx: ServerRequestContext[Any]) -> Any:
        """Set the log level of every server with the logging capability."""
        typed = convert(ctx.params, REVISIONS[ctx.protocol_version].requests[ctx.method][0])
        result = await builtin_set_level(replace(ctx, params=typed))
        for member in self._up():
            assert member.proxy is not None
            if member.proxy.server.logging:
                await member.proxy.set_level(ctx)
        return result

    async def _listen(self, ctx: ServerRequestContext[Any]) -> Any:
        """Return one stream of the changes of all servers."""
        wanted = [str(uri) for uri in ctx.params.notifications.resource_subscriptions or ()]
        async with AsyncExitStack() as stack:
            for member in self._up():
                assert member.proxy is not None
                uris = [uri for uri in wanted if self._owner(uri) in (None, member)]
                if not member.proxy.server.resource_updates:
                    uris = []
                try:
                    await stack.enter_async_context(member.proxy.changes.forwarding(ctx, uris))
                except FerruleError as error:
                    logger.warning("Changes of the server %r will not be forwarded: %s", member.name, error)
            return await builtin_listen(ctx)

    async def _pass_notifications(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Middleware: what a client says is said to every server."""
        result = await call_next(ctx)
        if ctx.request_id is None:
            for member in self._up():
                assert member.proxy is not None
                await member.proxy.take_notification(ctx)
        return result


async def _never() -> None:
    raise LocalError("Its entry in the configuration is wrong")


async def _hand_on(member: _GatewayMember, ctx: ServerRequestContext[Any]) -> Any:
    assert member.proxy is not None
    entry = member.proxy.server.get_request_handler(ctx.method)
    if entry is None:
        raise InvalidParams(f"The server {member.name!r} does not serve {ctx.method}")
    return await entry.handler(ctx)


def _once_each(items: Iterable[Any], name: str) -> list[Any]:
    """Return the first of each name, in order."""
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(item[name], item)
    return list(found.values())


def _compiled(template: str) -> UriTemplate | None:
    """``None``: it is shown all the same; its resources are looked for everywhere."""
    try:
        return UriTemplate(template)
    except ValueError:
        return None
