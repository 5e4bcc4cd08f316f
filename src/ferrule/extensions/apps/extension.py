"""`Apps`: tools with a page that the host shows (MCP Apps), for both eras.

``@app.ui`` registers three parts at once: the tool, whose ``_meta.ui`` names the page; the page as a ``ui://``
resource; and the policy of the page, which hosts read from the list entry or from the content item of that resource.

A client that does not declare the extension gets the same tools without ``_meta.ui``, and neither the pages nor the
tools that only pages call. The legacy era has no capability for extensions, and hosts of it show pages without one: a
legacy client that declares no extension at all gets ``_meta.ui`` and the pages, and others ignore them; it does not get
the tools that only pages call, which a client without views would offer to its model. A client whose capabilities are
not known gets everything: it sent its requests to a server without sessions, in the legacy era. Revisions before
2025-06-18 have no ``_meta`` in lists, and hence no pages.

Source: MCP Apps 2026-01-26, "Client<>Server Capability Negotiation": servers SHOULD check what clients declare.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast
from uuid import uuid4

import anyio
from msgspec.structs import replace

from ferrule.app.errors import RegistrationError
from ferrule.extensions.apps.errors import PageError
from ferrule.extensions.apps.listing import (
    FLAT_KEY,
    PLAIN_RESOURCES,
    PLAIN_TOOLS,
    TOOLS_FOR_MODELS,
    VERSIONS_TAG,
    VISIBILITIES,
    WITHOUT_VERSIONS,
    says_nothing,
    supports_apps,
)
from ferrule.extensions.apps.packaging import MAX_PAGE_BYTES
from ferrule.extensions.apps.page import MIME_TYPE, FilePage, PageSource, TextPage, UiPage, slug
from ferrule.extensions.apps.policy import make_policy
from ferrule.extensions.apps.text import with_text
from ferrule.extensions.apps.views import ReadyView
from ferrule.extensions.base import Extension
from ferrule.protocol.capabilities import APPS_EXTENSION
from ferrule.search.definitions import ALWAYS_LISTED, NEVER_FOUND
from ferrule.wire.types import Tool, ToolResult

if TYPE_CHECKING:
    from ferrule.app.components.index import ListVariant
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.server import MCPServer
    from ferrule.extensions.apps.policy import UiPolicy
    from ferrule.kernel.server import Server, ServerRequestContext

__all__ = ["CLIENT_SETTINGS", "VIEW_ID_KEY", "Apps", "register_ui"]

logger = logging.getLogger("ferrule.apps")

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

CLIENT_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {APPS_EXTENSION: {"mimeTypes": [MIME_TYPE]}}
"""What a client that shows views declares: ``Client(…, extensions=CLIENT_SETTINGS)``."""

VIEW_ID_KEY: Final = "viewUUID"
"""The key in ``_meta`` of a result under which a view keeps its state."""

_RELOAD: Final = "FERRULE_RELOAD"
_WATCH_S: Final = 0.25


class _Link:
    """What the extension knows of one tool: the page, and who may call the tool."""

    __slots__ = ("flat_key", "has_state", "page", "visibility")

    def __init__(self, page: UiPage | None, visibility: tuple[str, ...], has_state: bool, flat_key: bool) -> None:
        self.page = page
        self.visibility = visibility
        self.has_state = has_state
        self.flat_key = flat_key

    def meta(self, tool: ToolComponent) -> dict[str, Any]:
        """Return the ``_meta`` of the tool in a list."""
        given = tool.options.meta or {}
        own: dict[str, Any] = {"visibility": list(self.visibility)}
        flat: dict[str, Any] = {}
        if self.page is not None:
            uri = self.page.uri if tool.mount_path is None else tool.mount_path.outer_uri(self.page.uri)
            own = {"resourceUri": uri, **own}
            if self.flat_key:
                flat = {FLAT_KEY: uri}
        return {**given, **flat, "ui": {**given.get("ui", {}), **own}}

    def __call__(self, result: ToolResult) -> ToolResult:
        """Return a result with text for hosts without views, and with the id of its view."""
        result = with_text(result)
        if not self.has_state:
            return result
        return replace(result, meta={VIEW_ID_KEY: str(uuid4()), **(result.meta or {})})


class Apps(Extension):
    """The apps extension; ``MCPServer(extensions=[Apps(…)])``, or implied by ``@app.ui``.

    Args:
        always: give everything to each client, also to one that does not declare the extension; ``False``: only to
            those that declare it, also in the legacy era; ``None``: to those, and ``_meta.ui`` with the pages to
            legacy clients that declare no extension at all.
        flat_key: publish the page under ``_meta["ui/resourceUri"]`` too, as hosts before 2026-01-26 expect it.
        max_page_bytes: maximum size of a page with the files inlined in it.
        reload: read a changed page again while the server runs, and notify the clients; ``None``: if the environment
            variable ``FERRULE_RELOAD`` is set, as ``ferrule dev`` and ``ferrule run --reload`` do.
    """

    identifier: ClassVar[str] = APPS_EXTENSION
    in_handshake: ClassVar[bool] = True

    def __init__(
        self,
        *,
        always: bool | None = None,
        flat_key: bool = False,
        max_page_bytes: int = MAX_PAGE_BYTES,
        reload: bool | None = None,
    ) -> None:
        self.always = always
        self.flat_key = flat_key
        self.max_page_bytes = max_page_bytes
        self.reload = bool(os.environ.get(_RELOAD)) if reload is None else reload
        self._app: MCPServer[Any] | None = None
        self._pages: dict[Any, UiPage] = {}
        self._mounted: list[Apps] = []

    # -- the extension -------------------------------------------------------------------------------------------------

    def attach(self, app: MCPServer[Any]) -> None:
        """See `Extension`."""
        self.install(app.lowlevel)
        self._app = app
        app.tools.index.variant_of = self._tools_for
        app.resources.fixed.variant_of = self._resources_for
        app.resources.templates.variant_of = lambda _: WITHOUT_VERSIONS
        app.tools.index.followers.append(self._drop_pages)

    def mounted_in(self, parent: MCPServer[Any]) -> None:
        """See `Extension`: the parent lists the pages under its own URIs, in the same way."""
        if self.identifier not in parent.extensions:
            parent.add_extension(Apps(always=self.always, flat_key=self.flat_key, reload=self.reload))
        outer = cast("Apps", parent.extensions[self.identifier])
        if self not in outer._mounted:
            outer._mounted.append(self)

    def prepare_tool(self, tool: ToolComponent) -> None:
        """See `Extension`."""
        if isinstance(tool.change_result, _Link) and tool.change_result.has_state:
            tool.plain = False  # each of its results gets an id

    def running(self, server: Server[Any], state: Any) -> AbstractAsyncContextManager[Any]:
        """See `Extension`."""
        return self._watching() if self.reload else nullcontext()

    def _tools_for(self, ctx: ServerRequestContext[Any]) -> ListVariant | None:
        connection = ctx.session.connection
        # Before 2025-06-18 an entry of a list has no `_meta`, which would name its page.
        if "meta" in connection.revision.lacks(Tool):
            return PLAIN_TOOLS
        declared = connection.client_capabilities_raw
        if self.always or supports_apps(declared):
            return None
        if self.always is None and not connection.revision.has_extensions and says_nothing(declared):
            return TOOLS_FOR_MODELS
        return PLAIN_TOOLS

    def _resources_for(self, ctx: ServerRequestContext[Any]) -> ListVariant | None:
        return PLAIN_RESOURCES if self._tools_for(ctx) is PLAIN_TOOLS else None

    # -- registering ---------------------------------------------------------------------------------------------------

    def add(
        self,
        function: Callable[..., Any],
        page: str | os.PathLike[str] | PageSource | ReadyView | None,
        *,
        csp: Mapping[str, Iterable[str]] | None = None,
        permissions: Iterable[str] = (),
        visibility: str | Iterable[str] = VISIBILITIES,
        prefers_border: bool | None = None,
        domain: str | None = None,
        state: bool = False,
        **options: Any,
    ) -> ToolComponent:
        """Return the component of a function registered as a tool with a page; see `MCPServer.ui`.

        Raises:
            PageError: the page cannot be packaged.
            RegistrationError: ``visibility`` has no or unknown words, or the tool cannot be registered.
        """
        app = self._server()
        seen_by = _visibility(visibility)
        policy = make_policy(csp, permissions, prefers_border, domain)
        if page is None and (csp or permissions):
            raise RegistrationError("csp and permissions are for a page, and this tool has none")
        if isinstance(page, ReadyView):
            state = state or page.needs_state
            options.setdefault("text", page.text)
        # Pages made with the official package refuse structured content that is no object, in any revision.
        options.setdefault("structured", "object")
        tags = {*options.pop("tags", ()), *_search_tags(page is not None, seen_by)}
        tool = app.add_tool(function, tags=sorted(tags), **options)
        try:
            made = None if page is None else self._page(_source_of(page, tool, app), policy)
        except RegistrationError:
            app.remove_tool(tool.name)
            raise
        link = _Link(made, seen_by, state, self.flat_key)
        tool.publish_meta = link.meta
        tool.change_result = link
        self.prepare_tool(tool)
        app.tools.index.touch()  # copies in servers that this one is mounted in
        if made is not None:
            self._serve(made, tool)
        return tool

    def _server(self) -> MCPServer[Any]:
        if self._app is None:
            raise RuntimeError("Apps is not added to a server")
        return self._app

    def _page(self, source: PageSource, policy: UiPolicy) -> UiPage:
        key = (*_key_of(source), policy)
        found = self._pages.get(key)
        if found is None:
            name, number = slug(source.name), 1
            taken = {page.name for page in self._pages.values()}
            while name in taken:  # a URI of an earlier version must lead to this page and to no other
                number += 1
                name = f"{slug(source.name)}-{number}"
            found = self._pages[key] = UiPage(source, policy, self._server().name, name, self.max_page_bytes)
        return found

    def _serve(self, page: UiPage, tool: ToolComponent) -> None:
        """Register the page of a tool as a resource, unless another tool has the same."""
        page.tools.append(tool)
        app = self._server()
        if page.uri not in app.resources.fixed:
            self._register(page, page.uri, page.read)
        if page.versions not in app.resources.templates:
            self._register(page, page.versions, page.read_version, tags=[VERSIONS_TAG])

    def _drop_pages(self) -> None:
        """Remove the pages whose last tool was removed."""
        if self._app is None:
            return
        tools, resources = self._app.tools.index, self._app.resources
        for key, page in list(self._pages.items()):
            if not page.tools or any(tools.get(tool.name) is tool for tool in page.tools):
                continue
            del self._pages[key]
            for index, uri in ((resources.fixed, page.uri), (resources.templates, page.versions)):
                if uri in index:
                    index.remove(uri)

    def _register(self, page: UiPage, uri: str, read: Callable[..., str], **more: Any) -> None:
        meta = {"ui": page.policy.meta()}
        guarded = all(tool.guard is not None for tool in page.tools)
        self._server().add_resource(
            uri,
            read,
            name=page.name,
            description=f"The page of {page.tools[0].name}",
            mime_type=MIME_TYPE,
            meta=meta,
            contents_meta=meta,
            allow=page.exists_for if guarded else None,
            **more,
        )

    # -- reloading -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _watching(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            yield
            group.cancel_scope.cancel()

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(_WATCH_S)
            await self.look_again()

    async def look_again(self) -> list[str]:
        """Read the pages again whose files have changed, notify the clients, and return the new URIs."""
        changed: list[str] = []
        for inner in self._mounted:
            changed += await inner.look_again()
        for page in list(self._pages.values()):
            before = page.uri
            if await anyio.to_thread.run_sync(page.read_again, _report):
                self._replace(page, before)
                changed.append(page.uri)
        return changed

    def _replace(self, page: UiPage, before: str) -> None:
        app = self._server()
        if before in app.resources.fixed:
            app.remove_resource(before)
        if page.uri not in app.resources.fixed:
            self._register(page, page.uri, page.read)
        app.tools.index.changed()  # their `_meta` names the page by its new URI
        app.notify_resource_updated(before)


def register_ui(app: MCPServer[Any], page: Any, options: Mapping[str, Any]) -> Callable[[FunctionT], FunctionT]:
    """Return the decorator ``@app.ui(page, …)``; see `MCPServer.ui`."""
    if isinstance(page, type):
        page = page()
    if callable(page):
        raise RegistrationError(
            '@app.ui needs a page: @app.ui("board.html"); for a tool that only pages call, @app.ui(visibility="app")'
        )
    if APPS_EXTENSION not in app.extensions:
        app.add_extension(Apps())
    apps = cast("Apps", app.extensions[APPS_EXTENSION])

    def register(function: FunctionT) -> FunctionT:
        apps.add(function, page, **options)
        return function

    return register


def _visibility(given: str | Iterable[str]) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
    if not words or any(word not in VISIBILITIES for word in words):
        raise RegistrationError(f'visibility is "model", "app" or both, not {given!r}')
    return words


def _search_tags(has_page: bool, visibility: tuple[str, ...]) -> list[str]:
    """Return the tags that keep a tool in the list of a server with tool search, and out of what models find."""
    is_for_models = "model" in visibility
    return [*([ALWAYS_LISTED] if has_page or not is_for_models else ()), *(() if is_for_models else [NEVER_FOUND])]


def _source_of(
    page: str | os.PathLike[str] | PageSource | ReadyView, tool: ToolComponent, app: MCPServer[Any]
) -> PageSource:
    if isinstance(page, ReadyView):
        return page.page_for(tool, app)
    if not isinstance(page, str | os.PathLike):
        return page
    if isinstance(page, str) and "<" in page:
        return TextPage(page, tool.name)
    module = sys.modules.get(tool.spec.function.__module__)
    file = None if module is None else vars(module).get("__file__")  # a session of the interpreter has none
    # Beside the module of the function: a server is started in any folder.
    folder = Path.cwd() if file is None else Path(file).resolve().parent
    return FilePage(folder / Path(page))


def _key_of(source: PageSource) -> tuple[Any, ...]:
    if isinstance(source, FilePage):
        return ("file", source.path.resolve())
    return ("text", source.text) if isinstance(source, TextPage) else ("source", source)


def _report(error: PageError) -> None:
    logger.error("The page stays as it was: %s", error)
