"""The tenant of a request: from a claim of the token, the host, the path, or a function.

The tenant becomes a part of the principal, and so of every key that is made of it: sessions, tasks, handles, sealed
states, private cached results and buckets of rates. A request of another tenant gets the errors of what does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ferrule.auth.server.principal import Principal

if TYPE_CHECKING:
    from ferrule.transports.asgi.context import HttpContext

__all__ = ["TenantOf", "tenant_reader", "with_tenant"]

TenantOf: TypeAlias = "str | Callable[[Principal, HttpContext], str | None]"
"""``"claim:NAME"``, ``"host"``, ``"path"``, or a function that returns the tenant; ``None`` from it refuses."""

MAX_TENANT_CHARS: Final = 200


def tenant_reader(tenant: TenantOf) -> Callable[[Principal, HttpContext], str | None]:
    """Return a function that returns the tenant of a request.

    Raises:
        ValueError: ``tenant`` is none of the forms of `TenantOf`.
    """
    if callable(tenant):
        return tenant
    place, _, name = tenant.partition(":")
    if place == "claim" and name:
        return lambda principal, context: _text(principal.claims.get(name))
    if tenant == "host":
        return lambda principal, context: context.host
    if tenant == "path":
        return lambda principal, context: context.path.strip("/").partition("/")[0] or None
    raise ValueError("tenant= is 'claim:NAME', 'host', 'path', or a function of the principal and the request")


def with_tenant(principal: Any, tenant: str | None) -> Any:
    """Return a principal with its tenant.

    Raises:
        HttpRefusal: 403: there is no tenant, or its name is longer than 200 characters.
        TypeError: the principal is not one of ``ferrule.auth``.
    """
    if not isinstance(principal, Principal):
        raise TypeError("tenant= needs principals of ferrule.auth")
    if not isinstance(tenant, str) or not tenant or len(tenant) > MAX_TENANT_CHARS:
        from ferrule.transports.asgi.context import HttpRefusal

        raise HttpRefusal(403, "This request belongs to no tenant of this server")
    return replace(principal, tenant=tenant)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else str(value) if type(value) is int else None
