"""Several servers as one: ``ferrule run mcp.json``.

A server in front of a `proxy` for each of them. A tool ``search`` of the server ``docs`` is ``docs_search``; resources
keep their URIs. Whatever a call brings with it (progress, questions in either era, cancellation, log messages) belongs
to the one proxy that serves it, so nothing of that is done again here: a request is handed on with another name in it.

A server that cannot be reached is left out and said so; lists try it again after a while.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio
from msgspec import structs

from ferrule.client.concurrent import gather
from ferrule.client.proxy import proxy, watching
from ferrule.kernel.builtin import listen as builtin_listen
from ferrule.kernel.context import ServerRequestContext
from ferrule.kernel.server import Server
from ferrule.protocol.errors import FerruleError, InvalidParams, LocalError, MCPError, ResourceNotFound
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS
from ferrule.wire.types import PromptReference
from ferrule.wire.uri_template import UriTemplate

__all__ = ["gateway"]

logger = logging.getLogger("ferrule.cli.gateway")

RETRY_S: Final = 10.0
"""Seconds after which a list tries a server again that was not there."""
MAX_PAGES: Final = 1000
MAX_OWNED: Final = 10_000
"""URIs whose server is remembered: templates make any number of them. The oldest is looked for anew."""
_LISTS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
}
_UNKNOWN: Final = (JsonRpcErrorCode.METHOD_NOT_FOUND, JsonRpcErrorCode.INVALID_PARAMS, -32002)


@dataclass(slots=True)
class _Member:
    name: str
    prefix: str
    server: Server[Any] | None
    error: Exception | None = None
    tried_at: float = 0.0
    life: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def is_up(self) -> bool:
        return self.server is not None and self.error is None


def gateway(
    targets: Mapping[str, Any], *, name: str = "gateway", clock: Callable[[], float] = time.monotonic, **options: Any
) -> Server[Any]:
    """One server in front of several.

    Args:
        targets: name → target of a `Client`, or the error that reading its entry gave.
        name: of the server that this makes.
        clock: seconds.
        options: for the clients behind, as for `Client`.
    """
    return _Gateway(targets, name, clock, options).server


class _Gateway:
    def __init__(
        self, targets: Mapping[str, Any], name: str, clock: Callable[[], float], options: Mapping[str, Any]
    ) -> None:
        self.server: Server[Any] = Server(name, lifespan=self._lifespan, logging=True)
        self._clock = clock
        self._owners: dict[str, _Member] = {}
        self._templates: list[tuple[UriTemplate, _Member]] = []
        self._members: list[_Member] = []
        taken: set[str] = set()
        for label, target in targets.items():
            prefix = (
                re.sub(r"[^A-Za-z0-9_-]+", "_", label) or "server"
            )  # model APIs refuse anything else in a tool's name
            while prefix in taken:
                prefix += "x"
            taken.add(prefix)
            self._members.append(self._member(label, prefix, target, options))

    def _member(self, label: str, prefix: str, target: Any, options: Mapping[str, Any]) -> _Member:
        try:
            if isinstance(target, Exception):
                raise target
            server = proxy(target, **options)
        except (TypeError, ValueError, KeyError, OSError) as error:
            logger.warning("The server %r is left out: %s", label, error)
            return _Member(label, prefix, None, error)
        server.bus = self.server.bus  # what changes behind is heard in front
        return _Member(label, prefix, server)

    # -- life -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        await gather([self._bring_up(member) for member in self._members if member.server is not None])
        if not any(member.is_up for member in self._members):
            why = "; ".join(f"{member.name}: {member.error}" for member in self._members)
            raise LocalError(f"None of the servers is there: {why}")
        self.server.instructions = self._instructions()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                for member in self._members:
                    await member.life.aclose()

    async def _bring_up(self, member: _Member) -> None:
        assert member.server is not None
        member.tried_at = self._clock()
        try:
            await member.life.enter_async_context(member.server.lifespan())
        except Exception as error:
            logger.warning("The server %r is not there: %s", member.name, error)
            member.error = error
            return
        member.error = None
        for method in (*_LISTS, "tools/call", "prompts/get", "resources/read", "completion/complete"):
            if member.server.get_request_handler(method) is not None:
                self._serve(method)
        self.server.list_changed |= member.server.list_changed
        if member.server.resource_updates and not self.server.resource_updates:
            self.server.resource_updates = True
            for method in ("resources/subscribe", "resources/unsubscribe"):
                self.server.add_request_handler(method, self._to_owner, trusted=True)
            self.server.add_request_handler("subscriptions/listen", self._listen, trusted=True)

    def _serve(self, method: str) -> None:
        handlers: Mapping[str, Any] = {
            "tools/call": self._to_prefixed,
            "prompts/get": self._to_prefixed,
            "resources/read": self._to_owner,
            "completion/complete": self._complete,
        }
        self.server.add_request_handler(method, handlers.get(method, self._list))

    def _instructions(self) -> str | None:
        parts = [
            f"{member.prefix}: {member.server.instructions}"
            for member in self._members
            if member.server is not None and member.server.instructions
        ]
        return "\n\n".join(parts) or None

    async def _up(self) -> list[_Member]:
        """Those that are there; one that was not is tried again after a while."""
        now = self._clock()
        again = [
            member
            for member in self._members
            if member.server is not None and not member.is_up and now - member.tried_at >= RETRY_S
        ]
        await gather([self._bring_up(member) for member in again])
        return [member for member in self._members if member.is_up]

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _list(self, ctx: ServerRequestContext[Any]) -> Any:
        method, key = ctx.method, _LISTS[ctx.method]
        found = await gather([self._items(member, ctx, method, key) for member in await self._up()])
        made: list[Any] = []
        for member, items in found:
            for item in items:
                if key in ("tools", "prompts"):
                    name = f"{member.prefix}_{item.name}"
                    if self._named(name) is not member:
                        continue  # "b_c" of "a" would stand there in the place of "c" of "a_b", which a call reaches
                    item = structs.replace(item, name=name)
                elif key == "resources":
                    uri = str(item.uri)
                    if uri not in self._owners:
                        self._remember(uri, member)
                    elif self._owners[uri] is not member:
                        continue  # the first server that has this URI keeps it
                made.append(item)
        if key == "resource_templates":
            self._templates = _compiled(found)
        return REVISIONS[LATEST_MODERN_VERSION].requests[method][1](**{key: made})

    async def _items(
        self, member: _Member, ctx: ServerRequestContext[Any], method: str, key: str
    ) -> tuple[_Member, list[Any]]:
        """Every page of one server; none where it fails."""
        items: list[Any] = []
        cursor: str | None = None
        try:
            for _ in range(MAX_PAGES):
                page = await _hand_on(member, replace(ctx, params=structs.replace(ctx.params, cursor=cursor)))
                items += getattr(page, key)
                cursor = page.next_cursor
                if cursor is None:
                    break
        except FerruleError as error:
            if getattr(error, "code", None) != JsonRpcErrorCode.METHOD_NOT_FOUND:
                logger.warning("The server %r did not answer: %s", member.name, error)
        return member, items

    async def _to_prefixed(self, ctx: ServerRequestContext[Any]) -> Any:
        member, own = self._split(ctx.params.name)
        return await _hand_on(member, replace(ctx, params=structs.replace(ctx.params, name=own)))

    def _split(self, name: str) -> tuple[_Member, str]:
        member = self._named(name)
        if member is None:
            raise InvalidParams(f"{name!r} begins with the name of no server")
        if not member.is_up:
            raise MCPError(f"The server {member.name!r} is not there", code=JsonRpcErrorCode.INTERNAL_ERROR)
        return member, name[len(member.prefix) + 1 :]

    def _named(self, name: str) -> _Member | None:
        """The server that a name begins with. The longest first: of "a" and "a_b", "a_b_c" belongs to the latter."""
        fitting = [member for member in self._members if name.startswith(f"{member.prefix}_")]
        return max(fitting, key=lambda member: len(member.prefix), default=None)

    async def _to_owner(self, ctx: ServerRequestContext[Any]) -> Any:
        """To the server whose resource it is: as listed, or as a template says, or whichever has it."""
        uri = str(ctx.params.uri)
        owner = self._owner(uri)
        if owner is not None:
            return await _hand_on(owner, ctx)
        last: MCPError | None = None
        is_subscription = ctx.method != "resources/read"
        for member in await self._up():
            if is_subscription and not (member.server is not None and member.server.resource_updates):
                continue
            try:
                found = await _hand_on(member, ctx)
            except MCPError as error:
                if error.code not in _UNKNOWN:
                    raise
                last = error
            else:
                self._remember(uri, member)
                return found
        raise last or ResourceNotFound(uri, code=ctx.revision.missing_resource_code)

    def _remember(self, uri: str, member: _Member) -> None:
        if uri not in self._owners and len(self._owners) >= MAX_OWNED:
            del self._owners[next(iter(self._owners))]
        self._owners[uri] = member

    def _owner(self, uri: str) -> _Member | None:
        owner = self._owners.get(uri)
        if owner is None:
            owner = next((member for template, member in self._templates if template.match(uri) is not None), None)
        return owner if owner is not None and owner.is_up else None

    async def _complete(self, ctx: ServerRequestContext[Any]) -> Any:
        reference = ctx.params.ref
        if isinstance(reference, PromptReference):
            member, own = self._split(reference.name)
            return await _hand_on(
                member, replace(ctx, params=structs.replace(ctx.params, ref=structs.replace(reference, name=own)))
            )
        for template, member in self._templates:
            if str(template) == str(reference.uri) and member.is_up:
                return await _hand_on(member, ctx)
        raise InvalidParams(f"No server has a template {reference.uri!r}: list them first")

    async def _listen(self, ctx: ServerRequestContext[Any]) -> Any:
        """One stream of changes, whoever they come from."""
        async with AsyncExitStack() as stack:
            for uri in ctx.params.notifications.resource_subscriptions or ():
                owner = self._owner(str(uri))
                for member in [owner] if owner is not None else await self._up():
                    if member.server is not None and member.server.resource_updates:
                        await stack.enter_async_context(watching(member.server, [str(uri)]))
            return await builtin_listen(ctx)


async def _hand_on(member: _Member, ctx: ServerRequestContext[Any]) -> Any:
    assert member.server is not None
    entry = member.server.get_request_handler(ctx.method)
    if entry is None:
        raise InvalidParams(f"The server {member.name!r} does not serve {ctx.method}")
    return await entry.handler(ctx)


def _compiled(found: Iterable[tuple[_Member, list[Any]]]) -> list[tuple[UriTemplate, _Member]]:
    made: list[tuple[UriTemplate, _Member]] = []
    for member, items in found:
        for item in items:
            try:
                made.append((UriTemplate(item.uri_template), member))
            except ValueError:  # it is shown all the same; its resources are looked for everywhere
                continue
    return made
