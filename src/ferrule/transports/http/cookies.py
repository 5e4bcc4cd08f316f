"""Cookies of the default HTTP client: one jar of aiohttp for each origin. Imported with the first request.

Load balancers in front of servers with sessions use a cookie to send a client to the same server; without it the next
request reaches another one, which does not have the session. aiohttp handles path, expiry and ``Secure``. This module
adds two rules: a cookie is sent only to the scheme, host and port that set it, whatever its ``Domain``, and the number
and size of cookies are bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from http.cookies import BaseCookie, Morsel, SimpleCookie
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractCookieJar
from yarl import URL

__all__ = ["MAX_COOKIES", "MAX_COOKIE_CHARS", "OriginCookies"]

MAX_COOKIES: Final = 50
"""Maximum number of cookies of one origin; RFC 6265, section 6.1, requires at least as many."""
MAX_COOKIE_CHARS: Final = 4096
"""Maximum length of a cookie's name and value together (RFC 6265, section 6.1)."""
_MAX_ORIGINS: Final = 32
_NO_COOKIES: Final = SimpleCookie()


class OriginCookies(AbstractCookieJar):
    """A cookie jar that keeps the cookies of each origin apart; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self._jars: dict[URL, aiohttp.CookieJar] = {}

    @property
    def unsafe(self) -> bool:
        """Cookies of IP addresses are kept: they cannot reach another host."""
        return True

    @property
    def quote_cookie(self) -> bool:
        """``False``: values are sent as they were received."""
        return False

    @property
    def cookies(self) -> Any:
        """All cookies by their domain and path."""
        return MappingProxyType({key: found for jar in self._jars.values() for key, found in jar.cookies.items()})

    @property
    def host_only_cookies(self) -> frozenset[tuple[str, str, str]]:
        """All cookies: each belongs to one host only."""
        return frozenset(key for jar in self._jars.values() for key in jar.host_only_cookies)

    def __iter__(self) -> Iterator[Morsel[str]]:
        return chain.from_iterable(self._jars.values())

    def __len__(self) -> int:
        return sum(map(len, self._jars.values()))

    def clear(self, predicate: Any = None) -> None:
        """Remove all cookies, or those for which ``predicate`` returns ``True``."""
        for jar in self._jars.values():
            jar.clear(predicate)

    def clear_domain(self, domain: str) -> None:
        """Remove the cookies of a domain."""
        for jar in self._jars.values():
            jar.clear_domain(domain)

    def update_cookies(self, cookies: Any, response_url: URL = URL()) -> None:  # noqa: B008
        """Store the cookies that a response of ``response_url`` set, within the bounds."""
        if not response_url.host:
            return
        origin = response_url.origin()
        jar = self._jars.get(origin)
        if jar is None:
            if len(self._jars) >= _MAX_ORIGINS:
                del self._jars[next(iter(self._jars))]
            jar = self._jars[origin] = aiohttp.CookieJar(unsafe=True, quote_cookie=False)
        names = {morsel.key for morsel in jar}
        kept: list[tuple[str, Morsel[str]]] = []
        for name, morsel in _items(cookies):
            if not isinstance(morsel, Morsel) or len(name) + len(morsel.value) > MAX_COOKIE_CHARS:
                continue
            if not _is_for(morsel["domain"], response_url.host) or (name not in names and len(names) >= MAX_COOKIES):
                continue
            names.add(name)
            own: Any = morsel.copy()
            own["domain"] = ""
            if own["expires"] and not own["max-age"] and _is_past(own["expires"]):
                own["max-age"] = "0"  # aiohttp's jar ignores the epoch as a date, but servers delete cookies with it
            kept.append((name, own))
        jar.update_cookies(kept, response_url)

    def filter_cookies(self, request_url: URL) -> BaseCookie[str]:
        """Return the cookies to send with a request."""
        jar = self._jars.get(request_url.origin()) if self._jars else None
        if jar is None:
            return _NO_COOKIES
        found = jar.filter_cookies(request_url)
        coded = {(morsel.key, morsel.value): morsel.coded_value for morsel in jar}
        for morsel in found.values():
            morsel.set(morsel.key, morsel.value, coded.get((morsel.key, morsel.value), morsel.coded_value))
        return found


def _items(cookies: Any) -> Iterable[tuple[str, Any]]:
    return cookies.items() if isinstance(cookies, Mapping) else cookies  # pyright: ignore[reportUnknownVariableType]


def _is_past(date: str) -> bool:
    from email.utils import mktime_tz, parsedate_tz

    try:
        parts = parsedate_tz(date)
        return parts is not None and mktime_tz(parts) <= time.time()
    except (ValueError, OverflowError):
        return False


def _is_for(domain: str, host: str) -> bool:
    """Return whether a server may set a cookie with this ``Domain`` (RFC 6265, section 5.3)."""
    named = domain.lower().removeprefix(".")
    return not named or host.lower() == named or host.lower().endswith(f".{named}")
