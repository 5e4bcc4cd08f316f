"""What the rounds of one call have settled so far, as a value that can be sealed.

An `Entry` is an answer, an expiry, a final refusal or the outcome of a step, with the sequence number of its batch;
replay delivers entries in this order. An `Outstanding` is a question without an answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from ferrule.app.rounds.errors import StateTampered

__all__ = ["Entry", "EntryKind", "Journal", "Outstanding"]

EntryKind: TypeAlias = Literal["answer", "expired", "invalid", "step", "step_failed", "in_doubt", "abandoned"]


@dataclass(slots=True)
class Entry:
    """What is recorded under one key.

    Attributes:
        sequence: number of its batch; equal for answers that arrived together.
        kind: one of `EntryKind`.
        digest: the digest of the question's content or the step's arguments when it was recorded.
        value: the raw answer, the step's result, the text of a failure, or the seconds that the caller of an abandoned
            step waited before it was cancelled.
        consumed: whether a round has delivered it to the body.
    """

    sequence: int
    kind: EntryKind
    digest: str
    value: Any
    consumed: bool = False


@dataclass(slots=True)
class Outstanding:
    """A question that waits for its answer.

    Attributes:
        digest: the digest of its content.
        asked_at: time at which it was asked first, in seconds since the epoch.
        refused: number of answers that did not fit.
        timeout_s: seconds after which it expires; ``None`` for no limit.
    """

    digest: str
    asked_at: float
    refused: int = 0
    timeout_s: float | None = None


@dataclass(slots=True)
class Journal:
    """The state of one logical call.

    Attributes:
        call_id: a random id, made in the first round.
        started_at: time of the first round, in seconds since the epoch.
        round: number of this round, from 1.
        sequence: number of the last batch.
        idle_rounds: number of successive rounds without a newly used answer.
        entries, outstanding: by key.
        manual: the state of a returned `InputRequired`.
    """

    call_id: str
    started_at: float
    round: int = 1
    sequence: int = 0
    idle_rounds: int = 0
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    outstanding: dict[str, Outstanding] = field(default_factory=dict[str, Outstanding])
    manual: Any = None

    def next_sequence(self) -> int:
        """Return a new batch number."""
        self.sequence += 1
        return self.sequence

    def to_json(self) -> list[Any]:
        """Return a compact JSON form."""
        # A list without names: the state is sent to the client and back in each round.
        return [
            self.call_id,
            self.started_at,
            self.round,
            self.sequence,
            self.idle_rounds,
            {key: [e.sequence, e.kind, e.digest, e.value, e.consumed] for key, e in self.entries.items()},
            {key: [o.digest, o.asked_at, o.refused, o.timeout_s] for key, o in self.outstanding.items()},
            self.manual,
        ]

    @classmethod
    def from_json(cls, value: Any) -> Journal:
        """Return a journal made from the result of `to_json`.

        Raises:
            StateTampered: the value has another form (a state of another version of this library).
        """
        try:
            call_id, started_at, round_, sequence, idle, entries, outstanding, manual = cast("list[Any]", value)
            return cls(
                call_id,
                started_at,
                round_,
                sequence,
                idle,
                {key: Entry(*entry) for key, entry in entries.items()},
                {key: Outstanding(*asked) for key, asked in outstanding.items()},
                manual,
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise StateTampered("The request state has an unknown form") from error
