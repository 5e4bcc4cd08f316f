"""The server's own credentials for an API: where each one stands in a request.

Credentials are configuration. They are never arguments of a tool, and they go to the configured origin only, because
no other origin is called.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from ferrule.expose.exchange import ApiRequest, ApiResponse, Caller, Origin
from ferrule.expose.operations import ApiKey, Operation

__all__ = ["Credentials", "WithCredentials"]

Secret: TypeAlias = "str | tuple[str, str]"
"""A token, a key, a whole ``Authorization`` value with its scheme, or user and password."""

Credentials: TypeAlias = "Secret | Mapping[str, Secret] | Callable[[], Secret | Awaitable[Secret]]"
"""One secret, one for each security scheme of the description, or a function that is called for each request."""


class _Place(Struct, frozen=True, kw_only=True):
    location: str
    name: str
    prefix: str = ""


_AUTHORIZATION = _Place(location="header", name="authorization", prefix="Bearer ")


class WithCredentials:
    """A caller that adds credentials to each request of another caller.

    Args:
        caller: sends the requests.
        credentials: the credentials that are added.
        operations: the operations of the API; the security schemes that they name say where a secret stands. Without
            any of them it is a bearer token.

    Raises:
        ValueError: a secret is given for a scheme that no operation names.
    """

    def __init__(self, caller: Caller, credentials: Credentials, operations: Iterable[Operation]) -> None:
        self._caller = caller
        schemes = {key.scheme: key for operation in operations for both in operation.security for key in both}
        self._fixed: list[tuple[_Place, Secret]] = []
        self._made: Callable[[], Any] | None = None
        if callable(credentials):
            self._made = credentials
            self._place = _place_of(schemes)
        elif isinstance(credentials, Mapping):
            for name, secret in credentials.items():
                if name not in schemes:
                    known = ", ".join(sorted(schemes)) or "none"
                    raise ValueError(f"the description has no security scheme {name!r}; it has: {known}")
                self._fixed.append((_place_of({name: schemes[name]}), secret))
        else:
            self._fixed.append((_place_of(schemes), credentials))

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        secrets = self._fixed
        if self._made is not None:
            secret = self._made()
            secrets = [(self._place, await secret if isawaitable(secret) else secret)]
        return await self._caller.call(_with(request, secrets), origin, max_bytes=max_bytes)

    async def aclose(self) -> None:
        """Close the other caller."""
        await self._caller.aclose()


def _place_of(schemes: Mapping[str, ApiKey]) -> _Place:
    """Return the place of a secret: that of the only scheme, or of the first that is a token."""
    for key in schemes.values():
        if key.type == "apiKey" and key.name is not None and key.location is not None:
            if len(schemes) == 1:
                return _Place(location=key.location, name=key.name)
        elif key.type in ("http", "oauth2", "openIdConnect"):
            return _AUTHORIZATION
    found = next((key for key in schemes.values() if key.name is not None and key.location is not None), None)
    return _AUTHORIZATION if found is None else _Place(location=str(found.location), name=str(found.name))


def _with(request: ApiRequest, secrets: Iterable[tuple[_Place, Secret]]) -> ApiRequest:
    headers = list(request.headers)
    query = request.query
    for place, secret in secrets:
        if isinstance(secret, tuple):
            value = "Basic " + b64encode(f"{secret[0]}:{secret[1]}".encode()).decode()
        else:
            # A value with a space names its scheme itself: "Token abc", "ApiKey abc".
            value = secret if " " in secret or not place.prefix else place.prefix + secret
        if place.location == "query":
            # A redirect may repeat the one that was sent.
            others = [pair for pair in query.split("&") if pair and unquote(pair.partition("=")[0]) != place.name]
            query = "&".join([*others, f"{quote(place.name, safe='')}={quote(value, safe='')}"])
        elif place.location == "cookie":
            headers = _with_cookie(headers, f"{place.name}={quote(value, safe='')}")
        else:
            headers = [pair for pair in headers if pair[0] != place.name.lower()]
            headers.append((place.name.lower(), value))
    return replace(request, headers=tuple(headers), query=query)


def _with_cookie(headers: list[tuple[str, str]], cookie: str) -> list[tuple[str, str]]:
    others = [value for name, value in headers if name == "cookie"]
    kept = [pair for pair in headers if pair[0] != "cookie"]
    return [*kept, ("cookie", "; ".join([*others, cookie]))]
