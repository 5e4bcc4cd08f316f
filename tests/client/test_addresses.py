"""URLs and headers that cannot work are refused when the client is made, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client
from ferrule.client.addresses import checked_headers, checked_url


@pytest.mark.parametrize("url", ["http://h", "HTTP://h", "Https://h:1/x?y", "http://[::1]:8000/mcp", " http://h/ "])
def test_a_url_is_one_in_any_case(url: str) -> None:
    """Schemes are case-insensitive (RFC 3986, 3.1)."""
    assert Client(url).label.lower().startswith(("http://", "https://"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("localhost:8000/mcp", r"'localhost:8000/mcp' is not a URL: write http://"),
        ("localhost:8000", "write http://"),
        ("127.0.0.1:8000/mcp?key=secret", "write http://"),
        ("[::1]:8000/mcp", "write http://"),
        ("mcp.example.com:443/mcp", "write http://"),
        ("ws://h/x", "begins with http://"),
        ("file:///tmp/x", "begins with http://"),
        ("http://", "begins with http://"),
        ("http:///mcp", "begins with http://"),
        ("http://h:0/", "begins with http://"),
        ("http://a b/", "begins with http://"),
        ("http://h:99999/", "Port out of range"),
        ("http://h:x/", "not a URL"),
        ("http://[::1", "not a URL"),
        ({"url": "localhost:8000/mcp"}, "begins with http://"),
    ],
)
def test_a_url_that_cannot_work_is_refused_at_once(target: Any, message: str) -> None:
    """Not taken for a command line, and not with an error of some library at the first call."""
    with pytest.raises(ValueError, match=message) as caught:
        Client(target)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "kind", "message"),
    [
        ({"x-key": None}, TypeError, "'x-key' has no value: leave it out"),
        ({"x-key": 1}, TypeError, "'x-key' has a value of the type int"),
        ({"x-key": b"a"}, TypeError, "type bytes"),
        ({1: "a"}, TypeError, "text"),
        ({"x-key": "a\n"}, ValueError, "line end"),
        ({"x-key": "a\r\nx-other: b"}, ValueError, "line end"),
        ({"x-key": "a\0"}, ValueError, "NUL"),
        ({"x key": "a"}, ValueError, "not a name"),
        ({"": "a"}, ValueError, "not a name"),
        ({"x:y": "a"}, ValueError, "not a name"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_at_once(headers: Any, kind: type[Exception], message: str) -> None:
    """A variable that was not set, a file that ends with a line end."""
    with pytest.raises(kind, match=message) as caught:
        Client("http://h/", headers=headers)
    assert "x-other" not in str(caught.value)
    with pytest.raises(kind):
        checked_headers(headers)


def test_what_can_be_sent_passes() -> None:
    """Empty values, and any character but the three."""
    headers = {"x-a": "", "X_b.c~": "é\t;"}
    assert checked_headers(headers) == headers
    assert checked_url("https://h/ü") == "https://h/ü"
    with pytest.raises(TypeError, match="text"):
        checked_url(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["", " ", "a b", "a\nb", "é"])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    """It would fail at the first call, in words of the HTTP library."""
    with pytest.raises(ValueError, match="auth= takes a token"):
        Client("http://h/", auth=token)


def test_a_token_from_a_file_ends_with_a_line_end() -> None:
    """Which does not belong to it."""
    Client("http://h/", auth="token\n")
