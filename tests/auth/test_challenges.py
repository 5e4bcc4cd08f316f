"""ferrule.auth.challenges: ``WWW-Authenticate`` read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.auth.challenges import Challenge, format_challenge, parse_challenges


@pytest.mark.parametrize(("header", "expected"), [
    (None, []),
    ("", []),
    ("Bearer", [("bearer", {})]),
    ('Bearer realm="x"', [("bearer", {"realm": "x"})]),
    ("Bearer error=invalid_token", [("bearer", {"error": "invalid_token"})]),
    ('Bearer scope="a b", resource_metadata="https://e.com/x?y=1,2"',
     [("bearer", {"scope": "a b", "resource_metadata": "https://e.com/x?y=1,2"})]),
    ('Bearer a="1", DPoP algs="ES256", error="x"', [("bearer", {"a": "1"}), ("dpop", {"algs": "ES256", "error": "x"})]),
    ('Basic realm="a, Bearer scope=b", Bearer scope="c"', [("basic", {"realm": "a, Bearer scope=b"}),
                                                           ("bearer", {"scope": "c"})]),
    (r'Bearer realm="say \"hi\" \\"', [("bearer", {"realm": 'say "hi" \\'})]),
    ("BEARER Scope=one, scope=two", [("bearer", {"scope": "one"})]),
    ("Bearer   realm = x ,  scope=y", [("bearer", {"realm": "x", "scope": "y"})]),
    ("Bearer resource_metadata=https://e.com/x", [("bearer", {"resource_metadata": "https://e.com/x"})]),
    (", , Bearer ,, a=b", [("bearer", {"a": "b"})]),
    ('realm="x"', []),
    ('Bearer realm="never closed', [("bearer", {})]),
])  # fmt: skip
def test_headers_of_many_servers_are_read(header: str | None, expected: list[tuple[str, dict[str, str]]]) -> None:
    """Several challenges in one header, quotation marks or none, odd spaces, nonsense."""
    found = [(challenge.scheme, dict(challenge.parameters)) for challenge in parse_challenges(header)]
    assert [one[0] for one in found][: len(expected)] == [one[0] for one in expected]
    assert found[: len(expected)] == expected


@given(st.text(max_size=300))
def test_no_header_makes_it_raise(header: str) -> None:
    """It comes from a server that already refused."""
    for challenge in parse_challenges(header):
        assert isinstance(challenge, Challenge)


SAFE = st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)


@given(st.dictionaries(st.sampled_from(["scope", "error", "realm", "error_description"]), SAFE))
def test_what_is_written_is_read_back(parameters: dict[str, str]) -> None:
    """Quotation marks and backslashes included."""
    (challenge,) = parse_challenges(format_challenge("Bearer", dict(parameters)))
    assert dict(challenge.parameters) == parameters


def test_nothing_can_break_out_of_a_header() -> None:
    """A line break in a description would be a header of its own."""
    assert "\r" not in format_challenge("Bearer", {"error_description": "a\r\nset-cookie: x"})
