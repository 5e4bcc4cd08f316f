"""Several servers as one: a client per server, their names prefixed, and one dead server that breaks nothing.

A tool ``search`` of the server ``docs`` is ``docs_search``; resources keep their URIs, which say by themselves whose
they are once they were listed. Which servers are there, and why one is not, is in `ClientGroup.servers`; one that is
not is tried again in the background (`ferrule.client.groups.supervisor`), and no list waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

import anyio
from msgspec.structs import replace

from ferrule._options import check_options
from ferrule.client.calls.results import ToolCallResult
from ferrule.client.calls.tasks import TaskHandle
from ferrule.client.client import Client
from ferrule.client.concurrent import gather
from ferrule.client.config import read_target
from ferrule.client.errors import UnknownServer
from ferrule.client.groups.names import NameBook, UriBook
from ferrule.client.groups.supervisor import ConnectionSupervisor, Sleep
from ferrule.client.options import ClientOptions
from ferrule.client.targets import GroupTarget
from ferrule.protocol.errors import FerruleError, LocalError, MCPError, RequestTimeout
from ferrule.transports.background import Background
from ferrule.wire.json_types import is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.types import (
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

if TYPE_CHECKING:
    from ferrule.client.options import (
        GetPromptOptions,
        ReadResourceOptions,
        StartToolOptions,
        ToolCallOptions,
    )

__all__ = ["ClientGroup", "GroupMember"]

logger = logging.getLogger("ferrule.client")

T = TypeVar("T")

OPEN_S: Final = 10.0
"""Seconds that connecting waits for servers that do not answer."""


class GroupMember:
    """One server of a group.

    Attributes:
        name: its key in the configuration.
        client: its client; ``None`` where the entry itself is wrong.
    """

    __slots__ = ("client", "keeper", "name")

    def __init__(self, name: str, client: Client | None, keeper: ConnectionSupervisor) -> None:
        self.name = name
        self.client = client
        self.keeper = keeper

    def __repr__(self) -> str:
        return f"GroupMember({self.name!r}, {'up' if self.is_up else f'error={self.error!r}'})"

    @property
    def error(self) -> Exception | None:
        """Why it is not connected; ``None`` while it is, and during the first attempt."""
        return self.keeper.error

    @property
    def is_up(self) -> bool:
        """Whether it can be called."""
        return self.client is not None and self.keeper.is_up


class ClientGroup:
    """A client of every server in a configuration: ``ClientGroup({"mcpServers": {...}})`` or the path of such a file.

    Opened and closed like a `Client`. Connecting never fails for one server: its member says what is wrong, and it is
    tried again in the background, after 1 s, 2 s, 4 s … up to a minute. Lists leave it out until it is connected.

    Args:
        target: a mapping in the ``mcpServers`` form, the path of a JSON file, or name → any target of `Client`.
        separator: between a server's name and its tools' and prompts'.
        client_class: the class of the members.
        open_s: seconds that connecting waits for servers that do not answer; they go on connecting meanwhile.
        sleep: waits between two attempts to reach a server: ``await sleep(seconds)``.
        options: for every client, as for `Client`; ``connect_timeout_s`` is 30 unless given. A list waits as long for
            one server, which then counts as away until it answers that list.
    """

    def __init__(
        self,
        target: Any,
        *,
        separator: str = "_",
        client_class: type[Client] = Client,
        open_s: float = OPEN_S,
        sleep: Sleep = anyio.sleep,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options("ClientGroup", options, ClientOptions)
        found = target if isinstance(target, GroupTarget) else _as_group(target)
        options.setdefault("connect_timeout_s", 30.0)
        self.separator = separator
        self.servers: dict[str, GroupMember] = {}
        self._open_s = open_s
        self._list_s = cast("float", options.get("connect_timeout_s"))
        self._sleep = sleep
        self._background = Background()
        for name, entry in found.servers.items():
            self.servers[name] = self._member(name, entry, client_class, options)
        prefixes = {name: name + separator for name in self.servers}
        self._tools, self._prompts = NameBook("tool", prefixes), NameBook("prompt", prefixes)
        self._resources, self._templates = UriBook("resource"), UriBook("template")

    def _member(self, name: str, entry: Any, client_class: type[Client], options: ClientOptions) -> GroupMember:
        try:
            if isinstance(entry, Exception):
                raise entry
            client = client_class(entry, **options)
        except (TypeError, ValueError, KeyError, OSError) as error:
            logger.warning("The server %r is left out: %s", name, error)
            keeper = ConnectionSupervisor(name, _never)
            keeper.error = error
            return GroupMember(name, None, keeper)
        client.known_as = name

        async def attempt() -> None:
            await client.connect()

        return GroupMember(name, client, ConnectionSupervisor(name, attempt, sleep=self._sleep))

    # -- open and close ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> ClientGroup:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def connect(self) -> ClientGroup:
        """Connect to every server at once; those that fail are noted, not raised, and those that do not answer within
        ``open_s`` are not waited for."""
        self._background = Background()
        members = [member for member in self.servers.values() if member.client is not None]
        for member in members:
            member.keeper.start(self._background)
        try:
            with anyio.move_on_after(self._open_s):
                await gather([member.keeper.first_attempt() for member in members])
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def aclose(self) -> None:
        """Close every client. Any task; idempotent."""
        await self._background.aclose()
        await gather([member.client.aclose() for member in self.servers.values() if member.client is not None])

    # -- calls ------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> list[Tool]:
        """Return the tools of every connected server, under prefixed names."""
        return self._named(self._tools, await self._from_all("tools", lambda client: client.list_tools()))

    async def list_prompts(self) -> list[Prompt]:
        """Return the prompts of every connected server, under prefixed names."""
        return self._named(self._prompts, await self._from_all("prompts", lambda client: client.list_prompts()))

    async def list_resources(self) -> list[Resource]:
        """Return the resources of every connected server. A URI that several have belongs to the first of them."""
        found = await self._from_all("resources", lambda client: client.list_resources())
        return [item for _, item in self._resources.merge(found, lambda item: item.uri)]

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return the resource templates of every connected server."""
        found = await self._from_all("resources", lambda client: client.list_resource_templates())
        return [item for _, item in self._templates.merge(found, lambda item: item.uri_template)]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolCallOptions]
    ) -> ToolCallResult:
        """Call a tool by its prefixed name; see `Client.call_tool`.

        Raises:
            UnknownServer: no server of the group has this prefix.
            LocalError: its server is not connected.
        """
        client, own = await self._client_of(self._tools, name)
        return await client.call_tool(own, arguments, **options)

    async def start_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[StartToolOptions]
    ) -> TaskHandle:
        """Start a tool as a task by its prefixed name; see `Client.start_tool`.

        Raises:
            UnknownServer, LocalError: as `call_tool`.
        """
        client, own = await self._client_of(self._tools, name)
        return await client.start_tool(own, arguments, **options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[GetPromptOptions]
    ) -> GetPromptResult:
        """Fill in a prompt by its prefixed name."""
        client, own = await self._client_of(self._prompts, name)
        return await client.get_prompt(own, arguments, **options)

    async def read_resource(
        self, uri: str, *, server: str | None = None, **options: Unpack[ReadResourceOptions]
    ) -> ReadResourceResult:
        """Read a resource.

        Args:
            uri: as listed, or made from a template.
            server: whose it is; not needed once it was listed. Otherwise every server is asked in turn.
        """
        name = server or self._resources.owner(uri)
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

    async def client(self, name: str) -> Client:
        """Return the connected client of one server; a server that is not connected is tried once more.

        Raises:
            UnknownServer: there is no such server.
            Exception: the reason why the attempt to connect failed.
        """
        member = self.servers.get(name)
        if member is None:
            raise UnknownServer(f"There is no server {name!r}; there are {', '.join(sorted(self.servers)) or 'none'}")
        if member.client is None:
            assert member.error is not None
            raise member.error
        if not member.is_up:
            await member.keeper.reach()
        return member.client

    # -- how ----------------------------------------------------------------------------------------------------------

    async def _client_of(self, names: NameBook, name: str) -> tuple[Client, str]:
        if names.is_open(name):  # of "a" and "a_b", "a_b_c" may be either's
            await (self.list_tools() if names is self._tools else self.list_prompts())
        found = names.owner(name)
        if found is None:
            raise UnknownServer(
                f"{name!r} has none of the prefixes {', '.join(sorted(self.servers)) or '(no servers)'}"
            )
        return await self.client(found[0]), found[1]

    async def _from_all(self, kind: str, ask: Callable[[Client], Awaitable[list[T]]]) -> list[tuple[str, list[T]]]:
        """Return what each connected server has, without those that fail."""

        async def one(member: GroupMember) -> tuple[str, list[T]] | None:
            items = await self._from_one(member, kind, ask)
            return None if items is None else (member.name, items)

        found = await gather([one(member) for member in self.servers.values() if member.is_up])
        return [each for each in found if each is not None]

    async def _from_one(
        self, member: GroupMember, kind: str, ask: Callable[[Client], Awaitable[list[T]]]
    ) -> list[T] | None:
        client = cast("Client", member.client)

        async def attempt() -> None:
            with anyio.fail_after(self._list_s):
                await ask(client)

        try:
            with anyio.fail_after(self._list_s):
                return await ask(client)
        except TimeoutError:
            member.keeper.lose(RequestTimeout(f"the list of {kind}", self._list_s), attempt)
        except MCPError as error:
            if error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:  # a server without that kind of thing
                return []
            logger.warning("The server %r did not answer: %s", member.name, error)
        except FerruleError as error:
            member.keeper.lose(error, attempt)
        return None

    def _named(self, names: NameBook, found: list[tuple[str, list[Any]]]) -> list[Any]:
        shown = names.merge([(server, [item.name for item in items]) for server, items in found])
        made: list[Any] = []
        for server, items in found:
            for item in items:
                name = shown.pop((server, item.name), None)
                if name is not None:
                    made.append(replace(item, name=name))
        return made


async def _never() -> None:
    raise LocalError("Its entry in the configuration is wrong")


def _as_group(target: Any) -> GroupTarget:
    if is_mapping(target) and not {"mcpServers", "servers", "command", "url", "httpUrl"} & set(target):
        return GroupTarget(dict(target))
    found = read_target(target)
    return found if isinstance(found, GroupTarget) else GroupTarget({"server": found})
