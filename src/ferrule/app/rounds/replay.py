"""The rounds of the modern era: each round runs the body again from its start and replays what is recorded.

Replay keeps the order of events. If an answered question returned at once, concurrent branches of the body could
overtake each other, continue differently than in the round before, and repeat an effect. Therefore each batch of
answers and each result of a step has a sequence number. Replay delivers the lowest number only when the body is
quiescent: for several iterations of the event loop nothing has happened on the context, and no step is running.

When the body is quiescent at questions without an answer, the round ends: it is suspended. The body's task is cancelled
once, and the reply of the round (input requests and sealed state) is decided here; everything that the body returns or
raises while it unwinds is ignored. A cancellation with another cause is recognized from the record of the transport
(``ferrule.kernel.concurrency.cancellation``).

asyncio only: the rules depend on tasks, their count of cancellations, and iterations of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, cast

from ferrule.app.rounds.base import MAX_REFUSED_ANSWERS, Rounds, StepCall, bad_answer, close_all
from ferrule.app.rounds.errors import (
    ClientLacks,
    InvalidAnswer,
    NonDeterminismError,
    QuestionExpired,
    RoundLimitExceeded,
)
from ferrule.app.rounds.journal import Entry, Journal, Outstanding
from ferrule.app.rounds.keys import scoped
from ferrule.app.rounds.questions import MisfitAnswer, Question
from ferrule.app.rounds.quiescence import QUIET_PASSES, Quiescence
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.app.rounds.state import open_state, seal_inline, seal_state
from ferrule.kernel.connection import unguarded
from ferrule.kernel.dispatch import RepliesEarly
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import InternalError
from ferrule.wire.codec import convert
from ferrule.wire.types import InputRequiredResult

__all__ = ["ReplayRounds"]

logger = logging.getLogger("ferrule.app.rounds")

IDLE_ROUNDS: Final = 3
"""Maximum number of successive rounds without a newly used answer; after it the call fails."""

# A loop that catches its cancellation would otherwise use the processor without end.
_CALLS_AFTER_SUSPENSION: Final = 1000
"""Calls on the context that a body may make after it has ignored its cancellation; later ones never return."""


@dataclass(slots=True, eq=False)
class _Parked:
    """A caller in the body that waits: for an answer, for a recorded result, or for permission to run a new step."""

    key: str
    digest: str
    future: asyncio.Future[Any]
    question: Question | None = None
    step: StepCall | None = None
    refused: int = 0
    waiters: int = field(default=1)


class ReplayRounds(Rounds):
    """One round of a modern call.

    Args:
        body_task: the task that runs the body, which is the request's own task.
    """

    def __init__(
        self,
        request: ServerRequestContext[Any],
        settings: RoundsSettings,
        journal: Journal,
        body_task: asyncio.Task[Any],
    ) -> None:
        super().__init__(request, settings, journal)
        self._body_task = body_task
        self._loop: asyncio.AbstractEventLoop = request.session.loop or asyncio.get_running_loop()
        self._due = dict(journal.entries)
        self._must_replay = {key for key, entry in journal.entries.items() if entry.consumed}
        self._fresh: set[str] = set()
        self._parked: dict[str, _Parked] = {}
        self._by_base: dict[str, _Parked] = {}
        self._running: set[asyncio.Task[Entry]] = set()
        self._quiescence = Quiescence(self._loop, self._running, self._on_quiescent)
        self._waiting_since: float | None = None
        self._suspended = False
        self._replying: asyncio.Task[None] | None = None
        self._unwinding: asyncio.Handle | None = None
        self._was_cancelled = False
        self._cancels_before = body_task.cancelling()
        self._foreign_before = 0
        self._late_calls = 0
        self._reply: InputRequiredResult | None = None
        self._reply_error: Exception | None = None
        # The first round cannot have an answer, so that it does not count as idle.
        self._used_new_answer = journal.round == 1
        self._abandoned: set[asyncio.Future[NoReturn]] = set()
        self._lost: str | None = None

    @classmethod
    async def resume(
        cls, request: ServerRequestContext[Any], settings: RoundsSettings, body_task: asyncio.Task[Any]
    ) -> ReplayRounds:
        """Return the round that a request's ``requestState`` and ``inputResponses`` begin.

        Raises:
            StateRefused: the state is invalid, expired or used, or belongs to another call or principal.
        """
        params = request.params
        if params.request_state is None:
            journal = cls.new_journal(settings)
        else:
            journal = await open_state(request, settings, params.request_state)
        rounds = cls(request, settings, journal, body_task)
        rounds._accept(params.input_responses or {})
        return rounds

    def _accept(self, responses: dict[str, Any]) -> None:
        """Record answers to outstanding questions as one batch; answers to other questions are ignored."""
        now = self.settings.clock()
        sequence = 0
        for key, asked in list(self.journal.outstanding.items()):
            expired = asked.timeout_s is not None and now > asked.asked_at + asked.timeout_s
            if not expired and key not in responses:
                continue
            sequence = sequence or self.journal.next_sequence()
            # Expired wins: the body may have promised that a late answer has no effect.
            kind, value = ("expired", asked.timeout_s) if expired else ("answer", responses[key])
            entry = Entry(sequence, cast("Any", kind), asked.digest, value)
            self.journal.entries[key] = self._due[key] = entry
            self._fresh.add(key)

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def suspending(self) -> bool:
        return self._suspended

    @property
    def replaying(self) -> bool:
        return bool(self._must_replay)

    def _lacks(self, missing: dict[str, Any]) -> Exception:
        return ClientLacks(missing)

    # -- parking --------------------------------------------------------------------------------------------------

    async def _ask(self, base: str, key: str, digest: str, question: Question) -> Any:
        entry = self._due.get(key)
        asked = self.journal.outstanding.get(key)
        if entry is not None and entry.digest != digest:  # another text: the user's consent does not apply to it
            self._forget(key)
        if asked is not None and asked.digest != digest:
            del self.journal.outstanding[key]
            asked = None
        parked = _Parked(key, digest, self._loop.create_future(), question=question)
        # Counted over all rounds, since each round refuses one answer at most.
        parked.refused = 0 if asked is None else asked.refused
        self._by_base[base] = parked
        try:
            return await self._park(parked)
        finally:
            self._by_base.pop(base, None)

    async def _join(self, base: str) -> Any:
        parked = self._by_base[base]
        parked.waiters += 1
        return await self._wait_for(parked)

    async def _park(self, parked: _Parked) -> Any:
        self._parked[parked.key] = parked
        self._quiescence.touch()
        return await self._wait_for(parked)

    async def _wait_for(self, parked: _Parked) -> Any:
        is_shared = parked.question is not None and parked.question.shared
        try:
            # Shielded if shared: the cancellation of one branch must not cancel the future of the others.
            return await (asyncio.shield(parked.future) if is_shared else parked.future)
        finally:
            parked.waiters -= 1
            if not parked.waiters:
                parked.future.cancel()
                if self._parked.get(parked.key) is parked:
                    del self._parked[parked.key]
            self._quiescence.touch()

    def _forget(self, key: str) -> None:
        self._due.pop(key, None)
        self._must_replay.discard(key)
        self._fresh.discard(key)
        self.journal.entries.pop(key, None)

    async def check_open(self) -> None:
        """Raise a cancellation after the suspension, after one yield; after very many calls, wait for ever."""
        if not self._suspended:
            return
        self._late_calls += 1
        if self._late_calls > _CALLS_AFTER_SUSPENSION:
            logger.error("A body ignores its cancellation; its next call on the context waits for ever")
            # Never done; the cancellation of the request still ends it.
            await self._loop.create_future()
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _step(self, call: StepCall) -> Any:
        entry = self._due.get(call.key)
        if entry is not None:
            self.check_same_arguments(call, entry)
            if entry.kind == "abandoned":
                await self._await_cancellation(call)
            return await self._park_step(call, entry)
        started_at = self._loop.time()
        if self._must_replay:
            try:
                await self._park(_Parked(call.key, call.digest, self._loop.create_future(), step=call))
            except asyncio.CancelledError:
                self._abandon(call, started_at)
                raise
            await self.check_open()
        task = self._loop.create_task(self.run_step(call))
        self._running.add(task)
        task.add_done_callback(self._step_done)
        self._quiescence.touch()  # or a round that ends in this iteration of the loop would miss the step
        try:
            # Shielded: an effect that has begun must be recorded, even if its caller is cancelled.
            entry = await asyncio.shield(task)
        except asyncio.CancelledError:
            if call.is_check:
                task.cancel()
            if task.done() or call.is_check:
                self._abandon(call, started_at)
            elif self._is_own_cancellation():
                call.abandoned_after_s = self._loop.time() - started_at  # `run_step` records it at its end
            raise
        entry.consumed = True
        return self.outcome_of(call.name, entry)

    async def _park_step(self, call: StepCall, entry: Entry) -> Any:
        """Wait for the recorded outcome of a step."""
        try:
            return await self._park(_Parked(call.key, call.digest, self._loop.create_future(), step=call))
        except asyncio.CancelledError:
            if not self._is_own_cancellation():
                raise
            if entry.consumed:  # an earlier round continued with this result
                self._lost = call.name
            else:
                self._due.pop(call.key, None)
                self._abandon(call, self._loop.time())
            raise

    def _is_own_cancellation(self) -> bool:
        """Return whether the body itself cancelled the caller of a step, so that the body continues.

        The count of cancellations of the body's task is not evidence: ``asyncio.timeout`` raises it too.
        """
        if self._suspended or self._is_over:
            return False
        carrier = self.request.session.interruptible
        return carrier is None or not carrier.is_being_cancelled

    def _abandon(self, call: StepCall, started_at: float) -> None:
        """Record that the body continued without the outcome of a step, so that each later round does the same."""
        if self._is_own_cancellation():
            call.abandoned_after_s = self._loop.time() - started_at
            self.record_abandoned(call)

    def _patience_s(self) -> float:
        """Return the seconds that the replay waits for the body to reach what is recorded."""
        # A time-out in the body may have abandoned a step: this round must wait as long as that time-out.
        waits = [entry.value for entry in self._due.values() if entry.kind == "abandoned"]
        return self.settings.replay_wait_s + max(waits, default=0.0)

    async def _await_cancellation(self, call: StepCall) -> NoReturn:
        """Wait until the body cancels the caller of a step, as it did in the round before.

        Raises:
            NonDeterminismError: the body does not, although more time has passed than in that round.
        """
        future: asyncio.Future[NoReturn] = self._loop.create_future()
        error = NonDeterminismError(
            f"The round before continued without the step {call.name!r}, and this one waits for it"
        )
        # A body without its time-out would wait here for ever.
        late = self._loop.call_later(self._patience_s(), _set_exception, future, error)
        self._abandoned.add(future)
        self._quiescence.touch()
        try:
            await future
            raise AssertionError("unreachable")
        finally:
            late.cancel()
            self._abandoned.discard(future)
            self._due.pop(call.key, None)
            self._must_replay.discard(call.key)
            self._quiescence.touch()

    def _step_done(self, task: asyncio.Task[Entry]) -> None:
        self._running.discard(task)
        self._quiescence.touch()

    # -- delivering what is recorded ------------------------------------------------------------------------------

    def _on_quiescent(self) -> None:
        try:
            self._advance()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the round after an error of this module or of a store; otherwise the body would wait for ever."""
        logger.error("The rounds of a call failed", exc_info=error)
        self._suspended = True
        self._reply_error = self._reply_error or InternalError()
        self._reply_error.__cause__ = error
        self._unwind()

    def _advance(self) -> None:
        """Continue a quiescent body: deliver the next batch, wait for a missing caller, run steps, or end the round."""
        quiescence = self._quiescence
        if not self._parked:
            self._waiting_since = None
            quiescence.rest()
            return
        if self._deliver_lowest(patient=True):
            self._waiting_since = None
            quiescence.watch()
            return
        # Something lower is recorded, and the body has not reached it: wait a bounded time, then deliver without it.
        if self._lower_is_due():
            now = self._loop.time()
            self._waiting_since = now if self._waiting_since is None else self._waiting_since
            left_s = self._patience_s() - (now - self._waiting_since)
            if left_s > 0:
                quiescence.rest(left_s)
                return
            if self._deliver_lowest(patient=False):
                self._waiting_since = None
                quiescence.watch()
                return
        self._waiting_since = None
        if self._release_steps():
            quiescence.watch()
        else:
            self._end_round()

    def _lower_is_due(self) -> bool:
        """Return whether the body has not reached something that is recorded and expected."""
        return any(key not in self._parked and (key in self._must_replay or key in self._fresh) for key in self._due)

    def _deliver_lowest(self, *, patient: bool) -> bool:
        """Deliver the lowest batch to its waiting callers; return whether there were any.

        Args:
            patient: deliver nothing if a lower batch is expected by a caller that the body has not reached.
        """
        expected = [
            entry.sequence
            for key, entry in self._due.items()
            if key in self._parked or (patient and (key in self._must_replay or key in self._fresh))
        ]
        if not expected:
            return False
        lowest = min(expected)
        ready = [
            parked for key, parked in self._parked.items() if key in self._due and self._due[key].sequence == lowest
        ]
        for parked in ready:
            self._deliver(parked, self._due.pop(parked.key))
        return bool(ready)

    def _deliver(self, parked: _Parked, entry: Entry) -> None:
        self._quiescence.touch()
        is_new = not entry.consumed
        entry.consumed = True
        self._must_replay.discard(parked.key)
        self._fresh.discard(parked.key)
        if parked.future.done():
            return
        try:
            value = self._read(parked, entry)
        except MisfitAnswer as error:
            self._refuse_answer(parked, entry, error)
            return
        except Exception as error:
            parked.future.set_exception(error)
            parked.future.exception()  # retrieved: asyncio would warn if the branch has ended
        else:
            parked.future.set_result(value)
        if is_new and parked.question is not None:
            self._used_new_answer = True
            self.journal.outstanding.pop(parked.key, None)

    def _read(self, parked: _Parked, entry: Entry) -> Any:
        if parked.step is not None:
            return self.outcome_of(parked.step.name, entry)
        question = cast("Question", parked.question)
        if entry.kind == "expired":
            raise QuestionExpired(f"No answer within {entry.value:g} s")
        if entry.kind == "invalid":
            raise InvalidAnswer(entry.value)
        return question.read(entry.value)

    def _refuse_answer(self, parked: _Parked, entry: Entry, error: MisfitAnswer) -> None:
        """Ask again after an answer that does not fit; the third such answer raises in the body, and is recorded."""
        question = cast("Question", parked.question)
        parked.refused += 1
        if parked.refused >= MAX_REFUSED_ANSWERS:
            raised = bad_answer(question, error)
            entry.kind, entry.value = "invalid", str(raised)
            parked.future.set_exception(raised)
            parked.future.exception()
            self._used_new_answer = True
            self.journal.outstanding.pop(parked.key, None)
            return
        logger.info("An answer to %s does not fit, so the question is asked again: %s", question.method, error)
        self._forget(parked.key)

    def _release_steps(self) -> bool:
        """Start waiting new steps if everything is replayed, else refuse them; return whether there were any."""
        steps = [parked for key, parked in self._parked.items() if parked.step is not None and key not in self._due]
        for parked in steps:
            if parked.future.done():
                continue
            if not self._must_replay:
                parked.future.set_result(None)
                continue
            name = cast("StepCall", parked.step).name
            parked.future.set_exception(
                NonDeterminismError(f"The step {name!r} comes before what earlier rounds recorded; it is not run")
            )
            parked.future.exception()
        if steps:
            self._quiescence.touch()
        return bool(steps)

    # -- the end of the round -------------------------------------------------------------------------------------

    def _end_round(self) -> None:
        """Suspend a body that only answers can continue: decide the reply, and unwind the body."""
        self._suspended = True  # first: a step that began while the state is being sealed would not be in it
        try:
            self._refuse_when_lost()
            requests = self._requests()
            state = seal_inline(self.request, self.settings, self.journal)
        except Exception as error:
            self._reply_error = error
        else:
            if state is None:
                self._replying = self._loop.create_task(self._reply_from_store(requests))
                return
            self._reply = _reply(requests, state)
        self._unwind()

    def _refuse_when_lost(self) -> None:
        if self._lost is not None:
            raise NonDeterminismError(
                f"The round before had the outcome of the step {self._lost!r}, and this one continued without it"
            )

    async def _reply_from_store(self, requests: dict[str, Any]) -> None:
        """Decide the reply of a state that is too large to be sent and must be stored first; then unwind the body."""
        try:
            self._reply = _reply(requests, await seal_state(self.request, self.settings, self.journal))
        except Exception as error:
            self._reply_error = error
        self._unwind()

    def _unwind(self) -> None:
        """Cancel the body once, then its waiting callers, and reply without the body if it does not end in time."""
        self._quiescence.close()
        if self._is_over:  # the body ended while the reply was being made
            return
        self._was_cancelled = True
        carrier = self.request.session.interruptible
        if carrier is not None:
            self._foreign_before = carrier.foreign_cancels
            carrier.foreign_cancels -= 1  # the `cancel()` below is not one from outside
        # Once: a body may handle its cancellation, for example to roll back a transaction.
        self._body_task.cancel()
        # The body first: callers that were cancelled before it would look like failed branches to its `gather`.
        self._unwinding = self._loop.call_soon(self._release_after, QUIET_PASSES)

    def _release_after(self, passes: int) -> None:
        if passes:
            self._unwinding = self._loop.call_soon(self._release_after, passes - 1)
            return
        self._release_all()
        self._unwinding = self._loop.call_later(self.settings.grace_s, self._give_up_on_the_body)

    def _release_all(self) -> None:
        """Cancel all callers that wait for an answer or a step."""
        for future in [*(parked.future for parked in self._parked.values()), *self._abandoned]:
            future.cancel()

    def _give_up_on_the_body(self) -> None:
        self._replying = self._loop.create_task(self._answer_without_the_body())

    def _requests(self) -> dict[str, Any]:
        """Return the input requests of this round in wire shape, and record them in the journal.

        Raises:
            NonDeterminismError: `IDLE_ROUNDS` rounds in a row used no new answer.
            RoundLimitExceeded: the call has had its maximum number of rounds.
        """
        journal, settings = self.journal, self.settings
        journal.idle_rounds = 0 if self._used_new_answer else journal.idle_rounds + 1
        # A body that asks another question in each round, such as one with the time in its text, would never end.
        if journal.idle_rounds >= IDLE_ROUNDS:
            raise NonDeterminismError(f"{IDLE_ROUNDS} rounds in a row used no new answer")
        journal.round += 1
        if journal.round > settings.max_rounds:
            raise RoundLimitExceeded(f"A call may take {settings.max_rounds} rounds")
        now = settings.clock()
        # Questions that the body no longer asks are removed; answers to them are then ignored.
        before, journal.outstanding = journal.outstanding, {}
        requests: dict[str, Any] = {}
        for parked in self._parked.values():
            question = parked.question
            if question is None:
                continue
            asked_at = before[parked.key].asked_at if parked.key in before else now
            journal.outstanding[parked.key] = Outstanding(parked.digest, asked_at, parked.refused, question.timeout_s)
            requests[parked.key] = {"method": question.method, "params": question.params or {}}
        return requests

    async def _answer_without_the_body(self) -> None:
        """Send the reply although the body still runs, after the grace period."""
        carrier = unguarded(self.request.session.dispatch)
        if not isinstance(carrier, RepliesEarly):
            return
        logger.warning("A body did not end within %g s of its suspension; the reply is sent", self.settings.grace_s)
        if self._reply_error is not None:
            await carrier.answer(error=self._reply_error)
            return
        request = self.request
        await carrier.answer(finish_result(request.server, request.session.connection, request.method, self._reply))

    async def settle(self, value: Any) -> Any:
        """Return the body's result, or the reply of this round if it was suspended."""
        await self._stop()
        if not self._suspended:
            self._refuse_when_lost()
            return value
        logger.debug("A body returned after its suspension; its result is ignored")
        return self._finish()

    async def settle_error(self, error: BaseException) -> Any:
        """Return the result of this round after the body raised or was cancelled; raise ``error`` if it failed."""
        await self._stop()
        if not self._suspended:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        if not isinstance(error, asyncio.CancelledError):
            error = self.request.session.failure_of(error)
            logger.warning("A body raised after its suspension; the exception is ignored", exc_info=error)
        del error  # its traceback may hold this frame
        return self._finish()

    def _finish(self) -> Any:
        """Return the reply after taking back this round's own cancellation; raise another cancellation, if any."""
        if self._was_cancelled and self._body_task.cancelling():
            self._body_task.uncancel()
        if self._has_another_cancellation():
            raise self._interruption()
        if self._reply_error is not None:
            raise self._reply_error
        return self._reply

    def _has_another_cancellation(self) -> bool:
        """Return whether the request was cancelled while this round cancelled the body.

        The count alone is not evidence: a failed task group may have left it raised (before Python 3.13). Nor is a call
        of ``cancel()`` from outside: it may come from a ``timeout`` in the body, which then takes it back.
        """
        carrier = self.request.session.interruptible
        is_counted = self._body_task.cancelling() > self._cancels_before
        if carrier is None:
            return is_counted
        return carrier.is_being_cancelled or (is_counted and carrier.foreign_cancels > self._foreign_before)

    def _interruption(self) -> BaseException:
        carrier = self.request.session.interruptible
        found = None if carrier is None else carrier.interruption
        return found if isinstance(found, asyncio.CancelledError) else asyncio.CancelledError()

    def break_cycle(self) -> None:
        """Remove the references to the request, also those of the callbacks, whose context references it.

        Later calls of the body end in `check_open`.
        """
        self.request = cast("Any", None)
        self._unwinding = None
        self._quiescence.break_cycle()

    async def _stop(self) -> None:
        """Wait for running steps and a reply that is being made, also while being cancelled; release all callers."""
        self._is_over = True
        self._quiescence.close()
        if self._unwinding is not None:
            self._unwinding.cancel()
        interrupted: asyncio.CancelledError | None = None
        while waited := self._unfinished():
            try:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                interrupted = error
        self._release_all()
        if interrupted is not None:
            try:
                raise interrupted
            finally:
                del interrupted  # its traceback holds this frame

    def _unfinished(self) -> set[asyncio.Task[Any]]:
        replying = self._replying
        return {*self._running} if replying is None or replying.done() else {*self._running, replying}

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Return the results of concurrent branches; see `Rounds.gather`."""
        if self._suspended or self._is_over:
            close_all(awaitables)
        await self.check_open()
        self._refuse_when_over("gather")
        scope = self.next_gather()
        exits: dict[int, BaseException] = {}

        async def branch(index: int, awaitable: Awaitable[Any]) -> Any:
            with scoped(f"{scope}.{index}"):
                try:
                    return await awaitable
                except (KeyboardInterrupt, SystemExit) as error:  # raised by a task, it would end the event loop
                    exits[index] = error

        # Not a `TaskGroup`: it cancels the other branches after the first failure, whose steps must end and be
        # recorded.
        tasks = [self._loop.create_task(branch(index, awaitable)) for index, awaitable in enumerate(awaitables)]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        try:
            if exits:
                raise exits[min(exits)]
            # The lowest index and not the first in time, so that each round raises the same.
            failures = [task for task in tasks if task.cancelled() or task.exception() is not None]
            return failures[0].result() if failures else [task.result() for task in tasks]
        finally:
            # The tracebacks of their errors hold this frame.
            exits.clear()
            del tasks
            failures = []


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _reply(requests: dict[str, Any], state: str) -> InputRequiredResult:
    return convert(
        {"resultType": "input_required", "inputRequests": requests, "requestState": state}, InputRequiredResult
    )
