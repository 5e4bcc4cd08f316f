"""Resources: functions behind a URI or a URI template.

A requested URI is first looked up among the single resources, then matched against the templates in the order of
registration (RFC 6570, escapes decoded once). The matched variables are the function's arguments, converted to their
declared types; a value that cannot be converted means that there is no such resource. A missing resource is always an
error, never empty contents ("Resources", error handling): that is also the meaning of a returned ``None``.

Values of variables come from a peer and may contain ``..`` or ``/`` after decoding. By default a value that could lead
out of a directory is refused as not found; ``guard_paths=False`` turns that off for variables that are never paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast

from msgspec.structs import replace

from ferrule.app.components.component import Component, SetSettings
from ferrule.app.components.index import ComponentIndex
from ferrule.app.components.options import ResourceOptions
from ferrule.app.errors import RegistrationError, ResultError, SignatureError, ToolError
from ferrule.app.execution.invoke import call_function, check_dependencies
from ferrule.app.results.content import Content, resource_contents
from ferrule.app.results.result_plan import to_json_value
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.app.signatures.function import FunctionSpec, compile_function
from ferrule.app.signatures.shapes import kinds_of
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import InternalError, MCPError, ResourceNotFound
from ferrule.wire.codec import Encoded, encode_str
from ferrule.wire.faults import EncodeError
from ferrule.wire.json_types import is_array, is_object
from ferrule.wire.patterns import pattern
from ferrule.wire.revisions import Revision
from ferrule.wire.types import (
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)
from ferrule.wire.uri_template import MatchedValue, UriTemplate, UriTemplateError, normal_uri

if TYPE_CHECKING:
    from ferrule.app.authorization.guards import Guard
    from ferrule.app.components.mount_path import MountPath

__all__ = ["ResourceComponent", "ResourceSet", "canonical_uri", "is_safe_path"]

_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_RESERVED_ESCAPE = pattern(r"%(?:2[134678ABCF]|3[ABDF]|40|5[BD])")
_ESCAPES_KEPT: Final = ("", "/?#", "/?#&,;=")
"""Reserved characters whose escapes stay in the canonical form of a URI, in the order in which they are tried."""
_DRIVE = pattern(r"[A-Za-z]:")


class ResourceComponent(Component[ResourceOptions]):
    """One registered resource or template.

    Args:
        spec: the compiled function.
        uri: the URI, or the template's text.
        template: the parsed template; ``None`` for a single resource.
        options: as registered.

    Attributes:
        uri, template: as given.
    """

    __slots__ = ("template", "uri")

    def __init__(self, spec: FunctionSpec, uri: str, template: UriTemplate | None, options: ResourceOptions) -> None:
        super().__init__(spec, options.name or spec.name, options)
        self.uri = uri
        self.template = template

    def copy_for_mount(self, key: str, mount_path: MountPath) -> Self:
        """Return a copy with ``key`` as its URI or template text and with the same name; see `Component`."""
        made = super().copy_for_mount(self.name, mount_path)
        made.uri = key
        made.template = None if self.template is None else UriTemplate(key)
        return made

    def resource(self) -> Resource:
        """Return the entry in ``resources/list``; for a single resource only."""
        options = self.options
        return Resource(
            self.uri,
            self.name,
            title=options.title,
            description=self.description,
            mime_type=options.mime_type,
            size=options.size,
            annotations=options.annotations,
            icons=options.icons,
            meta=options.meta,
        )

    def resource_template(self) -> ResourceTemplate:
        """Return the entry in ``resources/templates/list``; for a template only."""
        options = self.options
        return ResourceTemplate(
            self.uri,
            self.name,
            title=options.title,
            description=self.description,
            mime_type=options.mime_type,
            annotations=options.annotations,
            icons=options.icons,
            meta=options.meta,
        )


def canonical_uri(uri: str, component: ResourceComponent, values: Mapping[str, MatchedValue]) -> str:
    """Return one URI for all spellings for which a component is called with the same values.

    It is the registered URI of a single resource. For a template it is the expansion, with reserved characters as
    themselves where that does not change the values: ``docs://a!b`` also for ``docs://%61%21b``.

    Args:
        uri: the URI as requested.
        component: the component that serves it.
        values: the values of its variables.
    """
    template = component.template
    if template is None:
        return component.uri
    try:
        base = template.expand(values)
    except EncodeError:  # a prefix that is also a list
        base = ""
    if template.match(base) != values:  # some expansions lose values, such as that of a prefix
        base = normal_uri(uri)
    for kept in _ESCAPES_KEPT if "%" in base else ():
        made = _RESERVED_ESCAPE.sub(partial(_decoded_unless, kept), base)
        if made == base or template.match(made) == values:
            return made
    return base


def _decoded_unless(kept: str, escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return escape[0] if character in kept else character


class ResourceSet:
    """The resources of one server, and the three methods that serve them; see `ToolSet` for the arguments.

    Attributes:
        fixed, templates: the single resources by URI, and the templates by their text.
        page_size: components on a page of a list; ``None`` for all.
    """

    def __init__(self, settings: SetSettings, on_change: Callable[[], None]) -> None:
        self.fixed: ComponentIndex[ResourceComponent] = ComponentIndex("resource", on_change, settings.is_private)
        self.templates: ComponentIndex[ResourceComponent] = ComponentIndex(
            "resource template", on_change, settings.is_private
        )
        self._server = settings.server
        self._threads = settings.threads
        self.page_size = settings.page_size
        self._by_normal_uri: dict[str, ResourceComponent] | None = None
        self.fixed.followers.append(self._forget_normal_uris)
        settings.server.resource_visibility = self._resource_visibility
        settings.server.has_resource = self._has_resource

    def _resource_visibility(self, principal: Any) -> Callable[[str], bool]:
        """Return a function from a URI to whether ``principal`` may receive updates of it: if it may read it."""

        def may_see(uri: str) -> bool:
            if not (self.fixed.is_guarded or self.templates.is_guarded):
                return True
            found = self.find(uri, lambda guard: guard.exists_for(principal))
            if found is None:  # hidden from this principal: no updates. Not served at all: nothing to protect.
                return self.find(uri) is None
            component, values = found
            return component.guard is None or component.guard.may_see(principal, lambda: component.bind(values))

        return may_see

    def add(
        self,
        uri: str,
        function: Callable[..., Any],
        options: ResourceOptions,
    ) -> ResourceComponent:
        """Return the component of a newly registered function; see `MCPServer.resource`.

        Raises:
            SignatureError: its parameters are not the template's variables.
            RegistrationError: the URI is malformed or taken.
        """
        spec = compile_function(function, allows_secrets=False)
        if spec.kind not in ("sync", "async"):
            raise SignatureError("a generator cannot be a resource; return the contents", function=spec.name)
        if not _SCHEME.match(uri):
            raise RegistrationError(f"{uri!r} is not a URI: it has no scheme, such as data:// or file://")
        template = _template(uri)
        _check_parameters(spec, template)
        by_normal_uri = self._fixed_by_normal_uri()
        taken = None if template is not None else by_normal_uri.get(normal_uri(uri))
        if taken is not None and not (taken.uri == uri and self.fixed.can_replace(uri)):
            raise RegistrationError(f"There is already a resource {taken.uri!r}; remove it first")
        component = ResourceComponent(spec, uri, template, options)
        check_dependencies(spec)
        index = self.fixed if template is None else self.templates
        index.guard(component)
        index.has_unlisted = index.has_unlisted or not options.listed
        index.add(uri, component)
        if (
            template is None and component.enabled
        ):  # kept, because thousands of resources may be added one after another
            by_normal_uri[normal_uri(uri)] = component
            self._by_normal_uri = by_normal_uri
        self.serve()
        return component

    def serve(self) -> None:
        """Register the handlers of ``resources/list``, ``resources/templates/list`` and ``resources/read``."""
        if self._server.get_request_handler("resources/read") is None:
            self._server.add_request_handler("resources/list", self._list, trusted=True)
            self._server.add_request_handler("resources/templates/list", self._list_templates, trusted=True)
            self._server.add_request_handler("resources/read", self._read, trusted=True)

    def index_of(self, uri: str) -> ComponentIndex[ResourceComponent]:
        """Return the index that has a URI or a template's text as a key.

        Raises:
            KeyError: it is registered in neither index.
        """
        for index in (self.fixed, self.templates):
            if uri in index:
                return index
        raise KeyError(uri)

    def find(
        self, uri: str, exists: Callable[[Guard], bool] | None = None
    ) -> tuple[ResourceComponent, dict[str, Any]] | None:
        """Return the component that serves a URI, and the values of its variables; ``None`` if there is none.

        Args:
            uri: the requested URI.
            exists: whether a component with this guard exists for the sender; a component that does not is skipped, so
                that a later template can match. ``None``: all exist.
        """
        normal = normal_uri(uri)
        found = self.fixed.live.get(uri) or self._fixed_by_normal_uri().get(normal)
        if found is not None and (exists is None or found.guard is None or exists(found.guard)):
            return found, {}
        for component in self.templates.live.values():
            template = cast("UriTemplate", component.template)
            values = template.match(uri)
            if values is None and normal != uri:
                values = template.match(normal)
            if values is None or (component.options.guard_paths and not is_safe_path(values)):
                continue
            if exists is None or component.guard is None or exists(component.guard):
                return component, dict(values)
        return None

    def _fixed_by_normal_uri(self) -> dict[str, ResourceComponent]:
        if self._by_normal_uri is None:
            self._by_normal_uri = {normal_uri(uri): component for uri, component in self.fixed.live.items()}
        return self._by_normal_uri

    def _forget_normal_uris(self) -> None:
        self._by_normal_uri = None

    def _has_resource(self, ctx: ServerRequestContext[Any], uri: str) -> bool:
        """Return whether a URI, or something below it, exists for the sender of a request."""
        if self.find(uri, lambda guard: guard.is_visible(ctx)) is not None:
            return True
        below = f"{uri.rstrip('/')}/"
        return any(
            key.startswith(below) and (component.guard is None or component.guard.is_visible(ctx))
            for index in (self.fixed, self.templates)
            for key, component in index.live.items()
        )

    async def read(self, ctx: ServerRequestContext[Any], uri: str) -> ReadResourceResult:
        """Return the contents of a resource for the sender of a request.

        Raises:
            ResourceNotFound: there is no such resource; with the code of the connection's revision.
            InsufficientScope: the token lacks a scope.
            MCPError: the function raised `ToolError`; with its text.
            InternalError: the function returned something that is not contents.
        """
        found = self.find(uri, lambda guard: guard.is_visible(ctx)) or self._found_otherwise(ctx, uri)
        if found is None:
            raise self._missing(ctx, uri)
        component, values = found
        if component.guard is not None:
            try:
                component.guard.check(ctx, lambda: component.bind(values))
            except InvalidArguments as error:
                raise self._missing(ctx, uri) from error
        if component.mount_path is None:
            return await self._contents_of(component, ctx, uri, values)
        read = component.mount_path.run(
            ctx, "resources/read", {"uri": uri}, lambda inner, _: self._contents_of(component, inner, uri, values)
        )
        return cast("ReadResourceResult", await read)

    def _found_otherwise(
        self, ctx: ServerRequestContext[Any], uri: str
    ) -> tuple[ResourceComponent, dict[str, Any]] | None:
        """Return the component of a URI that is registered only now; ``None`` if there is none."""
        if not self.fixed.can_refresh and not self.templates.can_refresh:
            return None
        self.fixed.refresh()
        self.templates.refresh()
        return self.find(uri, lambda guard: guard.is_visible(ctx))

    async def _contents_of(
        self, component: ResourceComponent, ctx: ServerRequestContext[Any], uri: str, values: dict[str, Any]
    ) -> ReadResourceResult:
        try:
            value = await call_function(component.spec, values, ctx, self._threads)
        except InvalidArguments as error:
            raise self._missing(ctx, uri) from error
        except ResourceNotFound as error:  # raised by the author with the default code: use the revision's
            raise self._missing(ctx, error.data.get("uri", uri) if is_object(error.data) else uri) from error
        except ToolError as error:
            raise MCPError(error.text) from error
        if value is None:
            raise self._missing(ctx, uri)
        if isinstance(value, ReadResourceResult | InputRequiredResult):
            return cast("ReadResourceResult", value)
        try:
            contents = _contents(value, uri, component.options.mime_type)
        except ResultError as error:
            raise InternalError() from error
        meta = component.options.contents_meta
        if meta is not None:
            contents = [each if each.meta is not None else replace(each, meta=meta) for each in contents]
        return ReadResourceResult(contents, ttl_ms=component.options.ttl_ms, cache_scope=component.options.cache_scope)

    def _missing(self, ctx: ServerRequestContext[Any], uri: str) -> ResourceNotFound:
        return ResourceNotFound(uri, code=ctx.session.connection.revision.missing_resource_code)

    async def _read(self, ctx: ServerRequestContext[Any]) -> Any:
        return await self.read(ctx, ctx.params.uri)

    async def _list(self, ctx: ServerRequestContext[Any]) -> Encoded:
        return self.fixed.page(ctx, ctx.params.cursor, self.page_size, _resources_page, shown=self._listed(self.fixed))

    async def _list_templates(self, ctx: ServerRequestContext[Any]) -> Encoded:
        shown = self._listed(self.templates)
        return self.templates.page(ctx, ctx.params.cursor, self.page_size, _templates_page, shown=shown)

    def _listed(self, index: ComponentIndex[ResourceComponent]) -> Callable[[], list[ResourceComponent]] | None:
        """Return a function that returns the components that a list shows; ``None`` if it shows all."""
        if not index.has_unlisted:
            return None
        return lambda: [each for each in index.live.values() if each.options.listed]


def _resources_page(members: list[ResourceComponent], next_cursor: str | None, _: Revision) -> ListResourcesResult:
    return ListResourcesResult([member.resource() for member in members], next_cursor=next_cursor)


def _templates_page(
    members: list[ResourceComponent], next_cursor: str | None, _: Revision
) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult([member.resource_template() for member in members], next_cursor=next_cursor)


def _template(uri: str) -> UriTemplate | None:
    if "{" not in uri and "}" not in uri:
        return None
    try:
        template = UriTemplate(uri)
    except UriTemplateError as error:
        raise RegistrationError(str(error)) from error
    for name, before in template.never_filled():
        raise RegistrationError(
            f"{uri!r}: the variable {name!r} would never be filled, since {before!r} right before it takes everything; "
            "put text between the two"
        )
    return template if template.variables else None


def _check_parameters(spec: FunctionSpec, template: UriTemplate | None) -> None:
    if spec.is_pending:
        return
    variables = set(template.variables) if template is not None else set[str]()
    exploded = template.exploded() if template is not None else set[str]()
    for part in spec.parameters:
        if part.name in exploded and not {"array", "object", "any"} & set(kinds_of(part.shape)):
            raise SignatureError(
                f"`{{{part.name}*}}` gives a list of values, and this parameter takes none; for a path with slashes "
                f"write `{{+{part.name}}}`",
                function=spec.name,
                parameter=part.name,
            )
    names = {part.name for part in spec.parameters}
    if unknown := sorted(variables - names):
        raise SignatureError(f"it has no parameter for the template's {', '.join(unknown)}", function=spec.name)
    needed = {part.name for part in spec.parameters if part.required}
    if missing := sorted(needed - variables):
        raise SignatureError(f"the template has no variable for {', '.join(missing)}", function=spec.name)


def is_safe_path(values: Mapping[str, MatchedValue]) -> bool:
    """Return whether each value stays inside a directory that it is joined to: no ``..``, no absolute path, no NUL."""
    for value in values.values():
        texts: list[str] = (
            [value] if isinstance(value, str) else [*value.values()] if isinstance(value, dict) else value
        )
        for text in texts:
            if "\0" in text or text.startswith(("/", "\\")) or _DRIVE.match(text):
                return False
            if ".." in text and ".." in re.split(r"[/\\]", text):
                return False
    return True


def _contents(value: Any, uri: str, mime_type: str | None) -> list[ResourceContents]:
    if is_array(value) and any(isinstance(item, ResourceContents | Content | bytes) for item in value):
        return [_one(item, uri, mime_type) for item in value]
    return [_one(value, uri, mime_type)]


def _one(value: Any, uri: str, mime_type: str | None) -> ResourceContents:
    if isinstance(value, ResourceContents):
        return value
    if isinstance(value, str):
        return ResourceContents(uri, mime_type=mime_type or "text/plain", text=value)
    if isinstance(value, bytes | bytearray):
        return resource_contents(uri, bytes(value), mime_type)
    if isinstance(value, Content):
        block = value.block()
        if block.resource is not None:
            return block.resource
        if block.data is not None:
            return ResourceContents(uri, mime_type=mime_type or block.mime_type, blob=block.data)
        raise ResultError(f"a {type(value).__name__} is not the contents of a resource")
    return ResourceContents(uri, mime_type=mime_type or "application/json", text=encode_str(to_json_value(value)))
