"""A person at a browser, who signs in at a Django project and agrees. Imports nothing but the standard library."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from typing import Any

__all__ = ["Person"]


class _StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Person:
    """A browser with cookies, and the user ada.

    Args:
        redirect_uri: where the browser leaves the project.

    Attributes:
        asked: the scopes of each visit.
    """

    def __init__(self, redirect_uri: str) -> None:
        self.asked: list[str] = []
        self._redirect_uri = redirect_uri
        self._opener = urllib.request.build_opener(
            _StaysHere(), urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    def visit(self, url: str) -> str:
        """Return the URL to which the project sends the browser at the end; blocks."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
        assert query["code_challenge_method"] == ["S256"]
        self.asked.append(query["scope"][0])
        data: bytes | None = None
        for _ in range(20):
            request = urllib.request.Request(url, data, {"referer": url})
            try:
                with self._opener.open(request, timeout=60) as response:
                    page = response.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    if error.code not in (302, 303):
                        raise AssertionError(error.read().decode()[:2000]) from None
                    url, data = urllib.parse.urljoin(url, error.headers["location"]), None
                if url.startswith(self._redirect_uri):
                    return url
                continue
            fields = dict(re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', page))
            fields = {name: value.replace("&amp;", "&") for name, value in fields.items()}
            data = urllib.parse.urlencode({**fields, "username": "ada", "password": "x", "allow": "Authorize"}).encode()
        raise AssertionError("the pages never end")
