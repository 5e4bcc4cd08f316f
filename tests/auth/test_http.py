"""ferrule.auth.http: a redirect of a server is a URL of a server, and may be anything."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.auth.errors import UnsafeUrl
from ferrule.auth.http import MAX_REDIRECTS, AuthResponse, get, run_flow
from ferrule.auth.urls import HostClass, UrlPolicy

URL = "https://example.com/metadata"


def fetched(*locations: str) -> Any:
    """The outcome of a request that is answered by these redirects, and then with a document."""
    ahead = list(locations)
    seen: list[str] = []

    def answer(step: Any) -> AuthResponse:
        seen.append(step.url)
        return AuthResponse(302, {"location": ahead.pop(0)}) if ahead else AuthResponse(200, {}, b"{}")

    response = run_flow(get(URL, UrlPolicy(), HostClass.PUBLIC), answer)
    return response.status, seen


def test_redirects_are_followed_as_far_as_they_may() -> None:
    """Relative ones too, and at most three."""
    assert fetched("/a", "https://other.example/b") == (200, [URL, "https://example.com/a", "https://other.example/b"])
    with pytest.raises(UnsafeUrl, match="redirects"):
        fetched(*["/again"] * (MAX_REDIRECTS + 1))


@pytest.mark.parametrize(
    "location", ["https://[bad/x", "//[x", "https://example.com:x/", "http://127.0.0.1/", "file:///etc/passwd"]
)
def test_a_redirect_to_nowhere_is_an_error_of_the_flow(location: str) -> None:
    """A malformed one raised an error that no caller expects."""
    with pytest.raises(UnsafeUrl):
        fetched(location)
