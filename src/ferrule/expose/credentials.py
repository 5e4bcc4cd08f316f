"""Adds the server's own credentials for an API to requests.

Credentials are configuration and never arguments of a tool. They are sent to the configured origin only, because no
other origin is called.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from ferrule.expose.exchange import ApiRequest, ApiResponse, Caller, Origin, checked_secret
from ferrule.expose.operations import ApiKey, Operation

__all__ = ["Credentials", "WithCredentials"]

Secret: TypeAlias = "str | tuple[str, str]"
"""A token, a key, a whole ``Authorization`` value with its scheme, or user and password."""

Credentials: TypeAlias = "Secret | Mapping[str, Secret] | Callable[[], Secret | Awaitable[Secret]]"
"""One secret, one for each security scheme of the description, or a function that is called for each request."""


class _KeyLocation(Struct, frozen=True, kw_only=True):
    """The part of a request with a secret (header, cookie or query), its name, and a prefix of its value."""

    location: str
    name: str
    prefix: str = ""


_AUTHORIZATION = _KeyLocation(location="header", name="authorization", prefix="Bearer ")


class WithCredentials:
    """A caller that adds credentials to each request of another caller.

    Args:
        caller: sends the requests.
        credentials: the credentials to add.
        operations: the operations of the API, whose security schemes define the location of each secret. Without a
            scheme a secret is a bearer token.

    Raises:
        TypeError: a secret is neither a text nor a pair of texts.
        ValueError: a secret is given for a scheme that no operation names, or has a line break.
    """

    def __init__(self, caller: Caller, credentials: Credentials, operations: Iterable[Operation]) -> None:
        self._caller = caller
        schemes = {key.scheme: key for operation in operations for both in operation.security for key in both}
        self._fixed: list[tuple[_KeyLocation, Secret]] = []
        self._made: Callable[[], Any] | None = None
        if callable(credentials):
            self._made = credentials
            self._location = _key_location(schemes)
        elif isinstance(credentials, Mapping):
            for name, secret in credentials.items():
                if name not in schemes:
                    known = ", ".join(sorted(schemes)) or "none"
                    raise ValueError(f"the description has no security scheme {name!r}; it has: {known}")
                self._fixed.append((_key_location({name: schemes[name]}), _checked(secret)))
        else:
            self._fixed.append((_key_location(schemes), _checked(credentials)))

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        secrets = self._fixed
        if self._made is not None:
            secret = self._made()
            secrets = [(self._location, _checked(await secret if isawaitable(secret) else secret))]
        return await self._caller.call(_with(request, secrets), origin, max_bytes=max_bytes)

    async def aclose(self) -> None:
        """Close the other caller."""
        await self._caller.aclose()


def _key_location(schemes: Mapping[str, ApiKey]) -> _KeyLocation:
    """Return the place of a secret: that of the only scheme, or of the first that is a token."""
    for key in schemes.values():
        if key.type == "apiKey" and key.name is not None and key.location is not None:
            if len(schemes) == 1:
                return _KeyLocation(location=key.location, name=key.name)
        elif key.type == "http" and key.http_scheme is not None and key.http_scheme.lower() != "bearer":
            return _KeyLocation(location="header", name="authorization", prefix=f"{key.http_scheme.capitalize()} ")
        elif key.type in ("http", "oauth2", "openIdConnect"):
            return _AUTHORIZATION
    found = next((key for key in schemes.values() if key.name is not None and key.location is not None), None)
    return _AUTHORIZATION if found is None else _KeyLocation(location=str(found.location), name=str(found.name))


def _checked(secret: Any) -> Secret:
    """Return a secret as it is; raises TypeError and ValueError as `WithCredentials`."""
    if isinstance(secret, tuple):
        parts: list[Any] = [*secret]
        if len(parts) != 2:
            raise ValueError("credentials of several parts are a user name and a password")
        user = checked_secret("the user name of the credentials", parts[0])
        if ":" in user:
            raise ValueError("the user name of the credentials has a colon, which ends it (RFC 7617, section 2)")
        return user, checked_secret("the password of the credentials", parts[1])
    return checked_secret("the credentials", secret)


def _value(place: _KeyLocation, secret: Secret) -> str:
    """Return a secret as it stands in its place."""
    if isinstance(secret, tuple) or (place.prefix == "Basic " and ":" in secret):
        text = ":".join(secret) if isinstance(secret, tuple) else secret
        return "Basic " + b64encode(text.encode()).decode()
    # A value with a space names its scheme itself: "Token abc", "ApiKey abc".
    return secret if " " in secret or not place.prefix else place.prefix + secret


def _with(request: ApiRequest, secrets: Iterable[tuple[_KeyLocation, Secret]]) -> ApiRequest:
    headers = list(request.headers)
    query = request.query
    for place, secret in secrets:
        value = _value(place, secret)
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
