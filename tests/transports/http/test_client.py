"""How long a client waits before it connects again."""

from __future__ import annotations

import pytest

from ferrule.transports.http.client import retry_after_s, retry_delay_s


@pytest.mark.parametrize(
    ("attempt", "hint_ms", "expected"),
    [
        (0, None, 0.5),
        (3, None, 4.0),
        (20, None, 30.0),
        (5, 70, 0.07),
        (0, 0, 0.05),
        (0, 10**15, 3600.0),
        (9**9, None, 30.0),
    ],
)
def test_retry_delay(attempt: int, hint_ms: int | None, expected: float) -> None:
    """The server's hint wins within its bounds; otherwise the pause doubles up to a bound."""
    assert retry_delay_s(attempt, hint_ms=hint_ms) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3.0),
        (" 3 ", 3.0),
        ("0", 0.0),
        ("9" * 400, 60.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", 60.0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after(value: str, expected: float) -> None:
    """Seconds or a date; a server cannot make a client wait for ever."""
    assert retry_after_s({"retry-after": value}) == expected
    assert retry_after_s({}) == 0.0
