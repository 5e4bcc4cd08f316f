"""Several servers as one client: sessions with each, names without doubt, and no failure of the group for one server.

A tool ``search`` of the server ``docs`` is called ``docs_search``. Resources keep their URIs; a list shows which server
has which URI. `ClientGroup.servers` has the state of each server. The group connects in the background
(`ferrule.client.supervision`), and no request waits for another server than its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import anyio

from ferrule._options import check_options
from ferrule.client.calls.subscriptions import Subscription
from ferrule.client.client import Client
from ferrule.client.concurrent import gather
from ferrule.client.config_settings import ServerSettings
from ferrule.client.groups.changes import GroupSubscription
from ferrule.client.groups.handlers import handlers_for
from ferrule.client.groups.lists import LIST_S, MemberLists
from ferrule.client.groups.member import MAX_SESSIONS, GroupMember
from ferrule.client.groups.names import NameBook, PrefixMode, UriBook
from ferrule.client.groups.reloading import ReloadReport, difference, read_group_target
from ferrule.client.groups.requests import GroupRequests, wanted_uris
from ferrule.client.options import ClientOptions
from ferrule.client.supervision.feed import StatusFeed, StatusObserver, StatusWatch
from ferrule.client.supervision.opening import wait_opened
from ferrule.client.supervision.policy import DEFAULT_POLICY, ReconnectPolicy
from ferrule.client.supervision.supervisor import ConnectionSupervisor, Sleep
from ferrule.transports.background import Background

if TYPE_CHECKING:
    from ferrule.client.bridges.apis.known import ApiName
    from ferrule.client.bridges.bridge import Answer
    from ferrule.client.bridges.options import AnswerOptions, ToolsForOptions
    from ferrule.client.settings import ClientMiddleware

__all__ = ["ClientGroup", "GroupMember"]

logger = logging.getLogger("ferrule.client")

OPEN_S: Final = 0.6
"""Seconds that `ClientGroup.connect` waits for servers that do not respond."""
DRAIN_S: Final = 30.0
"""Seconds that calls have to end at a server that a new configuration removes or changes."""


class ClientGroup(GroupRequests):
    """A client of every server in a configuration: ``ClientGroup({"mcpServers": {...}})`` or the path of such a file.

    It is opened and closed like a `Client`. A server that cannot be reached does not make connecting fail: its member
    has the state and the error, and further attempts follow in the background, after 1 s, 2 s, 4 s … up to a minute.
    Lists leave it out until it is connected.

    Args:
        target: a mapping in the ``mcpServers`` form, the path of a JSON file, or name → any target of `Client`.
        separator: the text between the name of a server and that of a tool or prompt.
        prefix: ``"always"``, or ``"when needed"``: only a name that another server has already gets the prefix.
        name_limit: the most characters of the name of a tool or prompt (model APIs take 64); longer ones are cut, and
            end with a hash. ``None``: no limit. At least 16.
        sessions: the most sessions with one server, or by its name: more than one where calls of one session block
            each other. They are opened when all others are in use.
        client_class: the class of the members.
        open_s: seconds that `connect` waits for servers that do not respond; they continue to connect after it. As long
            as none is connected, it waits for the first. `ready` waits for all.
        list_s: seconds that a list waits for one server; then it has what that server listed last, if anything.
        retry_safe: call a tool once more after the connection was lost, if the tool says that this is safe.
        policy: the pauses between attempts to connect, and when the circuit of a server opens.
        sleep: waits between two attempts to reach a server: ``await sleep(seconds)``.
        options: for every client, as for `Client`; ``connect_timeout_s`` is 30 unless given. A server that needs longer
            for a list counts as unreachable until it responds to that list. ``timeout``, ``connectTimeout`` and
            ``maxConcurrent`` in the entry of a server are for that one.
    """

    def __init__(
        self,
        target: Any,
        *,
        separator: str = "_",
        prefix: PrefixMode = "always",
        name_limit: int | None = None,
        sessions: int | Mapping[str, int] = 1,
        client_class: type[Client] = Client,
        open_s: float = OPEN_S,
        list_s: float = LIST_S,
        retry_safe: bool = True,
        policy: ReconnectPolicy = DEFAULT_POLICY,
        sleep: Sleep = anyio.sleep,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options("ClientGroup", options, ClientOptions)
        if options.get("pins") is not None:
            raise TypeError("pins= is for one server: a snapshot has the tools of one")
        if prefix not in ("always", "when needed"):
            raise ValueError(f"prefix is 'always' or 'when needed', not {prefix!r}")
        if name_limit is not None and name_limit < 16:
            raise ValueError(f"name_limit is 16 or more, not {name_limit}")
        for count in sessions.values() if isinstance(sessions, Mapping) else (sessions,):
            if not 1 <= count <= MAX_SESSIONS:
                raise ValueError(f"sessions is 1 to {MAX_SESSIONS}, not {count}")
        options.setdefault("connect_timeout_s", 30.0)
        found = read_group_target(target)
        self.separator = separator
        self.retry_safe = retry_safe
        self.servers: dict[str, GroupMember] = {}
        self._source = target
        self._sessions = sessions
        self._client_class = client_class
        options["middleware"] = self._middleware = list(options.get("middleware", ()))
        self._options = options
        self._open_s = open_s
        self._policy = policy
        self._sleep = sleep
        self._feed = StatusFeed()
        self._background = Background()
        self._is_open = False
        self._reloading: anyio.Lock | None = None
        self._lists = MemberLists(list_s, cast("float", options.get("connect_timeout_s")))
        for name, entry in found.servers.items():
            self.servers[name] = self._made(name, entry, found.settings.get(name, ServerSettings()))
        prefixes = self._prefixes()
        self._tools = NameBook("tool", prefixes, prefix=prefix, limit=name_limit)
        self._prompts = NameBook("prompt", prefixes, prefix=prefix, limit=name_limit)
        self._resources, self._templates = UriBook("resource"), UriBook("template")

    def _prefixes(self) -> dict[str, str]:
        return {name: name + self.separator for name in self.servers}

    def _made(self, name: str, entry: Any, settings: ServerSettings) -> GroupMember:
        """Return a member that is not connected; an entry that is malformed makes one that has failed."""
        given: dict[str, Any] = dict(handlers_for(name, self._options))
        for option in ("timeout_s", "connect_timeout_s"):
            if (value := getattr(settings, option)) is not None:  # the names are fields of `ServerSettings`
                given[option] = value

        def make() -> Client:
            client = self._client_class(entry, **given)
            client.known_as = name
            return client

        sessions = self._sessions.get(name, 1) if isinstance(self._sessions, Mapping) else self._sessions
        try:
            if isinstance(entry, Exception):
                raise entry
            member = GroupMember(name, entry, settings, make, sessions=sessions)
        except (TypeError, ValueError, KeyError, OSError) as error:
            logger.warning("The server %r is left out: %s", name, error)
            member = GroupMember(name, error, settings, None)
            member.keeper.fail(error)
            return member
        member.keeper = ConnectionSupervisor(
            name,
            member.connect,
            ended=member.ended,
            policy=self._policy,
            sleep=self._sleep,
            feed=self._feed,
            on_open=member.end_calls,
        )
        return member

    # -- open and close ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> ClientGroup:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def connect(self) -> ClientGroup:
        """Connect to all servers concurrently; after ``open_s`` seconds, return without those that have not responded.

        As long as none is connected, it waits for the first. Errors are kept in the members and not raised. A second
        call does nothing."""
        if self._is_open:
            return self
        self._background, self._is_open = Background(), True
        try:
            await self._start(self.servers.values())
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def _start(self, members: Iterable[GroupMember]) -> None:
        keepers = [member.keeper for member in members if member.client is not None]
        for keeper in keepers:
            keeper.start(self._background)
        await wait_opened(keepers, self._open_s)

    async def ready(self, timeout_s: float | None = None) -> bool:
        """Wait until each server is connected, or its first attempt has failed.

        Args:
            timeout_s: seconds to wait at most; ``None``: no bound of its own (an attempt has ``connect_timeout_s``).

        Returns:
            Whether every server is connected.
        """
        with anyio.move_on_after(timeout_s):
            await gather([member.keeper.first_attempt() for member in self.servers.values()])
        return all(member.is_up for member in self.servers.values())

    async def aclose(self) -> None:
        """Close every client. Any task; idempotent."""
        self._is_open = False
        await self._background.aclose()
        await gather([member.aclose() for member in self.servers.values()])
        self._feed.close()

    @property
    def middleware(self) -> list[ClientMiddleware]:
        """The middleware of every client of the group, outermost first; the list may be changed."""
        return self._middleware

    # -- states and changes -------------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether at least one server is connected."""
        return any(member.is_up for member in self.servers.values())

    @property
    def instructions(self) -> dict[str, str]:
        """The guidance of the connected servers for the model, by the name of the server."""
        clients = {name: member.client for name, member in self.servers.items() if member.is_up}
        return {
            name: client.instructions
            for name, client in clients.items()
            if client is not None and client.is_connected and client.instructions
        }

    def observe(self, observer: StatusObserver) -> Callable[[], None]:
        """Call ``observer(status)`` with each new state of a server; return a function that ends this."""
        return self._feed.observe(observer)

    def watch(self) -> StatusWatch:
        """Return an iterator over states of servers: ``async for status in group.watch()``.

        It begins with the present state of each server, and ends when the group is closed."""
        return self._feed.watch([member.status for member in self.servers.values()])

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
        more: Mapping[str, Any] | None = None,
    ) -> GroupSubscription:
        """Return an iterator over changes at all servers: ``async for change in group.listen(tools=True)``.

        Each change has the name of its server. Servers that connect later are listened to as well, after a change of
        kind ``"gap"``.

        Args:
            tools, prompts, resources, more: as for `Client.listen`.
            uris: changes of these resources; a URI that was listed is asked for at its server only.
        """
        wanted = list(uris)

        def subscribe(server: str, client: Client) -> Subscription | None:
            own = wanted_uris(wanted, self._resources.owner, server)
            if not (tools or prompts or resources or own or more):
                return None
            return client.listen(tools=tools, prompts=prompts, resources=resources, uris=own, more=more)

        return GroupSubscription(
            self._feed,
            lambda: [name for name, member in self.servers.items() if member.is_up],
            lambda name: self.servers[name].client if name in self.servers else None,
            subscribe,
            lambda: self._background,
        )

    # -- the APIs of models -------------------------------------------------------------------------------------------

    async def tools_for(self, api: ApiName, **options: Unpack[ToolsForOptions]) -> list[dict[str, Any]]:
        """Return the tools of every connected server for the API of a model; see `Client.tools_for`."""
        from ferrule.client.bridges.of_source import tools_for

        return await tools_for(self, api, **options)

    async def answer(self, response: Any, **options: Unpack[AnswerOptions]) -> Answer:
        """Make the calls that a model's response asks for and return their results; see `Client.answer`."""
        from ferrule.client.bridges.of_source import answer

        return await answer(self, response, **options)

    # -- another configuration ----------------------------------------------------------------------------------------

    async def reload(self, target: Any = None) -> ReloadReport:
        """Take another configuration: connect to new servers, close those that are gone, and leave the others alone.

        A server whose entry has changed is connected anew; calls at the old one have 30 s to end. Calls at servers
        whose entry is the same notice nothing. An entry that is malformed leaves the server as it was.

        Args:
            target: as for `ClientGroup`; ``None``: read the same file again.

        Raises:
            TypeError, ValueError, OSError: the configuration as a whole cannot be read; nothing has changed.
        """
        if self._reloading is None:
            self._reloading = anyio.Lock()
        async with self._reloading:
            source = self._source if target is None else target
            if isinstance(source, Path | str):
                source = await anyio.to_thread.run_sync(read_group_target, source)
            found = read_group_target(source)
            old = {name: (member.target, member.settings) for name, member in self.servers.items()}
            wanted = difference(old, found)
            made = {
                name: self._made(name, entry, found.settings.get(name, ServerSettings()))
                for name, entry in wanted.start.items()
            }
            if target is not None:
                self._source = target
            stopped = [self.servers[name] for name in wanted.stop]
            self.servers = {name: made.get(name) or self.servers[name] for name in wanted.order}
            prefixes = self._prefixes()
            self._tools.set_prefixes(prefixes, wanted.stop)
            self._prompts.set_prefixes(prefixes, wanted.stop)
            kept = self.servers.keys() - set(wanted.stop)
            self._resources.keep(kept)
            self._templates.keep(kept)
            if self._is_open:
                for member in stopped:
                    if member.name in made:
                        member.keeper.feed = StatusFeed()  # observers hear of the new one of this name
                    self._background.start(member.drain(DRAIN_S), "ferrule-group-drain")
                await self._start(made.values())
            for name, error in (wanted.report.refused or {}).items():
                logger.warning("The new entry of the server %r is not used: %s", name, error)
            return wanted.report
