"""The rounds of a call that may become a task: `ReplayRounds` that waits for answers instead of ending the round.

Until a `JournalWriter` is attached it is `ReplayRounds`: questions end the round, and the client calls again. With a
writer the body waits at its questions. The writer saves the questions; answers arrive through `WaitingRounds.accept`.
The writer saves the journal after each answer and step, so that another process can continue: it replays the body up
to the last recorded step or answer, as another round does.

The writer saves before an effect becomes visible: the result of a step before the body gets it, an answer before it is
acknowledged to its sender.

asyncio only, as `ReplayRounds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from ferrule.app.execution.limits import paused_time
from ferrule.app.rounds.base import StepCall
from ferrule.app.rounds.errors import RoundLimitExceeded, RoundsError
from ferrule.app.rounds.journal import Entry, Journal, Outstanding
from ferrule.app.rounds.keys import check_key, digest_of_texts
from ferrule.app.rounds.manual import InputRequired, answer_manually
from ferrule.app.rounds.questions import Question
from ferrule.app.rounds.replay import ReplayRounds
from ferrule.wire.codec import to_builtins

__all__ = ["Answer", "AskedQuestion", "JournalWriter", "WaitingRounds"]

# A task lives for `max_ttl_s`, which is a day by default; the rest is for servers that allow more.
_TASK_MARK_TTL_S: Final = 7 * 24 * 3600.0

Answer: TypeAlias = tuple[Literal["answer", "invalid"], Any]
"""``("answer", raw result)``, or ``("invalid", why)`` where the client refused with an error."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that a body waits at.

    Attributes:
        key: its place in the body.
        digest: the digest of its content.
        refused: number of answers that did not fit; the question is asked again after each.
        method, params: the method and the params of the request that asks the question.
    """

    key: str
    digest: str
    refused: int
    method: str
    params: dict[str, Any]


class JournalWriter(Protocol):
    """Saves the journal and the questions of a waiting body."""

    async def save(self, journal: Journal, questions: Sequence[AskedQuestion] | None) -> None:
        """Save the journal and, unless ``None``, the complete list of open questions."""
        ...

    async def ensure_owned(self) -> None:
        """Check, before a step, that this process may still run the body.

        Raises:
            Exception: another process has taken the task over.
        """
        ...


class WaitingRounds(ReplayRounds):
    """The rounds of a call that may become a task: once a `JournalWriter` is attached, its body waits for answers."""

    _writer: JournalWriter | None = None
    _saving: asyncio.Task[None] | None = None
    _has_begun = False
    _is_held = False

    def enter(self) -> bool:
        """Return whether this is the start of the task's body: true once."""
        has_begun, self._has_begun = self._has_begun, True
        return not has_begun

    def hold(self) -> None:
        """Keep questions from ending the round while the call is becoming a task."""
        self._is_held = True

    def release(self) -> None:
        """Let questions end the round, or wait in the task, when the call has become a task or cannot."""
        self._is_held = False
        self._quiescence.touch()

    def attach(self, writer: JournalWriter) -> None:
        """Make the body wait at its questions from now on; not to be called after `suspending`."""
        self._writer = writer
        self._quiescence.touch()

    def _lacks(self, missing: dict[str, Any]) -> Exception:
        connection = self.request.session.connection
        return super()._lacks(missing) if connection.revision.has_rounds else connection.capability_error(missing)

    async def _ask(self, base: str, key: str, digest: str, question: Question) -> Any:
        with paused_time():  # the time of the answer does not count against the tool's `timeout_s`
            return await super()._ask(base, key, digest, question)

    async def _join(self, base: str) -> Any:
        with paused_time():
            return await super()._join(base)

    def accept(self, answers: Mapping[str, Answer]) -> None:
        """Record answers; the first to a question is final, and answers to unknown questions are ignored.

        The body gets them later, in its own order. Save the journal before acknowledging the answers. A question that
        has waited longer than its ``timeout_s`` has expired, even if it is answered now.

        Args:
            answers: by the keys of their questions.
        """
        # First: an expired question must not be answered any more.
        self._expire()
        taken = {
            key: answer
            for key, answer in answers.items()
            if key in self.journal.outstanding and key not in self.journal.entries
        }
        self._record({key: (kind, value) for key, (kind, value) in taken.items()})

    def _record(self, settled: Mapping[str, tuple[str, Any]]) -> None:
        if not settled:
            return
        # One batch: answers that arrived together are delivered together, as in a round.
        sequence = self.journal.next_sequence()
        for key, (kind, value) in settled.items():
            entry = Entry(sequence, cast("Any", kind), self.journal.outstanding[key].digest, value)
            self.journal.entries[key] = self._due[key] = entry
            self._fresh.add(key)
        self._quiescence.touch()

    @property
    def mark_ttl_s(self) -> float:
        """Seconds that the mark of a ``once`` step is kept: also as long as another process may take the task over."""
        return max(super().mark_ttl_s, _TASK_MARK_TTL_S)

    async def run_step(self, call: StepCall) -> Entry:
        """Run a step, save its outcome, and return the entry; see `Rounds.run_step`.

        Raises:
            Exception: another process has taken the task over, or the store failed.
        """
        if self._writer is not None:
            await self._writer.ensure_owned()
        entry = await super().run_step(call)
        if self._writer is not None:
            await self._writer.save(self.journal, None)
        return entry

    async def ask_manually(
        self, asked: InputRequired, function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]
    ) -> Any:
        """Ask the questions that a function returned, call the function with the answers, and return its result.

        Before the call has become a task the questions end the round, as in a call that is not a task.

        Raises:
            RoundLimitExceeded: the function returned questions too often.
        """
        value: Any = asked
        for _ in range(self.settings.max_rounds):
            if self._writer is None:
                return await answer_manually(self.request, value, function, kwargs)
            questions = value.requests()
            answers = await asyncio.gather(
                # All at once, as the questions of one round.
                *(
                    self.ask(Question(question["method"], question["params"], lambda raw: raw, key=_valid_key(key)))
                    for key, question in questions.items()
                )
            )
            self.request.session.body.manual_answers = (
                dict(zip(questions, answers, strict=True)),
                to_builtins(value.state),
            )
            value = await function(**kwargs)
            if not isinstance(value, InputRequired):
                return value
        raise RoundLimitExceeded(f"A call may take {self.settings.max_rounds} rounds")

    def _advance(self) -> None:
        if self._writer is not None and self._expire():
            self._quiescence.watch()
            return
        super()._advance()

    def _end_round(self) -> None:
        """End the round, or in a task save the open questions and wait."""
        writer = self._writer
        if writer is None:
            if self._is_held:
                self._quiescence.rest()
            else:
                super()._end_round()
            return
        # The write takes time; if the body continued meanwhile, the saved questions are out of date (`_saved`).
        seen = self._quiescence.activity
        self._saving = self._loop.create_task(writer.save(self.journal, self._questions()))
        self._saving.add_done_callback(lambda saving: self._saved(saving, seen))

    def _saved(self, saving: asyncio.Task[None], seen: int) -> None:
        """Continue after the questions were saved; if something happened meanwhile, wait for quiescence again."""
        error = None if saving.cancelled() else saving.exception()
        if self._is_over:
            return
        if saving.cancelled() or error is not None:
            self._fail(error if isinstance(error, Exception) else RoundsError("The questions of a task were not saved"))
        elif self._quiescence.activity == seen:
            self._quiescence.rest(self._next_expiry_in_s())
        else:
            self._quiescence.watch()

    def _questions(self) -> list[AskedQuestion]:
        """Return the open questions, and record them in the journal."""
        now = self.settings.clock()
        before, self.journal.outstanding = self.journal.outstanding, {}
        asked: list[AskedQuestion] = []
        for parked in self._parked.values():
            question = parked.question
            # A done future has its answer; its caller has just not run yet.
            if question is None or parked.future.done():
                continue
            known = before.get(parked.key)
            asked_at = now if known is None else known.asked_at
            self.journal.outstanding[parked.key] = Outstanding(
                parked.digest, asked_at, parked.refused, question.timeout_s
            )
            asked.append(
                AskedQuestion(parked.key, parked.digest, parked.refused, question.method, dict(question.params or {}))
            )
        return asked

    def _next_expiry_in_s(self) -> float | None:
        ends = [asked.asked_at + asked.timeout_s for asked in self.journal.outstanding.values() if asked.timeout_s]
        return max(0.0, min(ends) - self.settings.clock()) if ends else None

    def _expire(self) -> bool:
        """Record the questions that have waited longer than their ``timeout_s``; return whether there were any."""
        now = self.settings.clock()
        expired = {
            key: ("expired", asked.timeout_s)
            for key, asked in self.journal.outstanding.items()
            if asked.timeout_s and now >= asked.asked_at + asked.timeout_s and key not in self.journal.entries
        }
        self._record(expired)
        return bool(expired)

    async def settle(self, value: Any) -> Any:
        """Return the body's result, after a write that has begun; see `Rounds.settle`."""
        await self._finish_saving()
        return await super().settle(value)

    async def settle_error(self, error: BaseException) -> Any:
        """Return a result or raise the error, after a write that has begun; see `Rounds.settle_error`."""
        await self._finish_saving()
        return await super().settle_error(error)

    async def _finish_saving(self) -> None:
        """Wait for a write that has begun, so that it cannot overwrite the outcome."""
        while self._saving is not None and not self._saving.done():
            try:
                await asyncio.wait([self._saving])
            except asyncio.CancelledError:
                continue


def _valid_key(key: str) -> str:
    """Return a valid key for an author's key: `InputRequired` allows any text, `check_key` does not."""
    try:
        return check_key(key)
    except RoundsError:
        return f"by-hand-{digest_of_texts(key)}"
