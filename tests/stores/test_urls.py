"""URLs of stores in messages."""

from __future__ import annotations

import pytest

from ferrule.stores.urls import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host/0", "redis://host/0"),
        ("redis://me@host/0", "redis://me@host/0"),
        ("redis://me:secret@host/0?a=b", "redis://***@host/0?a=b"),
        ("redis://:secret@host/0", "redis://***@host/0"),
        ("postgresql://a@b:secret@host:1,other:2/d", "postgresql://***@host:1,other:2/d"),
        ("postgresql://host/d?user=me&password=secret", "postgresql://host/d?user=me&password=***"),
        ("postgresql://user:pa#ss@h/db?schema=BAD", "postgresql://***@h/db?schema=BAD"),
        ("postgresql://user:pa?ss@h/db?schema=BAD", "postgresql://***@h/db?schema=BAD"),
        ("postgresql://user:p/ss@h/db?schema=BAD", "postgresql://***@h/db?schema=BAD"),
        ("postgresql://user:p@ss@h/db", "postgresql://***@h/db"),
        ("postgres:user:pass@h/db", "postgres:***@h/db"),
        ("postgresql://h/d?sslpassword=KEYPW&schema=BAD", "postgresql://h/d?sslpassword=***&schema=BAD"),
        ("postgresql://h/d?PASSWORD=a#b&c&schema=BAD", "postgresql://h/d?PASSWORD=***&schema=BAD"),
        ("postgresql://h/d?pass%77ord=abc", "postgresql://h/d?pass%77ord=***"),
        ("jobs.db", "jobs.db"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
