"""ferrule.auth.client.tokens: what a storage keeps, and what it may hold in its place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ferrule.auth.client.tokens import ClientIdentity, TokenSet

IDENTITY = ClientIdentity(
    "client",
    "secret",
    "client_secret_basic",
    redirect_uri="http://127.0.0.1/callback",
    secret_expires_at=5,
    source="given",
)
TOKENS = TokenSet(
    "access",
    "dpop",
    "https://rs.example/mcp",
    "https://as.example",
    "https://as.example/token",
    IDENTITY,
    expires_at=12.5,
    refresh_token="refresh",
    scope="a b",
    requested=("a", "b"),
    dpop_key={"kty": "EC"},
)


@pytest.mark.parametrize("tokens", [TOKENS, replace(TOKENS, expires_at=None, requested=None, dpop_key=None)])
def test_tokens_are_read_as_they_were_written(tokens: TokenSet) -> None:
    assert TokenSet.from_json(tokens.to_json()) == tokens
    assert ClientIdentity.from_json(IDENTITY.to_json()) == IDENTITY


def test_a_private_key_is_neither_written_nor_read() -> None:
    text = replace(IDENTITY, private_key="PEM").to_json()
    assert "PEM" not in text
    found = ClientIdentity.from_json(json.dumps({**json.loads(text), "private_key": "PEM"}))
    assert found is not None
    assert found.private_key is None


WRONG: list[tuple[str, Any]] = [
    ("access_token", None),
    ("access_token", 5),
    ("token_endpoint", {}),
    ("expires_at", "soon"),
    ("expires_at", [5]),
    ("requested", 5),
    ("requested", [5]),
    ("refresh_token", 7),
    ("dpop_key", "key"),
    ("identity", 5),
    ("identity", True),
    ("identity", {"client_id": "client", "method": "none"}),
    ("identity", '{"client_id": "client"}'),
    ("identity", '{"client_id": "client", "method": "magic"}'),
    ("identity", '{"client_id": "client", "method": "none", "secret_expires_at": "x"}'),
    ("identity", '{"client_id": "client", "method": "none", "client_secret": 5}'),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_is_not_tokens_is_none(name: str, value: Any) -> None:
    """Of another program, or of another version: the user signs in again, and no request fails for it."""
    assert TokenSet.from_json(json.dumps({**json.loads(TOKENS.to_json()), name: value})) is None


@pytest.mark.parametrize("text", [None, "", "x", "[]", "5", "{}", "null"])
def test_other_texts_are_none(text: str | None) -> None:
    assert TokenSet.from_json(text) is None
    assert ClientIdentity.from_json(text) is None
