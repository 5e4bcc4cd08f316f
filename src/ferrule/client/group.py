"""Several servers as one: a client per server, their names prefixed, and one dead server that breaks nothing.

A tool ``search`` of the server ``docs`` is ``docs_search``; resources keep their URIs, which say by themselves whose
they are once they were listed. Which servers are there, and why one is not, is in `ClientGroup.servers`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from msgspec.structs import replace

from ferrule._options import check_options
from ferrule.client.calls import ClientCalls
from ferrule.client.concurrent import gather
from ferrule.client.config import GroupTarget, read_target
from ferrule.client.errors import UnknownServer
from ferrule.client.jsonlike import is_mapping
from ferrule.client.options import ClientOptions
from ferrule.client.results import ToolCallResult
from ferrule.protocol.errors import FerruleError
from ferrule.wire.types import GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool

if TYPE_CHECKING:
    from ferrule.client.options import GetPromptOptions, ReadResourceOptions, ToolCallOptions

__all__ = ["ClientGroup", "GroupMember"]

logger = logging.getLogger("ferrule.client")

T = TypeVar("T")


@dataclass(slots=True)
class GroupMember:
    """One server of a group.

    Attributes:
        name: its key in the configuration.
        client: its client; ``None`` where the entry itself is wrong.
        error: why it is not there; ``None`` while it is.
    """

    name: str
    client: ClientCalls | None
    error: Exception | None = None

    @property
    def is_up(self) -> bool:
        """Whether it can be called."""
        return self.client is not None and self.error is None


class ClientGroup:
    """A client of every server in a configuration: ``ClientGroup({"mcpServers": {...}})`` or the path of such a file.

    Opened and closed like a `Client`. Connecting never fails for one server: its member says what is wrong, and the
    next use of the group tries it again.

    Args:
        target: a mapping in the ``mcpServers`` form, the path of a JSON file, or name → any target of `Client`.
        separator: between a server's name and its tools' and prompts'.
        client_class: of the members.
        options: for every client, as for `Client`; ``connect_timeout_s`` is 30 unless given.
    """

    def __init__(
        self,
        target: Any,
        *,
        separator: str = "_",
        client_class: type[ClientCalls] = ClientCalls,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options("ClientGroup", options, ClientOptions)
        found = target if isinstance(target, GroupTarget) else _as_group(target)
        options.setdefault("connect_timeout_s", 30.0)
        self.separator = separator
        self.servers: dict[str, GroupMember] = {}
        self._resources: dict[str, str] = {}
        for name, entry in found.servers.items():
            try:
                if isinstance(entry, Exception):
                    raise entry
                self.servers[name] = GroupMember(name, client_class(entry, **options))
            except (TypeError, ValueError, KeyError, OSError) as error:
                logger.warning("The server %r is left out: %s", name, error)
                self.servers[name] = GroupMember(name, None, error)

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> ClientGroup:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def connect(self) -> ClientGroup:
        """Connect to every server at once; those that fail are noted, not raised."""
        await gather([self._bring_up(member) for member in self.servers.values() if member.client is not None])
        return self

    async def aclose(self) -> None:
        """Close every client. Any task; idempotent."""
        await gather([member.client.aclose() for member in self.servers.values() if member.client is not None])

    async def _bring_up(self, member: GroupMember) -> None:
        assert member.client is not None
        try:
            await member.client.connect()
        except Exception as error:
            logger.warning("The server %r is not there: %s", member.name, error)
            member.error = error
        else:
            member.error = None

    # -- calls ------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> list[Tool]:
        """The tools of every server that answers, under prefixed names."""
        return await self._from_all(lambda client: client.list_tools(), self._prefixed)

    async def list_prompts(self) -> list[Prompt]:
        """The prompts of every server that answers, under prefixed names."""
        return await self._from_all(lambda client: client.list_prompts(), self._prefixed)

    async def list_resources(self) -> list[Resource]:
        """The resources of every server that answers."""
        return await self._from_all(lambda client: client.list_resources(), self._remembered)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """The resource templates of every server that answers."""
        return await self._from_all(lambda client: client.list_resource_templates(), lambda _, template: template)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolCallOptions]
    ) -> ToolCallResult:
        """Call a tool by its prefixed name; see `Client.call_tool`.

        Raises:
            UnknownServer: no server of the group has this prefix.
            LocalError: its server is not there.
        """
        client, own = await self._client_of(name)
        return await client.call_tool(own, arguments, **options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[GetPromptOptions]
    ) -> GetPromptResult:
        """Fill in a prompt by its prefixed name."""
        client, own = await self._client_of(name)
        return await client.get_prompt(own, arguments, **options)

    async def read_resource(
        self, uri: str, *, server: str | None = None, **options: Unpack[ReadResourceOptions]
    ) -> ReadResourceResult:
        """Read a resource.

        Args:
            uri: as listed, or made from a template.
            server: whose it is; not needed once it was listed. Otherwise every server is asked in turn.
        """
        name = server or self._resources.get(uri)
        if name is not None:
            return await (await self.client(name)).read_resource(uri, **options)
        last: Exception | None = None
        for member in self.servers.values():
            if member.client is None or not member.is_up:
                continue
            if member.client.server_capabilities.resources is None:
                continue
            try:
                return await member.client.read_resource(uri, **options)
            except FerruleError as error:
                last = error
        raise last or UnknownServer(f"No server of the group has resources to look for {uri!r} in")

    async def client(self, name: str) -> ClientCalls:
        """The connected client of one server.

        Raises:
            UnknownServer: there is no such server.
            Exception: why it is not there.
        """
        member = self.servers.get(name)
        if member is None:
            raise UnknownServer(f"There is no server {name!r}; there are {', '.join(sorted(self.servers)) or 'none'}")
        if member.client is None:
            assert member.error is not None
            raise member.error
        if not member.is_up:
            await self._bring_up(member)
            if member.error is not None:
                raise member.error
        return member.client

    # -- how ----------------------------------------------------------------------------------------------------------

    async def _client_of(self, name: str) -> tuple[ClientCalls, str]:
        # The longest name first: of "a" and "a_b", "a_b_c" belongs to the latter.
        for server in sorted(self.servers, key=len, reverse=True):
            prefix = server + self.separator
            if name.startswith(prefix):
                return await self.client(server), name[len(prefix) :]
        raise UnknownServer(f"{name!r} has none of the prefixes {', '.join(sorted(self.servers)) or '(no servers)'}")

    async def _from_all(self, ask: Callable[[ClientCalls], Awaitable[list[T]]], name: Callable[[str, T], T]) -> list[T]:
        async def one(member: GroupMember) -> list[T]:
            if member.client is None:
                return []
            if not member.is_up:
                await self._bring_up(member)
            if not member.is_up:
                return []
            try:
                return [name(member.name, item) for item in await ask(member.client)]
            except FerruleError as error:
                if getattr(error, "code", None) != -32601:  # a server without that kind of thing
                    logger.warning("The server %r did not answer: %s", member.name, error)
                return []

        found = await gather([one(member) for member in self.servers.values()])
        return [item for items in found for item in items]

    def _prefixed(self, server: str, item: Any) -> Any:
        return replace(item, name=f"{server}{self.separator}{item.name}")

    def _remembered(self, server: str, item: Any) -> Any:
        self._resources.setdefault(item.uri, server)
        return item


def _as_group(target: Any) -> GroupTarget:
    if is_mapping(target) and not {"mcpServers", "servers", "command", "url", "httpUrl"} & set(target):
        return GroupTarget(dict(target))
    found = read_target(target)
    return found if isinstance(found, GroupTarget) else GroupTarget({"server": found})
