"""Reads results of a server with their types: lists page by page, from the cache where allowed, without broken items.

Cursors of a list are followed to its end, for a bounded number of pages. An empty text is a valid cursor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ferrule.client.errors import BadServerResponse, TooManyPages
from ferrule.client.targets import HttpTarget, Target
from ferrule.protocol.errors import RemoteError
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.types import ListToolsResult, Prompt, Resource, ResourceTemplate, Tool

if TYPE_CHECKING:
    from ferrule.client.calls.cache import ResultCache
    from ferrule.client.calls.request_sender import MakeHeaders, RequestSender
    from ferrule.client.calls.tool_metadata import ToolMetadata

__all__ = ["ResultReader"]

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
"""Method of a list → the member of its result that holds the items, their type, and the field with an item's name."""


class ResultReader:
    """Reads results of a server with their types; follows the cursors of lists, and keeps what the server allows.

    Args:
        requests: sends requests.
        cache: keeps results.
        metadata: remembers the declarations of listed tools.
        target: the server that the client calls.
        label: returns the server's name for messages.
    """

    def __init__(
        self,
        requests: RequestSender,
        cache: ResultCache,
        metadata: ToolMetadata,
        target: Target,
        label: Callable[[], str],
    ) -> None:
        self.metadata = metadata
        self._requests = requests
        self._cache = cache
        self._is_http = isinstance(target, HttpTarget)
        self._label = label
        self._reported: set[str] = set()

    @property
    def mirrors_headers(self) -> bool:
        """Whether calls mirror parameters into HTTP headers; the definition of a listed tool names these parameters."""
        session = self._requests.sessions.current
        return self._is_http and session is not None and session.revision.mirrors_headers

    def mirrored(self, name: str, arguments: Mapping[str, Any] | None) -> MakeHeaders | None:
        """Return a function that makes the headers that mirror the arguments of a call; ``None`` if there are none."""
        if not self.mirrors_headers:
            return None
        metadata = self.metadata
        return lambda: metadata.headers(name, arguments)

    async def all_tools(self) -> list[Tool]:
        """Return every tool, and remember their declarations."""
        return await self.all("tools/list", ListToolsResult, lambda page: page.tools)

    async def forget_tools(self) -> None:
        """Remove the list of tools from the cache, and read it again."""
        await self._cache.invalidate("tools/list")
        await self.all_tools()

    async def page(self, method: str, type_: type[T], cursor: str | None, more: Mapping[str, Any] | None = None) -> T:
        """Return one page of a list; ``more`` are further params of the request.

        Raises:
            BadServerResponse: it is malformed beyond its members.
        """
        params: Mapping[str, Any] | None = more if cursor is None else {**(more or {}), "cursor": cursor}
        page = self.typed(await self.cached(method, params), type_, method)
        return cast("T", self.seen(page)) if isinstance(page, ListToolsResult) else page

    async def all(
        self, method: str, type_: type[T], items: Callable[[T], list[Any]], more: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Return the items of all pages.

        Args:
            method, type_: the request, and the type of its result.
            items: returns the items of one page.
            more: further params of each request.

        Raises:
            TooManyPages: the list has more than `MAX_PAGES` pages.
        """
        try:
            return await self._all_pages(method, type_, items, more)
        except _CursorRefused as refused:
            # A cached page may be older than the lifetime of its cursor: start again, once.
            await self._cache.invalidate(method)
            try:
                return await self._all_pages(method, type_, items, more)
            except _CursorRefused as again:
                raise again.error from refused.error

    async def _all_pages(
        self, method: str, type_: type[T], items: Callable[[T], list[Any]], more: Mapping[str, Any] | None
    ) -> list[Any]:
        found: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self.page(method, type_, cursor, more)
            except RemoteError as error:
                # Without a cursor the same code is an error of the request itself.
                if cursor is not None:
                    if error.code == JsonRpcErrorCode.INVALID_PARAMS:
                        raise _CursorRefused(error) from error
                elif error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:
                    kind = method.removesuffix("/list").replace("/", " ")
                    raise RemoteError(f"The server offers no {kind}", code=error.code, data=error.data) from error
                raise
            found += items(page)
            cursor = cast("Any", page).next_cursor
            # Not `if not cursor`: an empty text is a valid cursor ("Pagination").
            if cursor is None:
                return found
            if cursor in seen:
                logger.warning(
                    "%s of %s gives the cursor %.80r a second time; what was read so far is taken for the whole list",
                    method,
                    self._label(),
                    cursor,
                )
                return _once_each(method, found)
            seen.add(cursor)
        raise TooManyPages(f"{method} has more than {MAX_PAGES} pages")

    def seen(self, page: Any) -> Any:
        """Remember the tools of a page and return the page; over HTTP without tools that cannot be called."""
        refused = self.metadata.learn(page.tools, checks_headers=self.mirrors_headers)
        for name, why in refused.items():
            logger.warning("The tool %r of %s is left out: %s", name, self._label(), why)
        if not refused:
            return page
        from msgspec.structs import replace

        return replace(page, tools=[tool for tool in page.tools if tool.name not in refused])

    async def cached(self, method: str, params: Mapping[str, Any] | None, **options: Any) -> Any:
        """Return the raw result of a request, from the cache where the server allows it to be kept."""
        if not self._has_hints() or options.get("meta"):
            return await self._requests.request(
                method, params, **options
            )  # the caller's own keys in ``_meta`` may change the result
        kept = await self._cache.get(method, params)
        return await self.fetched(method, params, **options) if kept is None else kept

    def _has_hints(self) -> bool:
        session = self._requests.sessions.current
        return session is not None and session.revision.has_cache_hints

    async def kept(self, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the raw result that the cache has for a request; ``None`` if it has none."""
        return await self._cache.get(method, params) if self._has_hints() else None

    async def fetched(self, method: str, params: Mapping[str, Any] | None, **options: Any) -> Any:
        """Return the raw result of a request that is sent in any case, and keep it where the server allows that."""
        mark = self._cache.before(method)
        raw = await self._requests.request(method, params, **options)
        if self._has_hints():
            await self._cache.put(method, params, raw, mark)
        return raw

    async def forget(self, *methods: str) -> None:
        """Remove the results of these methods from the cache."""
        await self._cache.invalidate(*methods)

    def typed(self, raw: Any, type_: type[T], method: str) -> T:
        """Return a raw result with its type; a list without members that are malformed.

        Raises:
            BadServerResponse: it does not fit the type.
        """
        try:
            return convert(raw, type_)
        except ConvertError as error:
            usable = self.without_malformed(method, raw) if method in _LISTED else raw
            if usable is not raw:
                return self.typed(usable, type_, method)
            raise BadServerResponse(
                f"The server {self._label()} answered {method} with something malformed: {error}"
            ) from error

    def without_malformed(self, method: str, raw: Any) -> Any:
        """Return the raw page of a list without its malformed items, each of which is logged once.

        One malformed tool must not make the others unusable. If no item is malformed, ``raw`` itself is returned.
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
            logger.warning("%.200r is left out of %s of %s: %.1000s", name, method, self._label(), error)


class _CursorRefused(Exception):
    """The server refused the params of a page that was asked for with a cursor."""

    def __init__(self, error: RemoteError) -> None:
        super().__init__(error)
        self.error = error


def _once_each(method: str, items: list[Any]) -> list[Any]:
    """Return the members without repetitions, for a server that sends the same page again."""
    if method not in _LISTED:  # a list of an extension, whose reader knows its members
        return items
    attribute = {"uriTemplate": "uri_template"}.get(_LISTED[method][2], _LISTED[method][2])
    return list({getattr(item, attribute): item for item in reversed(items)}.values())[::-1]
