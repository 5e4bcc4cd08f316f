"""`Client`: one MCP server of any revision on any transport, or a group of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, Unpack
from warnings import warn

from ferrule._options import explains_arguments
from ferrule.client.calls.cache import ResultCache
from ferrule.client.calls.request_sender import NOT_GIVEN
from ferrule.client.calls.results import ToolCallResult
from ferrule.client.calls.rounds import DEFAULT_MAX_ROUNDS
from ferrule.client.calls.subscriptions import Subscription, SubscriptionSet
from ferrule.client.calls.tasks import TaskCalls, TaskHandle
from ferrule.client.calls.tool_metadata import ToolMetadata
from ferrule.client.calls.tools import ToolCalls, ToolResults
from ferrule.client.config import read_target
from ferrule.client.connection.connector import Session
from ferrule.client.declared_extensions import as_declared, bind_extensions
from ferrule.client.fast_calls import CallCounts, FastCalls
from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.parts import ClientParts
from ferrule.client.server_messages import ProgramHooks
from ferrule.client.settings import (
    CacheSettings,
    ClientMiddleware,
    ClientSettings,
    ElicitationHandler,
    Extensions,
    Handlers,
    HttpSettings,
    LogHandler,
    MessageHandler,
    Pins,
    Roots,
    SamplingHandler,
    SkillApprover,
    Timeouts,
    default_timeout_s,
)
from ferrule.client.targets import GroupTarget, Target
from ferrule.kernel.dispatch import OnProgress
from ferrule.stores.cache import CacheStore
from ferrule.wire.codec import encode_str
from ferrule.wire.types import (
    CompleteResult,
    Completion,
    DiscoverResult,
    GetPromptResult,
    Implementation,
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
    ServerCapabilities,
    Tool,
)

if TYPE_CHECKING:
    import ssl

    from ferrule.auth.client.oauth import OAuth
    from ferrule.client.bridges.apis.known import ApiName
    from ferrule.client.bridges.bridge import Answer
    from ferrule.client.bridges.options import AnswerOptions, ToolsForOptions
    from ferrule.client.pins.pinned_tools import PinnedTools
    from ferrule.client.skills.calls import SkillCalls
    from ferrule.client.skills.skill import ServerSkill
    from ferrule.transports.background import BackgroundTask
    from ferrule.transports.http.backend import HttpClient, TlsOptions
    from ferrule.transports.http.client import HttpAuth

__all__ = ["Client"]

ExtensionT = TypeVar("ExtensionT")

_GROUP: Final = "ferrule.client.groups.group"
"""Imported by name where a target is a group: the module stands on this one."""


class Client:
    """A client of one server.

    ``async with Client(target) as client:``, or `connect` and `aclose` from any tasks.

    Args:
        target: a server object of this process, a URL, a `StdioServer`, a command line (text or list), the path of a
            script, or a configuration. One with ``mcpServers`` makes a `ClientGroup` instead, with the same calls.
        mode: ``"auto"`` detects the server's revision; ``"legacy"``, or a revision, requires it.
        client_info: name and version of this program; Ferrule's if not given.
        elicitation_handler: asks the user; see `ferrule.client.calls.forms` for ready-made ones.
        elicitation_modes: the modes that it supports: ``"form"``, ``"url"``.
        sampling_handler: asks the model. sampling_tools: whether it can offer tools to the model.
        roots: the folders that the server may use, or a function that returns them.
        log_handler: called with log messages. log_level: the level to request (``"info"`` with a handler).
        progress_handler: called with the progress of every call that has no ``on_progress`` of its own.
        message_handler: called with every notification as ``(method, params)``.
        approve_skill: ``(skill) -> bool``, sync or async: asks the user before a skill is loaded, and again after its
            files have changed; without it every skill may be loaded.
        extensions: declared to the server: settings by identifier, or a list of `ClientExtension`.
        timeout_s: seconds without a response or progress after which a call fails; 300 by default, no bound for a
            server in this process; ``None``: no bound. max_total_s: absolute bound in seconds.
        reset_on_progress: progress restarts ``timeout_s``.
        connect_timeout_s: maximum time of each step of connecting, in seconds. probe_timeout_s: maximum time of the
            probe for the modern era, in seconds; ``None``: the transport's default.
        max_rounds: maximum number of rounds of questions in one call or task; 0: raise `InputRequiredError` instead.
        raise_on_error: failed tools raise `ToolFailed`.
        pins: a file of ``ferrule snapshot``, or its content: tools that differ from it, or that it does not have, are
            left out of lists, and calls of them raise `DefinitionChanged`.
        validate_output: validate structured results of tools that the program has listed against their schemas.
        cache: keep results that the server allows to keep; ``False`` for none, or a `CacheStore` to share.
        cache_partition: name of the authorization context; made from the credential if ``None``.
        clock: returns seconds since the epoch, for the cache.
        restart: open a new connection, or start a new process, for a call after the last one has ended.
        prior_discover: another client's ``discovered``, which saves the round trip before the first call.
        headers, auth, http, tls, proxy: for HTTP. ``auth`` is a bearer token or an `HttpAuth`; ``http`` your own HTTP
            client (httpx, httpx2, aiohttp, `HttpClient`), which stays open; ``tls`` a `TlsOptions` or SSL context;
            ``proxy`` a URL, ``None``, or ``"env"``.
        listen: keep a stream open for messages that a legacy HTTP server sends outside calls.
        max_message_bytes: larger messages are refused.
        fast_path: send plain calls of tools by a shorter path with the same results. ``False``, or the environment
            variable ``FERRULE_FAST_PATH=0``, sends all by the general path.
        middleware: ``async (request, call_next) -> result`` around every request, outermost first; see
            `ferrule.client.settings.OutgoingRequest`. With any, calls of tools take the general path.
    """

    # Not shown to type checkers: to them `Client(...)` is a `Client`, with the options that its ``__init__`` names.
    if not TYPE_CHECKING:

        def __new__(cls, target: Any, **options: Any) -> Any:
            """A `ClientGroup` where the target names several servers."""
            found = read_target(target)
            if isinstance(found, GroupTarget):
                group: Any = import_module(_GROUP).ClientGroup
                return group(found, client_class=cls, **options)
            return super().__new__(cls)

    @explains_arguments("Client")
    def __init__(
        self,
        target: Any,
        *,
        mode: str = "auto",
        client_info: Implementation | None = None,
        elicitation_handler: ElicitationHandler | None = None,
        elicitation_modes: Iterable[Literal["form", "url"]] = ("form",),
        sampling_handler: SamplingHandler | None = None,
        sampling_tools: bool = False,
        roots: Roots | None = None,
        log_handler: LogHandler | None = None,
        log_level: str | None = None,
        progress_handler: OnProgress | None = None,
        message_handler: MessageHandler | None = None,
        approve_skill: SkillApprover | None = None,
        extensions: Extensions | None = None,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        reset_on_progress: bool = True,
        connect_timeout_s: float = 60.0,
        probe_timeout_s: float | None = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        raise_on_error: bool = False,
        pins: Pins | None = None,
        validate_output: bool = True,
        cache: CacheStore | bool = True,
        cache_partition: str | None = None,
        clock: Callable[[], float] = time.time,
        restart: bool = True,
        prior_discover: DiscoverResult | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: HttpAuth | OAuth | str | None = None,
        http: HttpClient | Any = None,
        tls: TlsOptions | ssl.SSLContext | None = None,
        proxy: str | None = "env",
        cookies: bool = True,
        listen: bool = True,
        max_message_bytes: int = 64 << 20,
        fast_path: bool = True,
        middleware: Iterable[ClientMiddleware] = (),
    ) -> None:
        found = read_target(target)
        if timeout_s is NOT_GIVEN:
            timeout_s = default_timeout_s(found)
        declared = as_declared(extensions)
        settings = ClientSettings(
            mode=mode,
            client_info=client_info,
            extensions=declared,
            timeouts=Timeouts(
                timeout_s=timeout_s,
                max_total_s=max_total_s,
                reset_on_progress=reset_on_progress,
                connect_timeout_s=connect_timeout_s,
                probe_timeout_s=probe_timeout_s,
            ),
            http=HttpSettings(
                headers=headers or {},
                auth=auth,
                http=http,
                tls=tls,
                proxy=proxy,
                cookies=cookies,
                listen=listen,
                max_message_bytes=max_message_bytes,
            ),
            handlers=Handlers(
                elicitation=elicitation_handler,
                elicitation_modes=elicitation_modes,
                sampling=sampling_handler,
                sampling_tools=sampling_tools,
                roots=roots,
                log=log_handler,
                log_level=log_level,
                progress=progress_handler,
                message=message_handler,
                approve_skill=approve_skill,
            ),
            cache=CacheSettings(cache=cache, partition=cache_partition, clock=clock),
            max_rounds=max_rounds,
            restart=restart,
            prior_discover=prior_discover,
            fast_path=fast_path,
            middleware=middleware if isinstance(middleware, list) else list(middleware),
        )
        hooks = ProgramHooks(settings)
        parts = ClientParts(found, settings, hooks)
        results = ToolResults(parts.reader, validate_output, parts.label)
        self.raise_on_error = raise_on_error
        self._settings = settings
        self._parts = parts
        self._sessions = parts.sessions
        self._reader = parts.reader
        self._results = results
        self._tasks = TaskCalls(parts.requests, parts.reader, parts.subscriptions, hooks, results)
        self._fast = FastCalls(parts.sessions, parts.reader, settings)
        self._tools = ToolCalls(self._tasks.send_call, parts.reader, results, parts.label)
        self._pins = None if pins is None else _pinned(pins, parts)
        self._skills: SkillCalls | None = None
        self._extensions = bind_extensions(self, declared, hooks, parts) if declared else {}

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an unknown name; it suggests Ferrule's name for a name of another library."""
            from ferrule._elsewhere import ON_CLIENT, explanation

            raise AttributeError(explanation("Client", name, ON_CLIENT), name=name, obj=self)

    # -- facts ------------------------------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """The server, as `ferrule.client.config.read_target` has read it."""
        return self._parts.target

    @property
    def known_as(self) -> str | None:
        """The name of the server among others, in a configuration or a group; ``None`` if it has none."""
        return self._parts.known_as

    @known_as.setter
    def known_as(self, name: str | None) -> None:
        self._parts.known_as = name

    @property
    def mode(self) -> str:
        """``"auto"``, ``"legacy"`` or a revision."""
        return self._settings.mode

    @property
    def timeouts(self) -> Timeouts:
        """The client's time limits."""
        return self._settings.timeouts

    @property
    def middleware(self) -> list[ClientMiddleware]:
        """Its middleware, outermost first; the list may be changed, also while the client is connected."""
        return self._settings.middleware

    @property
    def log_level(self) -> str | None:
        """The level of log messages that the client requests; ``None``: no messages. `set_log_level` changes it."""
        return self._parts.log_level

    @property
    def subscriptions(self) -> SubscriptionSet:
        """Its open subscriptions."""
        return self._parts.subscriptions

    @property
    def cache(self) -> ResultCache:
        """The cache of the server's results."""
        return self._parts.cache

    @property
    def call_counts(self) -> CallCounts:
        """How many calls of tools the fast path has taken, and how many the general one."""
        return CallCounts(self._fast.fast, self._fast.general)

    @property
    def tool_metadata(self) -> ToolMetadata:
        """The declarations of listed tools: header annotations and output schemas."""
        return self._reader.metadata

    @property
    def toolbook(self) -> ToolMetadata:
        """The old name of `tool_metadata`, deprecated; ferrule 0.3 removes it."""
        warn(
            "Client.toolbook is now Client.tool_metadata; ferrule 0.3 removes the old name",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.tool_metadata

    @property
    def label(self) -> str:
        """The server's name for messages: `known_as`, else its URL, its command, or its name."""
        return self._parts.label()

    @property
    def timeout_s(self) -> float | None:
        """Seconds without a response or progress after which a call fails; ``None``: no bound."""
        return self._settings.timeouts.timeout_s

    @property
    def max_total_s(self) -> float | None:
        """Absolute bound of a call in seconds; ``None``: no bound."""
        return self._settings.timeouts.max_total_s

    @property
    def is_connected(self) -> bool:
        """Whether a session is open."""
        return self._sessions.working() is not None

    @property
    def session(self) -> Session:
        """The session in use.

        Raises:
            ConnectionClosed: there is none.
        """
        return self._sessions.required()

    @property
    def protocol_version(self) -> str:
        """The revision in use."""
        return self.session.version

    @property
    def is_modern(self) -> bool:
        """Whether the connection is of the modern era."""
        return self.session.is_modern

    @property
    def server_info(self) -> Implementation | None:
        """Name and version that the server reports; ``None`` if it reports none."""
        return self.session.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declares."""
        return self.session.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's guidance for the model."""
        return self.session.instructions

    @property
    def discovered(self) -> Mapping[str, Any]:
        """The `DiscoverResult` or `InitializeResult` as JSON; the former can be another client's ``prior_discover``."""
        return self.session.raw

    def extension(self, kind: type[ExtensionT]) -> ExtensionT:
        """Return this client's copy of an extension that ``extensions=`` has.

        Args:
            kind: the extension's class or a base of it, a subclass of `ferrule.extensions.client.ClientExtension`.

        Raises:
            KeyError: the client does not have it.
        """
        found: ExtensionT = self._extensions[kind]
        return found

    # -- open and close ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def connect(self) -> Self:
        """Connect, negotiate a revision, and return this client. Any task may close it. A second call does nothing.

        Raises:
            LocalError: no connection, or no common revision.
            RemoteError: the server refused the handshake. After either error nothing is left open.
        """
        await self._sessions.connect()
        return self

    async def aclose(self) -> None:
        """Close the client, its processes and connections, within a bounded time. Calls fail with `ConnectionClosed`.

        Any task may call it. Idempotent; it completes even if the caller is cancelled. `connect` opens it again.
        """
        await self._sessions.aclose()

    # -- one request ------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> dict[str, Any]:
        """Send any request and return its result as JSON: with envelope, time-outs, recovery and rounds of input.

        Args:
            method: the method.
            params: its params; ``None`` for none.
            timeout_s: seconds without a response or progress; the client's if not given; ``None``: no bound.
            max_total_s: absolute bound in seconds, progress or not.
            on_progress: called with each progress: ``(progress, total, message)``; sync or async.
            meta: further keys of ``_meta``, beside those that ``params`` has and before them.
            headers: returns further HTTP headers (mirrored parameters); called for each attempt.

        Raises:
            RemoteError: the server responded with an error.
            RequestTimeout, ConnectionClosed, HttpStatusError: no response.
            BadServerResponse: a result of an unknown type.
        """
        return await self._parts.requests.request(
            method,
            params,
            timeout_s=timeout_s,
            max_total_s=max_total_s,
            on_progress=on_progress,
            meta=meta,
            headers=headers,
        )

    # -- tools ------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> list[Tool]:
        """Return every tool, of all pages; over modern HTTP without those whose header annotations are invalid."""
        tools = await self._reader.all_tools()
        self.tool_metadata.show(tools)
        return tools if self._pins is None else self._pins.kept(tools)

    async def list_tools_page(self, cursor: str | None = None) -> ListToolsResult:
        """Return one page of tools; ``cursor`` is the last page's ``next_cursor``."""
        page = await self._reader.page("tools/list", ListToolsResult, cursor)
        self.tool_metadata.show(page.tools)
        if self._pins is not None:
            from msgspec.structs import replace

            page = replace(page, tools=self._pins.kept(page.tools))
        return page

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        on_progress: OnProgress | None = None,
        result_type: Any = None,
        raise_on_error: bool | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> ToolCallResult:
        """Call a tool.

        Args:
            name: the tool's name.
            arguments: by name; not sent if ``None``.
            timeout_s: seconds without a response or progress; the client's if not given; ``None``: no bound.
            max_total_s: absolute bound in seconds.
            on_progress: called with ``(progress, total, message)``; sync or async.
            result_type: class of ``.data``; made from the tool's output schema if not given.
            raise_on_error: raise `ToolFailed` if the tool failed; the client's setting if not given.
            meta: further keys of ``_meta``.
            input_responses, request_state: continue a call that ended with `InputRequiredError`.

        Raises:
            ToolFailed, InvalidToolOutput, RemoteError, RequestTimeout, ConnectionClosed: see `request`.
            DefinitionChanged: the tool is not as pinned.
        """
        if self._pins is not None:
            await self._pins.admit(name)
        first: FirstOutcome | None = None
        raises = self.raise_on_error if raise_on_error is None else raise_on_error
        if (
            on_progress is None
            and meta is None
            and max_total_s is None
            and input_responses is None
            and request_state is None
            and not self._tasks.runs_as_task(name)
            and (begun := self._fast.begin(name, arguments, timeout_s)) is not None
        ):
            self._fast.fast += 1
            got = await begun
            if not isinstance(got, FirstOutcome):
                called = self._results.known_outcome(name, got, result_type)
                if called is None:
                    called = await self._results.outcome(name, got, result_type)
                return called.raise_on_error() if raises else called
            first = got
            self._fast.fast -= 1
        self._fast.general += 1
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        if input_responses is not None:
            params["inputResponses"] = input_responses
        if request_state is not None:
            params["requestState"] = request_state
        options: dict[str, Any] = {
            "timeout_s": timeout_s,
            "max_total_s": max_total_s,
            "on_progress": on_progress,
            "meta": meta,
            "first": first,
        }
        return await self._tools.call(params, options, result_type=result_type, raises=raises)

    async def tools_for(self, api: ApiName, **options: Unpack[ToolsForOptions]) -> list[dict[str, Any]]:
        """Return the tools as plain dicts for the API of a model: ``"anthropic"``, ``"openai"`` (Responses),
        ``"openai-chat"``, ``"gemini"``, ``"gemini-openapi"`` or ``"json-schema"``.

        Names and schemas are what that API takes, in an order that stays the same. No provider's package is imported.

        Args:
            api: the API.
            options: **budget**: about how many tokens the definitions may take, any number by default; above it they
                are deferred: by the API's own search, or by three tools that find, describe and call the others
                (**defer**: ``"auto"``, ``"api"``, ``"search"``, ``"never"``). **always**: tools that are never
                deferred. **strict**: use the API's strict mode for the tools that allow it.

        Raises:
            ValueError: there is no such API, or it has no search of its own for ``defer="api"``.
        """
        from ferrule.client.bridges.of_source import tools_for

        return await tools_for(self, api, **options)

    async def answer(self, response: Any, **options: Unpack[AnswerOptions]) -> Answer:
        """Make the calls of a model's response, side by side, and return their results as messages of its API.

        The list is ready to append to the conversation; it is empty if the response calls no tool. It also has
        ``outcomes``, one for each call, and ``others``, calls that are not made here. An unknown tool, malformed
        arguments, a call that was not approved or took too long is given to the model as an error.

        Args:
            response: an object of the provider's package, the final message of its stream, or the decoded JSON.
            options: **approve**: called with a `ferrule.bridges.ToolUse` for each call, sync or async; ``True`` lets it
                be made, ``False`` or a reason does not. **timeout_s** (60): seconds for each call. **max_calls** (64),
                **max_concurrent** (16), **max_text_bytes** (100,000), **max_media_bytes** (5,000,000): bounds.
                **media**: media types that the model takes. **others**: functions that the program runs itself.

        Raises:
            TypeError: this is no response of a known API.
        """
        from ferrule.client.bridges.of_source import answer

        return await answer(self, response, **options)

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl_s: float | None = None,
        timeout_s: float | None = NOT_GIVEN,
        result_type: Any = None,
        meta: Mapping[str, Any] | None = None,
    ) -> TaskHandle:
        """Call a tool as a task where the server offers one, and do not wait for its end.

        In the modern era the request declares the tasks extension, and the server decides; in 2025-11-25 a task is
        requested if the server supports tasks. If the server returns the result at once, the handle is finished.

        Args:
            name, arguments, result_type, meta: as in `call_tool`.
            timeout_s: seconds until the server has created the task.
            ttl_s: seconds that the server is asked to keep the task (2025-11-25; it may choose another time).

        Raises:
            RemoteError: the server refuses the call.
            DefinitionChanged: the tool is not as pinned.
        """
        if self._pins is not None:
            await self._pins.admit(name)
        return await self._tasks.start(
            name, arguments, ttl_s=ttl_s, timeout_s=timeout_s, result_type=result_type, meta=meta
        )

    def task(self, task_id: str, *, tool: str = "", result_type: Any = None) -> TaskHandle:
        """Return a handle for a task that was begun earlier, by this or an earlier process. Sends no request."""
        return TaskHandle(self._tasks, task_id, tool, result_type=result_type)

    # -- resources --------------------------------------------------------------------------------------------------

    async def list_resources(self) -> list[Resource]:
        """Return every resource, all pages."""
        return await self._reader.all("resources/list", ListResourcesResult, lambda page: page.resources)

    async def list_resources_page(self, cursor: str | None = None) -> ListResourcesResult:
        """Return one page of resources."""
        return await self._reader.page("resources/list", ListResourcesResult, cursor)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return every resource template, all pages."""
        return await self._reader.all(
            "resources/templates/list", ListResourceTemplatesResult, lambda page: page.resource_templates
        )

    async def list_resource_templates_page(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return await self._reader.page("resources/templates/list", ListResourceTemplatesResult, cursor)

    async def read_resource(
        self,
        uri: str,
        *,
        timeout_s: float | None = NOT_GIVEN,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReadResourceResult:
        """Read a resource, as listed or from a template.

        Raises:
            RemoteError: it does not exist (-32002 or -32602, by revision) or cannot be read.
        """
        raw = await self._reader.cached(
            "resources/read", {"uri": str(uri)}, timeout_s=timeout_s, on_progress=on_progress, meta=meta
        )
        return self._reader.typed(raw, ReadResourceResult, "resources/read")

    # -- skills -----------------------------------------------------------------------------------------------------

    async def list_skills(self) -> list[ServerSkill]:
        """Return the skills that the server lists, all pages. Their files are read when they are used, and not now.

        A server may list only some: `get_skill` finds others by their URI. Malformed entries are left out.

        Raises:
            ExtensionNotOffered: the server does not offer skills.
        """
        return await (await self._skill_calls()).all()

    async def get_skill(self, uri: str) -> ServerSkill:
        """Return one skill by the URI of its ``SKILL.md``, listed or not.

        Raises:
            ExtensionNotOffered: the server does not offer skills.
            RemoteError: it serves no skill there (-32602).
            BadServerResponse: its entry is malformed.
        """
        return await (await self._skill_calls()).get(uri)

    async def read_directory(self, uri: str) -> list[Resource]:
        """Return what is directly in a directory, all pages; directories in it have the type ``inode/directory``.

        Args:
            uri: the directory, without a slash at its end.

        Raises:
            ExtensionNotOffered: the server does not declare ``directoryRead`` for skills.
            RemoteError: there is no such directory (-32602).
        """
        return await (await self._skill_calls()).read_directory(uri)

    async def _skill_calls(self) -> SkillCalls:
        if self._skills is None:
            from ferrule.client.skills.calls import OUTDATES, SkillCalls

            self._skills = SkillCalls(self._parts.requests, self._reader, self._settings.handlers, self._parts.label)
            self._parts.messages.add_outdates(OUTDATES)
        await self._parts.session_again()
        return self._skills

    # -- prompts ----------------------------------------------------------------------------------------------------

    async def list_prompts(self) -> list[Prompt]:
        """Return every prompt, all pages."""
        return await self._reader.all("prompts/list", ListPromptsResult, lambda page: page.prompts)

    async def list_prompts_page(self, cursor: str | None = None) -> ListPromptsResult:
        """Return one page of prompts."""
        return await self._reader.page("prompts/list", ListPromptsResult, cursor)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = NOT_GIVEN,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """Fill in a prompt. Arguments are text on the wire; other values are sent as JSON."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = {
                key: value if isinstance(value, str) else encode_str(value) for key, value in arguments.items()
            }
        raw = await self.request("prompts/get", params, timeout_s=timeout_s, meta=meta)
        return self._reader.typed(raw, GetPromptResult, "prompts/get")

    async def complete(
        self,
        reference: PromptReference | ResourceTemplateReference | Mapping[str, Any],
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout_s: float | None = NOT_GIVEN,
    ) -> Completion:
        """Return suggestions for an argument of a prompt or a variable of a resource template.

        Args:
            reference: `PromptReference` or `ResourceTemplateReference`.
            argument: the name of what is being typed.
            value: what has been typed so far.
            context: the arguments that already have a value.
        """
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        raw = await self.request("completion/complete", params, timeout_s=timeout_s)
        return self._reader.typed(raw, CompleteResult, "completion/complete").completion

    # -- ping, log level, changes -------------------------------------------------------------------------------------

    async def ping(self, *, timeout_s: float | None = 10.0) -> None:
        """Check that the server responds: by ``ping``, in the modern era by ``server/discover``."""
        await self._parts.requests.ping(timeout_s)

    async def set_log_level(self, level: LoggingLevel | None) -> None:
        """Set the level of log messages: by ``logging/setLevel``, or in the modern era in every later request.

        Args:
            level: the lowest level to receive; ``None`` (modern only) for no log messages.
        """
        await self._parts.set_log_level(level)

    async def notify_roots_changed(self) -> None:
        """Tell the server that the roots have changed; does nothing in revisions without that notification."""
        if "notifications/roots/list_changed" in self.session.revision.notifications:
            await self.session.channel.notify("notifications/roots/list_changed")

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
        more: Mapping[str, Any] | None = None,
    ) -> Subscription:
        """Return an iterator over changes: ``async for event in client.listen(tools=True, uris=[…])``.

        Args:
            tools, prompts, resources: changes of these lists.
            uris: changes of these resources.
            more: further keys of the filter, which extensions define.
        """
        return self.subscriptions.subscription(tools=tools, prompts=prompts, resources=resources, uris=uris, more=more)

    # -- used by other layers -----------------------------------------------------------------------------------------

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> BackgroundTask:
        """Run a coroutine in a task, which is cancelled when this client closes."""
        return self._parts.start_task(work, name)

    def session_now(self) -> Session | None:
        """Return the session in use, if there is one that works."""
        return self._parts.session_now()

    async def session_again(self) -> Session:
        """Return a session that works; open a new one if necessary."""
        return await self._parts.session_again()

    async def send_listen(self, session: Session, wanted: Mapping[str, Any]) -> None:
        """Send ``subscriptions/listen`` with this filter; return when the server ends it."""
        await self._parts.send_listen(session, wanted)

    async def ask_task(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request of a task method, with the declaration that it needs, and return its result."""
        return await self._tasks.ask(method, params)

    async def answer_question(self, key: str, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the answer of the client's own handlers to one question of the server."""
        return await self._tasks.answer_question(key, method, params)

    async def called(self, name: str, raw: Mapping[str, Any], result_type: Any) -> ToolCallResult:
        """Return a tool's raw result as `call_tool` returns it."""
        return await self._tasks.outcome(name, raw, result_type)


def _pinned(pins: Pins, parts: ClientParts) -> PinnedTools:
    from ferrule.client.pins.pinned_tools import PinnedTools

    return PinnedTools(pins, parts)
