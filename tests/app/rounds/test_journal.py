"""The journal as a value."""

from __future__ import annotations

import pytest

from ferrule.app.rounds.errors import StateTampered
from ferrule.app.rounds.journal import Entry, Journal, Outstanding
from ferrule.wire.codec import decode, encode


def test_it_survives_json():
    """What is sealed is what the next round gets."""
    journal = Journal("id", 12.5, round=3, sequence=2, idle_rounds=1, manual={"a": [1]})
    journal.entries["k"] = Entry(1, "answer", "d", {"action": "accept"}, consumed=True)
    journal.entries["s"] = Entry(2, "step_failed", "e", "ValueError: no")
    journal.outstanding["q"] = Outstanding("f", 12.75, refused=2, timeout_s=3.5)
    assert Journal.from_json(decode(encode(journal.to_json()))) == journal


def test_sequences_rise():
    journal = Journal("id", 0)
    assert [journal.next_sequence(), journal.next_sequence(), journal.sequence] == [1, 2, 2]


@pytest.mark.parametrize(
    "value", [None, [], {}, ["id"], ["id", 0, 1, 0, 0, {"k": [1]}, {}, None], [1, 2, 3, 4, 5, 6, 7, 8]]
)
def test_another_form_is_refused(value):
    """A state of another version of this library, sealed with the same key."""
    with pytest.raises(StateTampered):
        Journal.from_json(value)
