"""ferrule.client.supervision.status: a state in words."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

import pytest

from ferrule.client.supervision.status import ConnectionState, ConnectionStatus

AT = datetime(2026, 3, 1, 10, 2).timestamp()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ConnectionStatus(server="x", state="connected", since=AT), "'x' is connected since 10:02:00"),
        (ConnectionStatus(server="x", state="connecting", since=AT), "'x' is connecting since 10:02:00"),
        (
            ConnectionStatus(
                server="x",
                state="waiting",
                since=AT + 9,
                error=OSError("connection refused"),
                down_since=AT,
                next_attempt_at=AT + 15,
            ),
            "'x' is down since 10:02:00: connection refused; trying again in 5 s",
        ),
        (
            ConnectionStatus(server="x", state="half_open", since=AT, error=OSError("no"), down_since=AT),
            "'x' is down since 10:02:00: no; trying again now",
        ),
        (
            ConnectionStatus(server="x", state="failed", since=AT, error=ValueError("no command"), down_since=AT),
            "'x' is down since 10:02:00: no command",
        ),
    ],
)
def test_a_sentence_for_people_and_models(status: ConnectionStatus, words: str) -> None:
    """Since when, why, and when the next attempt is."""
    # Computed here, as other tests of the same process change its time zone.
    assert status.describe(AT + 10) == words.replace("10:02:00", f"{datetime.fromtimestamp(AT):%H:%M:%S}")


def test_every_state_has_words() -> None:
    """Also before the first failure."""
    for state in get_args(ConnectionState):
        assert "'x' is " in ConnectionStatus(server="x", state=state, since=AT).describe(AT)
