"""The calls of a client, typed: tools, resources, prompts, completion, and the small ones.

Each is a request, a conversion of its raw result, and where the server allows it a look into the cache. Lists follow
their cursors to the end within a bound; an empty cursor is a cursor.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from warnings import warn

from ferrule._options import explains_arguments
from ferrule.client.calls.results import ToolCallResult
from ferrule.client.calls.rounds import DEFAULT_MAX_ROUNDS
from ferrule.client.calls.subscriptions import Subscription
from ferrule.client.calls.tool_metadata import ToolMetadata
from ferrule.client.config import read_target
from ferrule.client.core import NOT_GIVEN, ClientCore
from ferrule.client.errors import BadServerResponse, TooManyPages
from ferrule.client.settings import (
    DEFAULT_TIMEOUT_S,
    CacheSettings,
    ElicitationHandler,
    Handlers,
    HttpSettings,
    LogHandler,
    MessageHandler,
    Roots,
    SamplingHandler,
    Timeouts,
)
from ferrule.client.targets import HttpTarget, InProcessTarget
from ferrule.kernel.dispatch import OnProgress
from ferrule.protocol.errors import RemoteError, RequestTimeout
from ferrule.protocol.inbound import LOG_LEVEL_KEY
from ferrule.stores.cache import CacheStore
from ferrule.wire.codec import convert, encode_str
from ferrule.wire.faults import ConvertError, FerruleError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
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
    Tool,
    ToolResult,
)

if TYPE_CHECKING:
    import ssl

    from ferrule.auth.client.oauth import OAuth
    from ferrule.transports.http.backend import HttpClient, TlsOptions
    from ferrule.transports.http.client import HttpAuth

__all__ = ["ClientCalls"]

logger = logging.getLogger("ferrule.client")

T = TypeVar("T")

MAX_PAGES: Final = 1000
"""Bound for the pages of a list: a server may return cursors without end."""
MAX_REPORTED: Final = 256
"""Malformed members of lists that a client reports in its log; each is reported once."""

_LISTED: Final[Mapping[str, tuple[str, Any, str]]] = {
    "tools/list": ("tools", Tool, "name"),
    "prompts/list": ("prompts", Prompt, "name"),
    "resources/list": ("resources", Resource, "uri"),
    "resources/templates/list": ("resourceTemplates", ResourceTemplate, "uriTemplate"),
}
"""List → the member of its result, the type of what is in it, and the field that names one."""


class ClientCalls(ClientCore):
    """See the module; the options are described at `ferrule.Client`."""

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
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        reset_on_progress: bool = True,
        connect_timeout_s: float = 60.0,
        probe_timeout_s: float | None = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        raise_on_error: bool = False,
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
    ) -> None:
        found = read_target(target)
        if timeout_s is NOT_GIVEN:
            # A call into this process is a function call, which has no bound unless the program sets one.
            timeout_s = None if isinstance(found, InProcessTarget) else DEFAULT_TIMEOUT_S
        self.raise_on_error = raise_on_error
        self.validate_output = validate_output
        super().__init__(
            found,
            mode=mode,
            client_info=client_info,
            extensions=extensions or {},
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
            ),
            cache=CacheSettings(cache=cache, partition=cache_partition, clock=clock),
            max_rounds=max_rounds,
            restart=restart,
            prior_discover=prior_discover,
        )

    @property
    def toolbook(self) -> ToolMetadata:
        """`tool_metadata` by its name until 0.2; deprecated, goes with 0.3."""
        warn(
            "Client.toolbook is now Client.tool_metadata; the old name goes with 0.3", DeprecationWarning, stacklevel=2
        )
        return self.tool_metadata

    def _set_up(self) -> None:
        super()._set_up()
        self.tool_metadata = ToolMetadata()
        self._reported: set[str] = set()

    # -- tools ------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> list[Tool]:
        """Return every tool, all pages. Over modern HTTP without those whose header annotations are invalid."""
        tools = await self._all_tools()
        self.tool_metadata.show(tools)
        return tools

    async def _all_tools(self) -> list[Tool]:
        return await self._list("tools/list", ListToolsResult, lambda page: page.tools)

    async def list_tools_page(self, cursor: str | None = None) -> ListToolsResult:
        """Return one page of tools; ``cursor`` is the last page's ``next_cursor``."""
        page = await self._page("tools/list", ListToolsResult, cursor)
        self.tool_metadata.show(page.tools)
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
            name: as listed.
            arguments: by name; left out when ``None``.
            timeout_s: seconds without an answer or progress; the client's if not given; ``None``: no bound.
            max_total_s: absolute bound in seconds.
            on_progress: ``(progress, total, message)``; sync or async.
            result_type: class of ``.data``, if not the one of the tool's output schema.
            raise_on_error: raise `ToolFailed` where the tool failed; the client's setting if not given.
            meta: further keys of ``_meta``.
            input_responses, request_state: go on from an `InputRequiredError` that the client did not answer.

        Raises:
            ToolFailed, InvalidToolOutput, RemoteError, RequestTimeout, ConnectionClosed: see `request`.
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        if input_responses is not None:
            params["inputResponses"] = input_responses
        if request_state is not None:
            params["requestState"] = request_state

        def mirrored() -> Mapping[str, str]:
            return self.tool_metadata.headers(name, arguments)

        mirrors = mirrored if self._mirrors_headers else None
        options: dict[str, Any] = {
            "timeout_s": timeout_s,
            "max_total_s": max_total_s,
            "on_progress": on_progress,
            "meta": meta,
            "headers": mirrors,
        }
        try:
            raw = await self._request_tool(params, options)
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.HEADER_MISMATCH or mirrors is None:
                raise
            logger.info("%s refused the mirrored headers of %r; listing its tools again", self.label, name)
            await self.cache.invalidate("tools/list")
            await self._all_tools()
            raw = await self._request_tool(params, options)
        result = self._typed(raw, ToolResult, "tools/call")
        called = await self._made_result(name, result, result_type)
        if result.is_error and (self.raise_on_error if raise_on_error is None else raise_on_error):
            called.raise_on_error()
        return called

    async def _request_tool(self, params: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The raw result of a call, however the server gives it."""
        return await self.request("tools/call", params, **options)

    async def _made_result(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult:
        """A successful or failed result for the program, checked against the schema that it has seen."""
        await self._learn_wrapping(name, result.structured_content)
        schema = self.tool_metadata.output_schema(name)
        is_shown = self.tool_metadata.is_shown(name)
        if is_shown and schema is not None and self.validate_output and not result.is_error:
            self.tool_metadata.validate(name, result.structured_content)
        return ToolCallResult(name, result, result_type=result_type, output_schema=schema, is_typed=is_shown)

    async def _learn_wrapping(self, name: str, value: Any) -> None:
        if _may_be_wrapped(value) and not self.tool_metadata.knows(name):
            await self._look_up(name)

    async def _look_up(self, name: str) -> None:
        """Find out once whether ``{"result": …}`` is what a tool gave, or the wrapping of it: its schema tells."""
        try:
            await self._all_tools()
        except (RemoteError, BadServerResponse, TooManyPages, RequestTimeout) as error:
            logger.debug("The tools of %s could not be listed: %s", self.label, error)
        except (FerruleError, OSError) as error:  # nobody answered: the next call asks again
            logger.debug("The tools of %s could not be listed now: %s", self.label, error)
            return
        self.tool_metadata.note_unlisted(name)

    @property
    def _mirrors_headers(self) -> bool:
        session = self._sessions.current
        return session is not None and session.revision.mirrors_headers and isinstance(self.target, HttpTarget)

    # -- resources --------------------------------------------------------------------------------------------------

    async def list_resources(self) -> list[Resource]:
        """Return every resource, all pages."""
        return await self._list("resources/list", ListResourcesResult, lambda page: page.resources)

    async def list_resources_page(self, cursor: str | None = None) -> ListResourcesResult:
        """Return one page of resources."""
        return await self._page("resources/list", ListResourcesResult, cursor)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return every resource template, all pages."""
        return await self._list(
            "resources/templates/list", ListResourceTemplatesResult, lambda page: page.resource_templates
        )

    async def list_resource_templates_page(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return await self._page("resources/templates/list", ListResourceTemplatesResult, cursor)

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
        raw = await self._cached(
            "resources/read", {"uri": str(uri)}, timeout_s=timeout_s, on_progress=on_progress, meta=meta
        )
        return self._typed(raw, ReadResourceResult, "resources/read")

    # -- prompts ----------------------------------------------------------------------------------------------------

    async def list_prompts(self) -> list[Prompt]:
        """Return every prompt, all pages."""
        return await self._list("prompts/list", ListPromptsResult, lambda page: page.prompts)

    async def list_prompts_page(self, cursor: str | None = None) -> ListPromptsResult:
        """Return one page of prompts."""
        return await self._page("prompts/list", ListPromptsResult, cursor)

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
        return self._typed(raw, GetPromptResult, "prompts/get")

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
        return self._typed(raw, CompleteResult, "completion/complete").completion

    # -- ping, log level, changes -------------------------------------------------------------------------------------

    async def ping(self, *, timeout_s: float | None = 10.0) -> None:
        """Find out whether the server answers: ``ping``, or in the modern era, which has none, ``server/discover``."""
        session = self._sessions.current or self._sessions.required()
        await self.request("ping" if "ping" in session.revision.requests else "server/discover", timeout_s=timeout_s)

    async def set_log_level(self, level: LoggingLevel | None) -> None:
        """Which log messages to get: ``logging/setLevel``, or in the modern era a level in every later request.

        ``None`` (modern only; a legacy server keeps its level) asks for none.
        """
        self.log_level = level
        session = self.session
        if session.revision.has_sessions:
            if level is not None:
                await self._send_level(session, level)
            return
        meta = {key: value for key, value in session.meta.items() if key != LOG_LEVEL_KEY}
        session.meta = meta if level is None else {**meta, LOG_LEVEL_KEY: level}

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
        """Return changes as they come: ``async for event in client.listen(tools=True, uris=[…])``.

        Args:
            tools, prompts, resources: changes of these lists.
            uris: changes of these resources.
            more: further keys of the filter, which extensions define.
        """
        wanted: dict[str, Any] = dict(more or {})
        for kind, is_wanted in (("tools", tools), ("prompts", prompts), ("resources", resources)):
            if is_wanted:
                wanted[f"{kind}ListChanged"] = True
        if named := [str(uri) for uri in uris]:
            wanted["resourceSubscriptions"] = named
        return Subscription(self.subscriptions, wanted)

    # -- how ----------------------------------------------------------------------------------------------------------

    async def _page(self, method: str, type_: type[T], cursor: str | None) -> T:
        params = None if cursor is None else {"cursor": cursor}
        page = self._typed(await self._cached(method, params), type_, method)
        return cast("T", self._seen(page)) if isinstance(page, ListToolsResult) else page

    async def _list(self, method: str, type_: type[T], items: Callable[[T], list[Any]]) -> list[Any]:
        try:
            return await self._all_pages(method, type_, items)
        except _CursorRefused as refused:
            # A cached page may be older than the lifetime of its cursor: start again, once.
            await self.cache.invalidate(method)
            try:
                return await self._all_pages(method, type_, items)
            except _CursorRefused as again:
                raise again.error from refused.error

    async def _all_pages(self, method: str, type_: type[T], items: Callable[[T], list[Any]]) -> list[Any]:
        found: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self._page(method, type_, cursor)
            except RemoteError as error:
                if cursor is not None:
                    if error.code == JsonRpcErrorCode.INVALID_PARAMS:
                        raise _CursorRefused(error) from error
                elif error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:
                    kind = method.removesuffix("/list").replace("/", " ")
                    raise RemoteError(f"The server offers no {kind}", code=error.code, data=error.data) from error
                raise
            found += items(page)
            cursor = cast("Any", page).next_cursor
            if cursor is None:
                return found
            if cursor in seen:
                logger.warning(
                    "%s of %s gives the cursor %.80r a second time; what was read so far is taken for the whole list",
                    method,
                    self.label,
                    cursor,
                )
                return _once_each(method, found)
            seen.add(cursor)
        raise TooManyPages(f"{method} has more than {MAX_PAGES} pages")

    def _seen(self, page: Any) -> Any:
        """Remember what tools declare; on HTTP leave out those that cannot be called."""
        refused = self.tool_metadata.learn(page.tools, checks_headers=self._mirrors_headers)
        for name, why in refused.items():
            logger.warning("The tool %r of %s is left out: %s", name, self.label, why)
        if not refused:
            return page
        from msgspec.structs import replace

        return replace(page, tools=[tool for tool in page.tools if tool.name not in refused])

    async def _cached(self, method: str, params: Mapping[str, Any] | None, **options: Any) -> Any:
        session = self._sessions.current
        if session is None or not session.revision.has_cache_hints or options.get("meta"):
            return await self.request(
                method, params, **options
            )  # what a caller puts in ``_meta`` may change the result
        kept = await self.cache.get(method, params)
        if kept is not None:
            return kept
        mark = self.cache.before(method)
        raw = await self.request(method, params, **options)
        await self.cache.put(method, params, raw, mark)
        return raw

    def _typed(self, raw: Any, type_: type[T], method: str) -> T:
        try:
            return convert(raw, type_)
        except ConvertError as error:
            usable = self._without_malformed(method, raw) if method in _LISTED else raw
            if usable is not raw:
                return self._typed(usable, type_, method)
            raise BadServerResponse(
                f"The server {self.label} answered {method} with something malformed: {error}"
            ) from error

    def _without_malformed(self, method: str, raw: Any) -> Any:
        """The raw page of a list without the members that cannot be read, each of which is named in the log once.

        One of many tools must not cost the others. The very same object comes back where every member can be read.
        """
        key, type_, name = _LISTED[method]
        items: Any = raw.get(key)
        if not is_list(items):
            return raw
        good: list[Any] = []
        for item in items:
            try:
                convert(item, type_)
            except ConvertError as error:
                self._report_malformed(method, item.get(name) if is_mapping(item) else None, error)
            else:
                good.append(item)
        return raw if len(good) == len(items) else {**raw, key: good}

    def _report_malformed(self, method: str, name: Any, error: ConvertError) -> None:
        report = f"{method} {name!r:.200}: {error}"
        if report not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(report)
            logger.warning("%r is left out of %s of %s: %s", name, method, self.label, error)


class _CursorRefused(Exception):
    """The server refused the params of a page that was asked for with a cursor."""

    def __init__(self, error: RemoteError) -> None:
        super().__init__(error)
        self.error = error


def _once_each(method: str, items: list[Any]) -> list[Any]:
    """Return the members without repetitions, for a server that sends the same page again."""
    attribute = {"uriTemplate": "uri_template"}.get(_LISTED[method][2], _LISTED[method][2])
    return list({getattr(item, attribute): item for item in reversed(items)}.values())[::-1]


def _may_be_wrapped(value: Any) -> bool:
    """Servers wrap a result that is no object, for revisions that only have objects."""
    return type(value) is dict and len(cast("dict[str, Any]", value)) == 1 and "result" in value
