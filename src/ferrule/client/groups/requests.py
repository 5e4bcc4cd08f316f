"""The requests of a group: each goes to the server that a name, a URI or ``server=`` means."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from msgspec.structs import replace

from ferrule.client.calls.request_sender import NOT_GIVEN
from ferrule.client.calls.results import ToolCallResult
from ferrule.client.calls.tasks import TaskHandle
from ferrule.client.client import Client
from ferrule.client.concurrent import gather
from ferrule.client.errors import UnknownServer
from ferrule.client.groups.lists import MemberLists
from ferrule.client.groups.member import GroupMember
from ferrule.client.groups.names import NameBook, UriBook
from ferrule.protocol.capabilities import SKILLS_EXTENSION, extension_settings
from ferrule.protocol.errors import FerruleError, LocalError
from ferrule.transports.background import Background
from ferrule.wire.json_types import is_mapping
from ferrule.wire.types import (
    Completion,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    Tool,
)

if TYPE_CHECKING:
    from ferrule.client.groups.finder import ToolFinder
    from ferrule.client.options import (
        ClientOptions,
        CompleteOptions,
        GetPromptOptions,
        ReadResourceOptions,
        StartToolOptions,
        ToolCallOptions,
    )
    from ferrule.client.skills.skill import ServerSkill
    from ferrule.kernel.dispatch import OnProgress

__all__ = ["GroupRequests", "wanted_uris"]

logger = logging.getLogger("ferrule.client")

T = TypeVar("T")


class GroupRequests:
    """The requests of a `ferrule.ClientGroup`, which makes these attributes.

    Attributes:
        separator: the text between the name of a server and that of a tool or prompt.
        servers: name → the server.
        retry_safe: call a tool once more after the connection was lost, if the tool says that this is safe.
    """

    separator: str
    servers: dict[str, GroupMember]
    retry_safe: bool
    _tools: NameBook
    _prompts: NameBook
    _resources: UriBook
    _templates: UriBook
    _lists: MemberLists
    _background: Background
    _options: ClientOptions
    _finder: ToolFinder | None = None

    # -- lists ------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> list[Tool]:
        """Return the tools of every connected server, in the order of the configuration, under names of the group."""
        return self._named(self._tools, await self._listed_tools())

    async def list_tools_page(self, cursor: str | None = None, *, server: str) -> ListToolsResult:
        """Return one page of the tools of one server, under their names with the prefix, which calls understand.

        Args:
            cursor: the last page's ``next_cursor``.
            server: the name of the server.

        Raises:
            UnknownServer, LocalError: as `client`.
        """
        page = await self._ask("tools/list", server, lambda client: client.list_tools_page(cursor))
        member = self.servers[server]
        known = dict(member.tools)
        shown = member.shown(page.tools)
        member.tools = {**known, **member.tools}
        named = [replace(tool, name=self._tools.full(server, tool.name)) for tool in shown]
        return replace(page, tools=named)

    async def search_tools(self, query: str, *, limit: int = 8) -> list[Tool]:
        """Return the tools that a query finds, under names of the group, the best first; none for an empty query.

        For programs that give a model only the tools that fit its task. The tools of a server that lists a search in
        place of them (``tool_search=``) are found, too.

        Args:
            query: what is to be done, in a few words.
            limit: how many tools are returned at most.

        Raises:
            ValueError: ``limit`` is below 1.
            RuntimeError: this Python's SQLite was built without FTS5.
        """
        if limit < 1:
            raise ValueError(f"limit is 1 or more, not {limit}")
        from ferrule.client.groups.behind_search import has_search
        from ferrule.client.groups.finder import ToolFinder  # loads SQLite

        if self._finder is None:
            self._finder = ToolFinder()
        found = await self._listed_tools()
        clients = {name: self.servers[name].client for name, tools in found if has_search(tools)}
        searching = {name + self.separator: client for name, client in clients.items() if client is not None}
        return await self._finder.find(self._named(self._tools, found), searching, query, limit)

    async def list_prompts(self) -> list[Prompt]:
        """Return the prompts of every connected server, under names of the group."""
        return self._named(self._prompts, await self._from_all("prompts", lambda client: client.list_prompts()))

    async def list_prompts_page(self, cursor: str | None = None, *, server: str) -> ListPromptsResult:
        """Return one page of the prompts of one server; see `list_tools_page`."""
        page = await self._ask("prompts/list", server, lambda client: client.list_prompts_page(cursor))
        named = [replace(prompt, name=self._prompts.full(server, prompt.name)) for prompt in page.prompts]
        return replace(page, prompts=named)

    async def list_resources(self) -> list[Resource]:
        """Return the resources of every connected server. A URI that several have belongs to the first of them."""
        found = await self._from_all("resources", lambda client: client.list_resources())
        return [item for _, item in self._resources.merge(found, lambda item: item.uri)]

    async def list_resources_page(self, cursor: str | None = None, *, server: str) -> ListResourcesResult:
        """Return one page of the resources of one server; see `list_tools_page`."""
        return await self._ask("resources/list", server, lambda client: client.list_resources_page(cursor))

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return the resource templates of every connected server."""
        found = await self._from_all("resource templates", lambda client: client.list_resource_templates())
        return [item for _, item in self._templates.merge(found, lambda item: item.uri_template)]

    async def list_resource_templates_page(
        self, cursor: str | None = None, *, server: str
    ) -> ListResourceTemplatesResult:
        """Return one page of the resource templates of one server; see `list_tools_page`."""
        return await self._ask(
            "resources/templates/list", server, lambda client: client.list_resource_templates_page(cursor)
        )

    async def list_skills(self) -> list[ServerSkill]:
        """Return the skills of every connected server that offers them; each has the name of its server.

        Skills of several servers may have the same name or the same URI: none takes the place of another. Their
        ``label`` and ``identity`` tell them apart.
        """
        found = await self._from_all("skills", _skills_of)
        return [skill for _, skills in found for skill in skills]

    async def skills(self) -> list[ServerSkill]:
        """Return the skills of every connected server; the same as `list_skills`."""
        return await self.list_skills()

    # -- tools --------------------------------------------------------------------------------------------------------

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolCallOptions]
    ) -> ToolCallResult:
        """Call a tool by its name in the group; see `Client.call_tool`.

        If the connection is lost during the call, it is sent once more where the tool was listed with ``readOnlyHint``
        or ``idempotentHint``, unless the group was made with ``retry_safe=False``.

        Raises:
            UnknownServer: no server of the group has this name.
            ServerUnavailable: its server has failed repeatedly.
            LocalError: its server is not connected, or the connection was lost during the call.
        """
        member, own = await self._tool(name)
        return await member.call_tool(own, arguments, options, repeats=self.retry_safe)

    async def start_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[StartToolOptions]
    ) -> TaskHandle:
        """Start a tool as a task by its name in the group; see `Client.start_tool`.

        Raises:
            UnknownServer, LocalError: as `call_tool`.
        """
        member, own = await self._tool(name)
        async with member.session("tools/call") as client:
            return await client.start_tool(own, arguments, **options)

    def task(self, task_id: str, *, server: str, tool: str = "", result_type: Any = None) -> TaskHandle:
        """Return a handle for a task that was begun earlier at one server; see `Client.task`.

        Raises:
            UnknownServer: there is no such server.
        """
        client = self._member(server).client
        if client is None:
            raise LocalError(f"The server {server!r} cannot be used: {self.servers[server].error}")
        return client.task(task_id, tool=tool, result_type=result_type)

    # -- prompts, resources, skills -----------------------------------------------------------------------------------

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[GetPromptOptions]
    ) -> GetPromptResult:
        """Fill in a prompt by its name in the group."""
        server, own = await self._owner(self._prompts, name)
        return await self._ask("prompts/get", server, lambda client: client.get_prompt(own, arguments, **options))

    async def read_resource(
        self, uri: str, *, server: str | None = None, **options: Unpack[ReadResourceOptions]
    ) -> ReadResourceResult:
        """Read a resource.

        Args:
            uri: as listed, or made from a template.
            server: the server that has it; not needed after it was listed. Otherwise every server is tried in turn.
            options: as for `Client.read_resource`.
        """

        async def read(client: Client) -> ReadResourceResult:
            return await client.read_resource(uri, **options)

        name = server or self._resources.owner(uri)
        if name is not None:
            return await self._ask("resources/read", name, read)
        last: Exception | None = None
        for member in list(self.servers.values()):
            if member.client is None or not member.is_up or member.client.server_capabilities.resources is None:
                continue
            try:
                return await self._ask("resources/read", member.name, read)
            except FerruleError as error:
                last = error
        raise last or UnknownServer(f"No server of the group has resources to look for {uri!r} in")

    async def complete(
        self,
        reference: PromptReference | ResourceTemplateReference | Mapping[str, Any],
        argument: str,
        value: str,
        *,
        server: str | None = None,
        **options: Unpack[CompleteOptions],
    ) -> Completion:
        """Return suggestions for an argument of a prompt, by its name in the group, or of a resource template.

        Args:
            reference, argument, value: as for `Client.complete`.
            server: the server of a template that was not listed.
            options: as for `Client.complete`.

        Raises:
            UnknownServer: no server has the prompt or the template.
        """
        kind, key = _reference(reference)
        if kind == "ref/prompt":
            server, own = await self._owner(self._prompts, key)
            asked: Any = {"type": kind, "name": own}
        else:
            server, asked = server or self._templates.owner(key) or self._resources.owner(key), reference
            if server is None:
                raise UnknownServer(f"No listed template is {key!r}; name its server with server=")
        return await self._ask(
            "completion/complete", server, lambda client: client.complete(asked, argument, value, **options)
        )

    async def get_skill(self, uri: str, *, server: str) -> ServerSkill:
        """Return one skill of one server by its URI; see `Client.get_skill`.

        Raises:
            UnknownServer, LocalError: as `client`.
        """
        return await self._ask("skills/get", server, lambda client: client.get_skill(uri))

    async def read_directory(self, uri: str, *, server: str) -> list[Resource]:
        """Return what is directly in a directory of one server; see `Client.read_directory`."""
        return await self._ask("resources/directory/read", server, lambda client: client.read_directory(uri))

    # -- one request, ping, log level, roots --------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        server: str,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send any request to one server, with the server's own names, and return its result; see `Client.request`."""

        async def send(client: Client) -> dict[str, Any]:
            return await client.request(
                method, params, timeout_s=timeout_s, max_total_s=max_total_s, on_progress=on_progress, meta=meta
            )

        return await self._ask(method, server, send)

    async def ping(self, *, timeout_s: float | None = 10.0, server: str | None = None) -> dict[str, Exception | None]:
        """Check which servers respond.

        Args:
            timeout_s: seconds that each has; ``None``: no bound.
            server: the only server to ask; ``None``: all. Those that are not connected are not asked.

        Returns:
            Name → ``None``, or the error.

        Raises:
            UnknownServer: there is no server of this name.
        """

        async def one(member: GroupMember) -> tuple[str, Exception | None]:
            if not member.is_up:
                return member.name, member.error or LocalError(f"{member.name} is not connected yet")
            try:
                await self._ask("ping", member.name, lambda client: client.ping(timeout_s=timeout_s))
            except FerruleError as error:
                return member.name, error
            return member.name, None

        members = self.servers.values() if server is None else [self._member(server)]
        return dict(await gather([one(member) for member in members]))

    async def notify_roots_changed(self) -> None:
        """Tell every connected server that the roots have changed; see `Client.notify_roots_changed`."""

        async def one(member: GroupMember) -> None:
            if member.client is not None and member.client.is_connected:
                await member.client.notify_roots_changed()

        await gather([one(member) for member in self.servers.values()])

    async def set_log_level(self, level: LoggingLevel | None) -> None:
        """Set the level of log messages of every server, also of those that connect later; see `Client.set_log_level`.

        A server that refuses it is named in the log."""
        self._options["log_level"] = level

        async def one(member: GroupMember) -> None:
            try:
                if member.client is not None:
                    await member.client.set_log_level(level)
            except FerruleError as error:
                if member.is_up:
                    logger.warning("The server %r did not take the level of log messages: %s", member.name, error)

        await gather([one(member) for member in self.servers.values()])

    # -- names and servers --------------------------------------------------------------------------------------------

    async def client(self, name: str) -> Client:
        """Return the connected client of one server; a server that is not connected is tried once more.

        Raises:
            UnknownServer: there is no such server.
            ServerUnavailable: it has failed repeatedly.
            Exception: the reason why the attempt to connect failed.
        """
        return await self._member(name).reached()

    def _member(self, name: str) -> GroupMember:
        member = self.servers.get(name)
        if member is None:
            raise UnknownServer(f"There is no server {name!r}; there are {', '.join(sorted(self.servers)) or 'none'}")
        return member

    async def _ask(self, method: str, server: str, ask: Callable[[Client], Awaitable[T]]) -> T:
        async with self._member(server).session(method) as client:
            return await ask(client)

    async def _tool(self, name: str) -> tuple[GroupMember, str]:
        server, own = await self._owner(self._tools, name)
        member = self._member(server)
        return member, member.own_name(own)

    async def _owner(self, names: NameBook, name: str) -> tuple[str, str]:
        if names.is_open(name):  # with the servers "a" and "a_b", "a_b_c" is ambiguous
            await (self.list_tools() if names is self._tools else self.list_prompts())
        found = names.owner(name)
        if found is None:
            raise UnknownServer(
                f"{name!r} has none of the prefixes {', '.join(sorted(self.servers)) or '(no servers)'}"
            )
        return found

    async def _listed_tools(self) -> list[tuple[str, list[Tool]]]:
        found = await self._from_all("tools", lambda client: client.list_tools())
        return [(name, self.servers[name].shown(tools)) for name, tools in found if name in self.servers]

    async def _from_all(self, kind: str, ask: Callable[[Client], Awaitable[list[T]]]) -> list[tuple[str, list[T]]]:
        return await self._lists.of_all(list(self.servers.values()), kind, ask, self._background)

    def _named(self, names: NameBook, found: list[tuple[str, list[Any]]]) -> list[Any]:
        shown = names.merge([(server, [item.name for item in items]) for server, items in found])
        made: list[Any] = []
        for server, items in found:
            for item in items:
                name = shown.pop((server, item.name), None)
                if name is not None:
                    made.append(replace(item, name=name))
        return made


async def _skills_of(client: Client) -> list[ServerSkill]:
    if extension_settings(client.server_capabilities, SKILLS_EXTENSION) is None:
        return []
    return await client.list_skills()


def _reference(reference: Any) -> tuple[str, str]:
    """Return type and name, or type and URI, of what is completed."""
    if is_mapping(reference):
        kind: Any = reference.get("type")
        key: Any = reference.get("name") if kind == "ref/prompt" else reference.get("uri")
    else:
        is_prompt = isinstance(reference, PromptReference)
        kind, key = ("ref/prompt", reference.name) if is_prompt else ("ref/resource", reference.uri)
    if kind not in ("ref/prompt", "ref/resource") or not isinstance(key, str):
        raise ValueError("A reference is that of a prompt, with its name, or of a resource template, with its URI")
    return kind, key


def wanted_uris(uris: Iterable[str], owner: Callable[[str], str | None], server: str) -> list[str]:
    """Return the URIs that one server is asked about: its own, and those whose server is not known."""
    return [uri for uri in map(str, uris) if owner(uri) in (None, server)]
