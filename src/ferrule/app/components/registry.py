"""The decorators that register functions as tools, resources, prompts and completers of one server.

The decorators return the function unchanged: it stays callable, typed and testable. The components are kept in the
`ToolSet`, `ResourceSet` and `PromptSet`, which serve them. `MCPServer` adds lifespans, mounts, extensions and
transports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from ferrule._options import check_options
from ferrule.app.components.completion import CompletionSet
from ferrule.app.components.component import SetSettings
from ferrule.app.components.options import (
    UI_OPTIONS,
    PromptOptions,
    ResourceOptions,
    ToolDefaults,
    ToolOptions,
)
from ferrule.app.components.prompts import PromptComponent, PromptSet
from ferrule.app.components.resources import ResourceComponent, ResourceSet
from ferrule.app.components.tools import ToolComponent, ToolSet
from ferrule.app.errors import RegistrationError
from ferrule.app.execution.threads import WorkerThreads
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import LifespanT

if TYPE_CHECKING:
    from typing import Unpack

    from ferrule.app.components.index import ComponentIndex, OnDuplicate
    from ferrule.app.components.keywords import PromptKeywords, ResourceKeywords, ToolKeywords, UiKeywords
    from ferrule.kernel.protection import ServerProtection
    from ferrule.kernel.server import Server

__all__ = ["ComponentRegistry"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class ComponentRegistry(Generic[LifespanT]):
    """The components of one server and the decorators that add to them; the base of `MCPServer`.

    Args:
        lowlevel: the kernel's server, which serves the components.
        max_threads, page_size: as given to `MCPServer`.
        protection: the server's authorization; with one, lists are kept out of shared caches. ``None`` without.
        tool_defaults: options of tools that do not set them.
        on_duplicate: what registering a taken name or URI does.
    """

    def __init__(
        self,
        lowlevel: Server[LifespanT],
        *,
        max_threads: int,
        page_size: int | None,
        protection: ServerProtection | None,
        tool_defaults: ToolDefaults,
        on_duplicate: OnDuplicate = "error",
    ) -> None:
        self.lowlevel: Server[LifespanT] = lowlevel
        self.protection: ServerProtection | None = protection
        self.threads = WorkerThreads(max_threads)

        def changed(kind: str) -> Callable[[], None]:
            return lambda: self._list_changed(kind)

        settings = SetSettings(
            server=lowlevel, threads=self.threads, page_size=page_size, is_private=protection is not None
        )
        self.tools = ToolSet(settings, changed("tools"), tool_defaults)
        self.resources = ResourceSet(settings, changed("resources"))
        self.prompts = PromptSet(settings, changed("prompts"))
        self.completions = CompletionSet(lowlevel, self.prompts, self.resources, self.threads)
        if on_duplicate != "error":
            self._set_on_duplicate(on_duplicate)

    def _set_on_duplicate(self, on_duplicate: OnDuplicate) -> None:
        if on_duplicate not in ("warn", "replace"):
            raise ValueError(f"on_duplicate={on_duplicate!r}: expected 'error', 'warn' or 'replace'")
        self.tools.index.on_duplicate = on_duplicate
        self.resources.fixed.on_duplicate = on_duplicate
        self.resources.templates.on_duplicate = on_duplicate
        self.prompts.index.on_duplicate = on_duplicate
        self.completions.on_duplicate = on_duplicate

    def _list_changed(self, kind: str) -> None:
        self.lowlevel.list_changed.add(kind)
        if kind == "resources":
            self.lowlevel.resource_updates = True
        self.lowlevel.bus.publish(Event.list_changed(kind))

    def _added_tool(self, tool: ToolComponent) -> None:
        """Prepare a newly registered tool, before its first call; `MCPServer` overrides this."""

    # -- tools -----------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def tool(
        self, called: str | None = None, /, **options: Unpack[ToolKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Serve a function as a tool: ``@app.tool``, ``@app.tool("name", title=…)``, or ``app.tool(function)``.

        The function is returned unchanged. Its parameters become the input schema, its docstring the descriptions, its
        return annotation the output schema.

        Args:
            name: the tool's name; the function's own if not given.
            title: for display.
            description: for the model; the docstring up to its first section if not given.
            annotations: hints, such as ``{"readOnlyHint": True}``.
            icons, meta: published unchanged.
            tags: labels for `enable` and `disable`; not published.
            scopes: scopes that a token needs for a call (HTTP), or ``(principal, arguments) -> scopes``. Without them
                the response is 403 with a challenge that names exactly these.
            allow: ``(principal) -> bool`` (HTTP); where it returns ``False``, the tool does not exist for the client.
            schema: ``"model"`` or ``"exact"``; the server's if not given.
            input_schema: your own 2020-12 schema, published untouched and enforced; the function may then take
                ``**kwargs``.
            output_schema: your own schema of the result, published untouched and enforced.
            structured: ``False``: no output schema, results are text only. ``"object"``: data that is no object is
                wrapped as ``{"result": …}`` in each revision, also in 2026-07-28, which allows any value.
            text: the server's if not given.
            max_result_bytes: the server's if not given.
            timeout_s: maximum duration of one run in seconds; the time in which a question waits for its answer does
                not count.
            max_concurrent: maximum number of runs at the same time in this process, under all names that mounts give
                the tool; further ones wait.
            task: ``"optional"``: a call becomes a task where client and era allow it; ``"required"``: it is refused
                otherwise. Either adds the tasks extension (`add_extension` to configure it).
            task_after_s: when a call becomes a task (2026-07-28): 0 at once; otherwise after so many seconds, during
                which the client waits for the result; ``None`` only when the function calls ``ctx.begin_task()``. A
                legacy client decides itself.
            resumable: after a crash another process may run the function again: its recorded steps and answers are
                replayed, and all other code runs a second time.

        Returns:
            The function, or a decorator for it.

        Raises:
            SignatureError: the function cannot be served.
            RegistrationError: the name is taken or malformed, or a schema cannot be used.
        """
        if function is None or isinstance(function, str):
            named: Any = options if function is None else dict(name=function, **options)

            def register(target: FunctionT) -> FunctionT:
                self.add_tool(target, **named)
                return target

            return register
        self.add_tool(function, **options)
        return function

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolKeywords]) -> ToolComponent:
        """Return the component of a function registered as a tool; for the options and errors see `tool`."""
        check_options("A tool", options, ToolOptions)
        component = self.tools.add(function, ToolOptions(**options))
        self._added_tool(component)
        return component

    def ui(self, page: Any = None, /, **options: Unpack[UiKeywords]) -> Callable[[FunctionT], FunctionT]:
        """Serve a function as a tool whose result the host shows in a page (MCP Apps): ``@app.ui("board.html")``.

        It registers the tool, the page as a ``ui://`` resource, and the policy of the page; the first use adds the
        apps extension (`add_extension` to configure it). Clients that show no views get the tool without the page.

        Args:
            page: an HTML file, or a folder with ``index.html``, relative to the module of the function; HTML text; or
                a ready view of `ferrule.extensions.apps`. ``None``: a tool without a page, for calls by pages.
            csp: origins that the page may use, such as ``{"resourceDomains": ["https://cdn.example.com"]}``; the other
                keys are ``connectDomains``, ``frameDomains`` and ``baseUriDomains``. Local files need none.
            permissions: ``"camera"``, ``"microphone"``, ``"geolocation"``, ``"clipboardWrite"``.
            visibility: ``"app"`` for a tool that only pages call, and that hosts hide from the model; ``"model"`` for
                one that pages must not call. This is no protection: use ``scopes`` and ``allow``.
            prefers_border: whether the host draws a border; ``None`` lets it decide.
            domain: origin of the page's frame, in the form that the host defines.
            state: give each result an id, under which its view keeps state (``view.save``).
            options: as for `tool`.

        Returns:
            A decorator, which returns the function unchanged.

        Raises:
            PageError: a file is missing, or the page loads what its policy does not allow; with file and line.
            SignatureError: the function cannot be served.
            RegistrationError: an option has no possible value, or the name is taken.
        """
        check_options("@app.ui", options, ToolOptions, *UI_OPTIONS)
        # A name instead of an import: extensions are in a higher layer, and most servers have no pages.
        from importlib import import_module

        register: Any = import_module("ferrule.extensions.apps.extension").register_ui
        made: Callable[[FunctionT], FunctionT] = register(self, page, options)
        return made

    def remove_tool(self, name: str) -> None:
        """Remove a tool and notify the clients that listen to changes of the list.

        Raises:
            KeyError: there is no such tool.
        """
        self.tools.remove(name)

    # -- resources -------------------------------------------------------------------------------------------------

    def resource(self, uri: str, /, **options: Unpack[ResourceKeywords]) -> Callable[[FunctionT], FunctionT]:
        """Serve a function as a resource: ``@app.resource("data://stock")`` or ``@app.resource("data://{metal}")``.

        The variables of a template are the function's parameters. It may return text, bytes, JSON-shaped data,
        `ResourceContents`, `File` or `Embedded`, or a list of them; ``None`` means that there is no such resource.

        Args:
            uri: a URI, or an RFC 6570 template.
            name: the function's own if not given.
            title, description, icons, annotations, meta, tags, scopes, allow: as for a tool.
            mime_type: if not given, ``text/plain``, ``application/json`` or ``application/octet-stream`` by the type
                of the returned value; listed only when given.
            size: in bytes, when known.
            contents_meta: ``_meta`` of each content item in the result of a read; ``meta`` is that of the list entry.
            guard_paths: refuse variables that contain ``..`` segments, absolute paths or NUL.
            ttl_ms: milliseconds that the contents may be cached (2026-07-28).
            cache_scope: ``"public"`` for shared caches too, or ``"private"`` (2026-07-28).
            listed: ``False``: in no list; a client that knows the URI can read it.

        Returns:
            A decorator, which returns the function unchanged.

        Raises:
            SignatureError: the parameters are not the template's variables.
            RegistrationError: the URI is malformed or taken.
        """
        if not isinstance(cast("Any", uri), str):
            raise RegistrationError("@app.resource needs a URI: @app.resource('data://…')")

        def register(function: FunctionT) -> FunctionT:
            self.add_resource(uri, function, **options)
            return function

        return register

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceKeywords]
    ) -> ResourceComponent:
        """Return the component of a function registered as a resource; for the options and errors see `resource`."""
        check_options("A resource", options, ResourceOptions)
        component = self.resources.add(uri, function, ResourceOptions(**options))
        if component.template is not None:
            self.completions.notice(component.spec)
        return component

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template and notify the clients that listen to changes of the list.

        Raises:
            KeyError: there is no such resource or template.
        """
        self.resources.index_of(uri).remove(uri)

    # -- prompts ---------------------------------------------------------------------------------------------------

    @overload
    def prompt(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def prompt(
        self, called: str | None = None, /, **options: Unpack[PromptKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...

    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Serve a function as a prompt: ``@app.prompt``, ``@app.prompt("name", title=…)``, or ``app.prompt(function)``.

        It may return text (one message of the user), a `PromptMessage`, ``(role, text)``, a content helper, or a list
        of them. For the arguments see `tool`.

        Returns:
            The function, or a decorator for it.

        Raises:
            SignatureError: the function cannot be served.
            RegistrationError: the name is taken or empty.
        """
        if function is None or isinstance(function, str):
            named: Any = options if function is None else dict(name=function, **options)

            def register(target: FunctionT) -> FunctionT:
                self.add_prompt(target, **named)
                return target

            return register
        self.add_prompt(function, **options)
        return function

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptKeywords]) -> PromptComponent:
        """Return the component of a function registered as a prompt; for the options and errors see `prompt`."""
        check_options("A prompt", options, PromptOptions)
        component = self.prompts.add(function, PromptOptions(**options))
        self.completions.notice(component.spec)
        return component

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and notify the clients that listen to changes of the list.

        Raises:
            KeyError: there is no such prompt.
        """
        self.prompts.index.remove(name)

    def complete(self, owner: str | Callable[..., Any], argument: str, /) -> Callable[[FunctionT], FunctionT]:
        """Complete one argument of a prompt, or one variable of a template.

        The decorated function takes the typed text and returns values; it may also take ``arguments`` (those already
        filled in) and a `Context`. ``Literal`` and enum parameters need no completer.

        Args:
            owner: the prompt's name or function, or the template's text.
            argument: the parameter's name.

        Returns:
            A decorator, which returns the function unchanged.

        Raises:
            RegistrationError: there is no such prompt, template or argument, or it already has a completer.
        """
        name = self._completed_name(owner, argument)

        def register(function: FunctionT) -> FunctionT:
            self.completions.add(name, argument, function)
            return function

        return register

    def _completed_name(self, owner: str | Callable[..., Any], argument: str) -> str:
        components: list[tuple[str, Any]] = [(prompt.name, prompt.spec) for prompt in self.prompts.index]
        components += [(template.uri, template.spec) for template in self.resources.templates]
        for name, spec in components:
            if owner == name or owner is spec.function:
                if any(part.name == argument for part in spec.finish().parameters):
                    return name
                raise RegistrationError(f"{name!r} has no argument {argument!r}")
        raise RegistrationError(f"There is no prompt and no template {owner!r} to complete")

    # -- at run time -----------------------------------------------------------------------------------------------

    def enable(
        self,
        *,
        tool: str | None = None,
        resource: str | None = None,
        prompt: str | None = None,
        tag: str | None = None,
    ) -> None:
        """Enable a component, or all that have a tag, and notify the clients that listen to changes of the list.

        Args:
            tool, prompt: the component's name.
            resource: the URI or the template's text.
            tag: a tag of components of any kind.

        Raises:
            KeyError: there is no component of that name.
        """
        self._set_enabled(True, tool, resource, prompt, tag)

    def disable(
        self,
        *,
        tool: str | None = None,
        resource: str | None = None,
        prompt: str | None = None,
        tag: str | None = None,
    ) -> None:
        """Disable a component, or all that have a tag: it is neither listed nor served until it is enabled again.

        Clients that listen to changes of the list are notified.

        Args:
            tool, resource, prompt, tag: as for `enable`.

        Raises:
            KeyError: there is no component of that name.
        """
        self._set_enabled(False, tool, resource, prompt, tag)

    def _set_enabled(
        self, enabled: bool, tool: str | None, resource: str | None, prompt: str | None, tag: str | None
    ) -> None:
        if tag is not None:
            indexes: list[ComponentIndex[Any]] = [
                self.tools.index,
                self.resources.fixed,
                self.resources.templates,
                self.prompts.index,
            ]
            for index in indexes:
                if enabled:
                    index.hidden_tags.discard(tag)
                else:
                    index.hidden_tags.add(tag)
                for key, component in index.items():
                    if tag in component.tags:
                        index.set_enabled(key, enabled)
        if tool is not None:
            self.tools.index.set_enabled(tool, enabled)
        if resource is not None:
            self.resources.index_of(resource).set_enabled(resource, enabled)
        if prompt is not None:
            self.prompts.index.set_enabled(prompt, enabled)
