"""Between an `MCPServer` and `ferrule.auth`: who sends each HTTP request, and who may use which component.

Two questions per component, because they have different answers for whom they exclude:

* ``scopes=``: what the token must allow. The component is listed all the same; using it without them is HTTP 403 with a
  challenge, and a client may step up.
* ``allow=``: a function of the principal. Where it says no the component does not exist: not listed, not served, not
  completed.

Neither is asked on stdio and in process, where the peer started this program or is part of it (2026-07-28,
"Authorization", applicability). Over HTTP without ``auth=`` a component with scopes is refused to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ferrule.auth.server.refusals import AuthRefusal, InsufficientScope

if TYPE_CHECKING:
    from ferrule.auth.http import AuthRequest, AuthResponse
    from ferrule.auth.server.resource_server import ResourceServer
    from ferrule.kernel.context import ServerRequestContext
    from ferrule.transports.asgi.context import HttpContext

__all__ = ["Allow", "Guard", "Protection", "Scopes", "fetch_alone", "make_guard", "read_auth", "require_scopes"]

Scopes: TypeAlias = str | Iterable[str] | Callable[[Any, dict[str, Any]], Iterable[str]]
"""Scopes that a component needs: written down, or a function ``(principal, arguments) -> scopes``."""

Allow: TypeAlias = Callable[[Any], bool]
"""Whether a component exists for a principal."""

_ABSENT: Final = object()


def read_auth(auth: Any) -> ResourceServer:
    """What a program passed as ``auth=``: a `ResourceServer`, an issuer's URL, or what judges tokens."""
    from ferrule.auth.server.resource_server import ResourceServer

    return auth if isinstance(auth, ResourceServer) else ResourceServer(auth)


class Protection:
    """The `ResourceServer` of one server as its `ServerProtection`: every HTTP door of the server asks it.

    Attributes:
        resource_server: judges requests.
    """

    def __init__(self, resource_server: ResourceServer) -> None:
        self.resource_server = resource_server
        resource_server.use(fetch_alone)

    async def authenticate(self, context: HttpContext) -> Any:
        """The endpoint's hook; refuses by `HttpRefusal`."""
        try:
            return await self.resource_server.authenticate(context)
        except AuthRefusal as refusal:
            from ferrule.transports.asgi.context import HttpRefusal

            raise HttpRefusal(refusal.status, refusal.message, refusal.headers) from None

    def document_for(self, context: HttpContext, path: str) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """The metadata of the protected resource, where a request asks for them; see `ServerProtection`."""
        return self.resource_server.document_for(context, path)

    def document_paths(self, path: str) -> list[str]:
        """Where the metadata are; see `ServerProtection`."""
        return self.resource_server.document_paths(path)


async def fetch_alone(request: AuthRequest) -> AuthResponse:
    """Fetches keys and asks about tokens over a connection of its own: rare, and no connection outlives its loop."""
    from ferrule.auth.http import AuthResponse
    from ferrule.transports.aiohttp_client import AiohttpClient
    from ferrule.transports.fetching import fetch_bounded
    from ferrule.transports.http_client import HttpRequest

    http = AiohttpClient()
    try:
        status, headers, body = await fetch_bounded(
            http,
            HttpRequest(request.method, request.url, dict(request.headers), request.body),
            timeout_s=request.timeout_s,
            max_bytes=request.max_bytes,
            judge=request.judge_address,
        )
    finally:
        await http.aclose()
    return AuthResponse(status, headers, body)


class Guard:
    """Who may see a component, and who may use it.

    Args:
        scopes, allow: see the module.
        protection: makes the challenge; ``None`` for a server without ``auth=``.
    """

    __slots__ = ("_allow", "_protection", "_scopes")

    def __init__(
        self,
        scopes: tuple[str, ...] | Callable[[Any, dict[str, Any]], Iterable[str]],
        allow: Allow | None,
        protection: Protection | None,
    ) -> None:
        self._scopes = scopes
        self._allow = allow
        self._protection = protection

    def is_visible(self, ctx: ServerRequestContext[Any]) -> bool:
        """Whether the component exists for the sender of this request."""
        if self._allow is None:
            return True
        principal = getattr(ctx.transport, "principal", _ABSENT)
        return principal is _ABSENT or bool(self._allow(principal))

    def check_completion(self, ctx: ServerRequestContext[Any], arguments: dict[str, Any]) -> bool:
        """As `check`, while arguments are being filled in; false where a function of scopes lacks one to judge by.

        Raises:
            InsufficientScope: they do not suffice.
        """
        try:
            self.check(ctx, arguments)
        except LookupError:
            return False
        return True

    def may_hear(self, principal: Any, arguments: dict[str, Any]) -> bool:
        """Whether a principal may be told that the component changed: it exists for it, and its scopes suffice."""
        if self._allow is not None and not self._allow(principal):
            return False
        scopes = self._scopes
        needed = tuple(scopes(principal, arguments)) if callable(scopes) else scopes
        return set(getattr(principal, "scopes", ())).issuperset(needed)

    def check(self, ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> None:
        """Refuse a use for which the token's scopes do not suffice.

        Raises:
            InsufficientScope: they do not.
        """
        principal: Any = getattr(ctx.transport, "principal", _ABSENT)
        if principal is _ABSENT:
            return
        scopes = self._scopes
        needed = tuple(scopes(principal, arguments or {})) if callable(scopes) else scopes
        require_scopes(ctx, needed, self._protection)


def require_scopes(ctx: ServerRequestContext[Any], needed: tuple[str, ...], protection: Protection | None) -> None:
    """Refuse the request unless its token allows all of these; off HTTP nothing is refused.

    Raises:
        InsufficientScope: it does not.
    """
    principal: Any = getattr(ctx.transport, "principal", _ABSENT)
    if principal is _ABSENT or not needed:
        return
    granted: Iterable[str] = getattr(principal, "scopes", ())
    if not set(granted).issuperset(needed):
        if protection is None:
            raise InsufficientScope(needed)
        raise protection.resource_server.insufficient_scope(cast("Any", ctx.transport), needed)


def make_guard(scopes: Scopes, allow: Allow | None, protection: Protection | None) -> Guard | None:
    """The guard of a component; ``None`` if everybody who may use the server may use it."""
    if isinstance(scopes, str):
        scopes = scopes.split()
    written = scopes if callable(scopes) else tuple(scopes)
    return Guard(written, allow, protection) if written or allow is not None else None
