"""Who asks for what: the facts of a request that policies, quotas and audits use, and the members of a server.

Nothing here decides. `AccessRequest` is what a policy gets; `members_of` returns the members that a request is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec import Struct

from ferrule.app.application import application_of
from ferrule.app.authorization.principals import principal_id, scopes_of
from ferrule.kernel.server import ServerRequestContext
from ferrule.kernel.serving.members import MemberDirectory, MemberKind, ServedMember
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.uri_template import normal_uri

if TYPE_CHECKING:
    from ferrule.app.components.registry import ComponentRegistry
    from ferrule.kernel.server import Server

__all__ = [
    "LISTS",
    "NAMED_METHODS",
    "AccessRequest",
    "client_of",
    "directory_of",
    "members_of",
    "normal_name",
    "subject_of",
    "tenant_of",
]

LISTS: Final[Mapping[str, tuple[str, str, MemberKind]]] = {
    "tools/list": ("tools", "name", "tool"),
    "prompts/list": ("prompts", "name", "prompt"),
    "resources/list": ("resources", "uri", "resource"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", "resource_template"),
    "skills/list": ("skills", "uri", "resource"),
    "resources/directory/read": ("resources", "uri", "resource"),
}
"""Method of a list → the member of its result with the items, the field with an item's name, and its kind."""

NAMED_METHODS: Final[Mapping[str, MemberKind]] = {
    "tools/call": "tool",
    "prompts/get": "prompt",
    "resources/read": "resource",
    "resources/subscribe": "resource",
    "resources/directory/read": "resource",
    "skills/get": "resource",
}
"""Method → the kind of the member that its params name."""

_REFERENCES: Final[Mapping[str, tuple[MemberKind, str]]] = {
    "ref/prompt": ("prompt", "name"),
    "ref/resource": ("resource_template", "uri"),
}
"""Type of a reference in ``completion/complete`` → the kind of the member, and the field that names it."""

_NO_ARGUMENTS: Final[Mapping[str, Any]] = {}


class AccessRequest(Struct, frozen=True, kw_only=True, eq=False):
    """What somebody wants to do with one member of a server; the argument of a policy.

    Attributes:
        action: ``"see"``: find it in a list, a search or a suggestion. ``"use"``: call, read, get, complete or
            subscribe to it.
        kind: ``"tool"``, ``"resource"``, ``"resource_template"`` or ``"prompt"``.
        name: the name of a tool or prompt, the URI of a resource, the text of a template; as clients see it. All
            spellings of a URI have one name: the registered URI, or for a template the one with as few escapes as
            possible (RFC 3986, 6.2.2), in which letters outside ASCII are escaped.
        arguments: the arguments of the use, as the client has sent them and not yet checked; ``None`` for ``"see"``.
        method: the method of the request, such as ``tools/call``.
        annotations: the annotations of the member, such as ``{"readOnlyHint": True}``; empty where there are none.
        tags: the tags of the member; empty for a member of a server behind a gateway.
        principal: the authenticated sender as the server's ``auth=`` made it; ``None`` for an anonymous sender, and on
            stdio and in process.
        subject: the sender as text: the subject of the token; ``None`` for an anonymous sender.
        client: the OAuth client that acts; ``None`` if the token names none.
        scopes: the scopes of the token.
        tenant: the tenant of the sender; ``None`` on a server without ``tenant=``.
        is_network: whether the request came over a network; ``False`` on stdio and in process.
        context: the request itself, with headers, session and revision.
    """

    action: Literal["see", "use"]
    kind: MemberKind
    name: str
    arguments: Mapping[str, Any] | None
    method: str
    annotations: Mapping[str, Any]
    tags: frozenset[str]
    principal: Any
    subject: str | None
    client: str | None
    scopes: frozenset[str]
    tenant: str | None
    is_network: bool
    context: ServerRequestContext[Any]

    @classmethod
    def of(
        cls,
        ctx: ServerRequestContext[Any],
        member: ServedMember,
        arguments: Mapping[str, Any] | None = None,
    ) -> AccessRequest:
        """Return the facts of a request about a member.

        Args:
            ctx: the request.
            member: the member.
            arguments: the arguments of a use; ``None``: whether it may be seen.
        """
        principal = ctx.transport.principal
        return cls(
            action="see" if arguments is None else "use",
            kind=member.kind,
            name=member.name,
            arguments=arguments,
            method=ctx.method,
            annotations=member.annotations,
            tags=member.tags,
            principal=principal,
            subject=subject_of(principal),
            client=client_of(principal),
            scopes=scopes_of(principal),
            tenant=tenant_of(principal),
            is_network=ctx.transport.is_network,
            context=ctx,
        )


def subject_of(principal: Any) -> str | None:
    """Return the subject of a principal as text; ``None`` for an anonymous sender.

    For a principal without ``subject`` it is its id in all processes, as of rate limits.
    """
    if is_mapping(principal):
        found: Any = principal.get("subject", principal.get("sub"))
    else:
        found = getattr(principal, "subject", None)  # an authenticator of the program may return any object
    return principal_id(principal) if found is None else str(found)


def client_of(principal: Any) -> str | None:
    """Return the OAuth client of a principal; ``None`` if it names none."""
    if is_mapping(principal):
        found: Any = principal.get("client_id")
    else:
        found = getattr(principal, "client_id", None)  # an authenticator of the program may return any object
    return None if found is None else str(found)


def tenant_of(principal: Any) -> str | None:
    """Return the tenant of a principal; ``None`` on a server without ``tenant=``."""
    found: Any = getattr(principal, "tenant", None)  # an authenticator of the program may return any object
    return found if isinstance(found, str) else None


def members_of(ctx: ServerRequestContext[Any]) -> list[tuple[MemberKind, str, Mapping[str, Any]]]:
    """Return the members that a request names, with the arguments of their use; none for a list or a handshake."""
    params: Any = ctx.params
    if not is_mapping(params):
        return []
    kind = NAMED_METHODS.get(ctx.method)
    if kind is not None:
        name: Any = params.get("uri" if kind == "resource" else "name")
        given: Any = params.get("arguments")
        return [(kind, name, given if is_mapping(given) else _NO_ARGUMENTS)] if isinstance(name, str) else []
    if ctx.method == "completion/complete":
        return _completed(params)
    if ctx.method == "subscriptions/listen":
        return [("resource", uri, _NO_ARGUMENTS) for uri in listened_uris(params)]
    return []


def _completed(params: Mapping[str, Any]) -> list[tuple[MemberKind, str, Mapping[str, Any]]]:
    reference, context = params.get("ref"), params.get("context")
    if not is_mapping(reference):
        return []
    filled: Any = context.get("arguments") if is_mapping(context) else None
    known: Mapping[str, Any] = filled if is_mapping(filled) else _NO_ARGUMENTS
    # By the type alone, as the handler: a reference may have a name and a URI.
    kind, key = _REFERENCES.get(str(reference.get("type")), (None, ""))
    name: Any = reference.get(key)
    return [(kind, name, known)] if kind is not None and isinstance(name, str) else []


def listened_uris(params: Mapping[str, Any]) -> Sequence[str]:
    """Return the URIs of a request for changes (2026-07-28)."""
    wanted: Any = params.get("notifications")
    uris: Any = wanted.get("resourceSubscriptions") if is_mapping(wanted) else None
    return [uri for uri in uris if isinstance(uri, str)] if is_list(uris) else []


def normal_name(kind: MemberKind, name: str) -> str:
    """Return the name of a member that no directory finds; of a resource the normal form of its URI."""
    return normal_uri(name) if kind == "resource" else name


def directory_of(server: Server[Any]) -> MemberDirectory | None:
    """Return the directory of a server's members; ``None`` for one whose handlers were registered directly."""
    found = server.attachments.get(MemberDirectory)  # type: ignore[type-abstract]  # a protocol as a key
    if found is None:
        application: Any = application_of(server)
        if application is not None:
            found = server.attachments[MemberDirectory] = _Components(application)  # type: ignore[type-abstract]
    return found


class _Components:
    """The components of an `MCPServer` as its members; a `MemberDirectory`."""

    def __init__(self, app: ComponentRegistry[Any]) -> None:
        self._app = app

    async def find(self, ctx: ServerRequestContext[Any], kind: MemberKind, name: str, /) -> ServedMember | None:
        """See `MemberDirectory`."""
        from ferrule.app.components.resources import canonical_uri

        app = self._app
        found: Any = None
        template: str | None = None
        if kind in ("tool", "prompt"):
            index: Any = app.tools.index if kind == "tool" else app.prompts.index
            found = index.live.get(name) or index.look_again(name)
        elif kind == "resource_template":
            found = app.resources.templates.live.get(name) or app.resources.templates.look_again(name)
        else:
            resources = app.resources
            if resources.fixed.can_refresh or resources.templates.can_refresh:
                resources.fixed.refresh()
                resources.templates.refresh()
            matched = resources.find(name, lambda guard: guard.is_visible(ctx))
            if matched is not None:
                found, values = matched
                template = found.uri if found.template is not None else None
                name = canonical_uri(name, found, values)  # not the spelling, which the peer chooses
        if found is None or (found.guard is not None and not found.guard.is_visible(ctx)):
            return None
        return ServedMember(
            kind,
            name,
            {} if kind == "prompt" else _plain(found.options.annotations),
            found.tags,
            template,
            lambda: _definition(found),
            found,
        )

    def is_search(self, name: str, /) -> bool:
        """See `MemberDirectory`."""
        tools = self._app.tools
        return tools.search is not None and name not in tools.index.live and tools.search.find(name) is not None


def _plain(annotations: Any) -> Mapping[str, Any]:
    if annotations is None:
        return _NO_ARGUMENTS
    return annotations if is_mapping(annotations) else cast("dict[str, Any]", to_builtins(annotations))


def _definition(component: Any) -> Mapping[str, Any] | None:
    from ferrule.app.components.resources import ResourceComponent

    if isinstance(component, ResourceComponent):
        made: Any = component.resource() if component.template is None else component.resource_template()
    else:
        made = component.definition()
    return cast("Mapping[str, Any]", to_builtins(made))
