"""Connects an `MCPServer` with `ferrule.auth`: the principal of each HTTP request, and access to components.

A component may have two conditions, with different responses for a principal that does not meet them:

* ``scopes=``: the scopes of the token. The component is listed; using it without the scopes is HTTP 403 with a
  challenge, and a client may step up.
* ``allow=``: a function of the principal. If it returns false the component does not exist for it: not listed, not
  served, not completed.

Neither is checked on stdio and in process, where the peer started this program or is part of it (2026-07-28,
"Authorization", applicability). Over HTTP without ``auth=`` a component with scopes is refused to every client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias

from ferrule.app.authorization.principals import scopes_of
from ferrule.app.errors import RegistrationError
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.auth.server.refusals import AuthRefusal, InsufficientScope
from ferrule.kernel.protection import MakesChallenges, ServerProtection
from ferrule.protocol.errors import InternalError, InvalidParams, MCPError
from ferrule.wire.faults import FerruleError

if TYPE_CHECKING:
    from ferrule.app.authorization.tenants import TenantOf
    from ferrule.auth.http import AuthRequest, AuthResponse
    from ferrule.auth.server.resource_server import ResourceServer
    from ferrule.kernel.server import ServerRequestContext
    from ferrule.stores.marks import OneTimeMarks
    from ferrule.transports.asgi.context import HttpContext

__all__ = [
    "Allow",
    "Arguments",
    "Guard",
    "Protection",
    "Scopes",
    "ScopesUnknown",
    "fetch_alone",
    "make_guard",
    "protection_for",
    "require_scopes",
]

Scopes: TypeAlias = str | Iterable[str] | Callable[[Any, dict[str, Any]], Iterable[str]]
"""Scopes that a component needs: written down, or a function ``(principal, arguments) -> scopes``.

``arguments`` are those that the component's function gets: converted to the declared types, with defaults."""

Arguments: TypeAlias = Callable[[], dict[str, Any]]
"""Returns the arguments of a use, converted as for the component's function; called only where they decide the scopes.

Raises `InvalidArguments` where they do not fit the parameters."""

Allow: TypeAlias = Callable[[Any], bool]
"""Whether a component exists for a principal."""

logger = logging.getLogger("ferrule.app")


def protection_for(auth: Any, tenant: TenantOf | None = None) -> ServerProtection:
    """Return the protection for ``auth=``: one by a `ResourceServer`, or the argument if it is a `ServerProtection`.

    The `ResourceServer` is the argument, or one for an issuer's URL or a token verifier.

    Args:
        auth: as given to `MCPServer`.
        tenant: where the tenant of a request is; ``None`` for a server without tenants.

    Raises:
        ValueError: there is no such place for a tenant, or ``auth`` is a `ServerProtection`, which judges by itself.
    """
    from ferrule.auth.server.resource_server import ResourceServer

    if tenant is not None:
        if isinstance(auth, ServerProtection) and not isinstance(auth, ResourceServer):
            raise ValueError("tenant= needs auth= of a ResourceServer, an issuer or a token verifier")
        return Protection(auth if isinstance(auth, ResourceServer) else ResourceServer(auth), tenant)
    if isinstance(auth, ResourceServer):
        return Protection(auth)
    return auth if isinstance(auth, ServerProtection) else Protection(ResourceServer(auth))


class Protection:
    """The `ServerProtection` of a server with ``auth=``; each HTTP endpoint of the server uses it.

    Attributes:
        resource_server: authorizes the requests.
    """

    def __init__(self, resource_server: ResourceServer, tenant: TenantOf | None = None) -> None:
        self.resource_server = resource_server
        self._tenant_of: Callable[[Any, HttpContext], str | None] | None = None
        if tenant is not None:
            from ferrule.app.authorization.tenants import tenant_reader

            self._tenant_of = tenant_reader(tenant)
        resource_server.use(fetch_alone)

    @property
    def resource(self) -> str | None:
        """The public URL of the endpoint; ``None`` if it was not given."""
        return self.resource_server.resource

    async def authenticate(self, context: HttpContext) -> Any:
        """Return the principal that sent a request; see `ServerProtection`.

        Raises:
            HttpRefusal: the request has no valid token, or the token lacks a scope.
        """
        try:
            principal = await self.resource_server.authenticate(context)
        except AuthRefusal as refusal:
            from ferrule.transports.asgi.context import HttpRefusal

            raise HttpRefusal(refusal.status, refusal.message, refusal.headers) from None
        if self._tenant_of is None:
            return principal
        from ferrule.app.authorization.tenants import with_tenant

        return with_tenant(principal, self._tenant_of(principal, context))

    def insufficient_scope(self, context: Any, scopes: Sequence[str]) -> InsufficientScope:
        """Return the error for missing scopes; see `MakesChallenges`."""
        return self.resource_server.insufficient_scope(context, scopes)

    def refused_token(self, context: HttpContext) -> list[tuple[str, str]]:
        """Return the headers of 401 for a token that was refused elsewhere; see `MakesChallenges`."""
        return self.resource_server.refused_token(context)

    def share(self, marks: OneTimeMarks) -> None:
        """Record the proofs that were used in a store that all processes of the server share."""
        self.resource_server.dpop.share(marks)

    def document_for(self, context: HttpContext, path: str) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """Return the metadata of the protected resource, if a request is for them; see `ServerProtection`."""
        return self.resource_server.document_for(context, path)

    def document_paths(self, path: str) -> list[str]:
        """Return the paths of the metadata; see `ServerProtection`."""
        return self.resource_server.document_paths(path)


async def fetch_alone(request: AuthRequest) -> AuthResponse:
    """Send one request to the authorization server over a new connection, and return the response.

    Such requests (for keys, or about a token) are rare, and a connection that is kept open could be used on another
    event loop.
    """
    from ferrule.auth.http import AuthResponse
    from ferrule.transports.http.aiohttp_backend import AiohttpClient
    from ferrule.transports.http.backend import HttpClientRequest
    from ferrule.transports.http.fetching import fetch_bounded

    http = AiohttpClient()
    try:
        status, headers, body = await fetch_bounded(
            http,
            HttpClientRequest(request.method, request.url, dict(request.headers), request.body),
            timeout_s=request.timeout_s,
            max_bytes=request.max_bytes,
            judge=request.judge_address,
        )
    finally:
        await http.aclose()
    return AuthResponse(status, headers, body)


class ScopesUnknown(InvalidParams):
    """The needed scopes depend on an argument that is missing or unknown to the ``scopes`` function."""


class Guard:
    """Decides which principals may see a component, and which may use it.

    If ``scopes`` raises, a use is refused; if ``allow`` raises, the component is hidden. The exception is logged.

    Args:
        scopes, allow: see the module.
    """

    __slots__ = ("_allow", "_scopes")

    def __init__(
        self,
        scopes: tuple[str, ...] | Callable[[Any, dict[str, Any]], Iterable[str]],
        allow: Allow | None,
    ) -> None:
        self._scopes = scopes
        self._allow = allow

    @property
    def reads_arguments(self) -> bool:
        """Whether the needed scopes depend on the arguments."""
        return callable(self._scopes)

    @property
    def allow(self) -> Allow | None:
        """The function that decides whether the component exists; ``None`` if it exists for everybody."""
        return self._allow

    def is_visible(self, ctx: ServerRequestContext[Any]) -> bool:
        """Return whether the component exists for the sender of this request."""
        if self._allow is None:
            return True
        return not ctx.transport.is_network or self.exists_for(ctx.transport.principal)

    def exists_for(self, principal: Any) -> bool:
        """Return whether the component exists for a principal."""
        allow = self._allow
        if allow is None:
            return True
        try:
            found: Any = allow(principal)
            if hasattr(found, "__await__"):  # an awaitable is true, whatever its result would be
                raise TypeError("allow= returned an awaitable; it must be a plain function")
            return bool(found)
        except Exception:
            logger.exception("allow=%s failed, so that its component is hidden", _name_of(allow))
            return False

    def admits(self, principal: Any) -> bool:
        """Return whether a principal may use the component with any arguments.

        ``False`` also where the scopes depend on the arguments, so that it is not known before a call.
        """
        if callable(self._scopes):
            return False
        try:
            if self._allow is not None and self._allow(principal) is not True:
                return False
        except Exception:  # logged by the next check
            return False
        return scopes_of(principal).issuperset(self._scopes)

    def check_completion(self, ctx: ServerRequestContext[Any], arguments: Arguments) -> bool:
        """Check the scopes for a completion, when not all arguments are known.

        Returns:
            ``False`` if the needed scopes depend on an argument that is missing, unknown, or no value of its type.

        Raises:
            InsufficientScope: the token lacks a scope.
            InternalError: the ``scopes`` function failed.
        """
        try:
            self.check(ctx, arguments)
        except (ScopesUnknown, InvalidArguments):
            return False
        return True

    def may_see(self, principal: Any, arguments: Arguments) -> bool:
        """Return whether a principal may receive updates: the component exists for it, and its scopes suffice."""
        if not self.exists_for(principal):
            return False
        try:
            needed = self._needed(principal, arguments)
        except FerruleError:  # of the function, or of arguments that do not fit
            return False
        return scopes_of(principal).issuperset(needed)

    def check(self, ctx: ServerRequestContext[Any], arguments: Arguments) -> None:
        """Check that the sender's token has the scopes for a use; only for requests from a network.

        Raises:
            InsufficientScope: the token lacks a scope.
            ScopesUnknown: the needed scopes depend on an argument that is missing or unknown.
            InvalidArguments: arguments that decide the scopes do not fit the parameters.
            InternalError: the ``scopes`` function failed.
        """
        if ctx.transport.is_network:
            require_scopes(ctx, self._needed(ctx.transport.principal, arguments))

    def _needed(self, principal: Any, arguments: Arguments) -> tuple[str, ...]:
        scopes = self._scopes
        if not callable(scopes):
            return scopes
        # As the function gets them: it would judge '"true"' differently from the `True` that this text is repaired to.
        judged = arguments()
        try:
            found: Any = scopes(principal, judged)
            return tuple(found.split() if isinstance(found, str) else found)
        except MCPError:
            raise
        except LookupError as error:
            raise ScopesUnknown(
                "Invalid arguments: the scopes that this needs cannot be determined from them"
            ) from error
        except Exception as error:
            logger.exception("scopes=%s failed, so that the use of its component is refused", _name_of(scopes))
            raise InternalError() from error


def require_scopes(ctx: ServerRequestContext[Any], needed: tuple[str, ...]) -> None:
    """Check that the token of a request has some scopes; only for requests from a network.

    The challenge is that of the server that received the request, also for a component of a mounted server.

    Raises:
        InsufficientScope: the token lacks a scope.
    """
    if not ctx.transport.is_network or not needed:
        return
    if not scopes_of(ctx.transport.principal).issuperset(needed):
        protection = ctx.server.protection
        if not isinstance(protection, MakesChallenges):
            raise InsufficientScope(needed)
        raise protection.insufficient_scope(ctx.transport, needed)


def make_guard(scopes: Scopes, allow: Allow | None) -> Guard | None:
    """Return the guard of a component; ``None`` if it has neither ``scopes`` nor ``allow``.

    Raises:
        RegistrationError: ``scopes`` or ``allow`` is an async function, whose coroutine would count as true.
    """
    for word, function in (("scopes", scopes), ("allow", allow)):
        if iscoroutinefunction(function):
            raise RegistrationError(f"{word}= takes a plain function: {_name_of(function)} is async")
    if isinstance(scopes, str):
        scopes = scopes.split()
    written = scopes if callable(scopes) else tuple(scopes)
    return Guard(written, allow) if written or allow is not None else None


def _name_of(function: Any) -> str:
    # Callable objects and partials have no `__qualname__`.
    return str(getattr(function, "__qualname__", type(function).__name__))
