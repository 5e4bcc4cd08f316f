"""The parts of questions and steps that both eras share: keys, scopes, steps and checks.

`Rounds` is the interface that ``Context`` uses. In the legacy era `PushRounds` sends each question to the client and
waits. In the modern era ``ReplayRounds`` (in ``replay.py``) ends the round and later runs the body again. Both refuse
the same calls at the same place, so that a body which works in one era works in the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import anyio

from ferrule.app.execution.limits import paused_time
from ferrule.app.rounds.errors import (
    AmbiguousKey,
    InvalidAnswer,
    NonDeterminismError,
    NotSupportedHere,
    QuestionExpired,
    StepFailed,
    StepInDoubt,
)
from ferrule.app.rounds.journal import Entry, EntryKind, Journal
from ferrule.app.rounds.keys import Occurrences, check_key, content_digest, current_scope, question_base, scoped
from ferrule.app.rounds.questions import MisfitAnswer, Question
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.kernel.concurrency.cancellation import BodyExit, Interruptible, failure_of, run_interruptible
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.kernel.dispatch import CallOptions
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.capabilities import missing_for_request
from ferrule.protocol.errors import RequestTimeout
from ferrule.stores.marks import OneTimeMarks
from ferrule.wire.codec import decode, encode

if TYPE_CHECKING:
    from ferrule.app.rounds.manual import InputRequired

__all__ = ["MAX_REFUSED_ANSWERS", "PushRounds", "Rounds", "StepCall", "TaskOfCall", "bad_answer", "close_all"]

logger = logging.getLogger("ferrule.app.rounds")

T = TypeVar("T")

MAX_REFUSED_ANSWERS: Final = 3
"""Number of answers to one question that do not fit after which `InvalidAnswer` is raised."""

# Stores have no wake-up for marks. The wait is rare: two processes run the same step at the same time.
_MARK_POLL_S: Final = 0.05


@dataclass(slots=True)
class StepCall:
    """One call of ``ctx.step``.

    Attributes:
        key: the key of the step in the body; see `ferrule.app.rounds.keys`.
        digest: the digest of its arguments.
        name: the name that the author gave.
        run: calls the function, and returns its result.
        once: whether it runs at most once, also if the client sends the same round twice; needs a store.
        is_check: whether it is a check without effects: a cancellation of its caller ends it, and steps inside it are
            not recorded.
        abandoned_after_s: seconds after which its caller was cancelled while the body continued; ``None``: it was not.
    """

    key: str
    digest: str
    name: str
    run: Callable[[], Awaitable[Any]]
    once: bool = False
    is_check: bool = False
    abandoned_after_s: float | None = None


in_step: ContextVar[StepCall | None] = ContextVar("ferrule_step", default=None)
"""The step that the running code is part of."""


class TaskOfCall(Protocol):
    """The task that a call is or may become, as its body may use it."""

    async def begin(self) -> str:
        """Return the task's id; make the call a task first, unless it is one."""
        ...

    async def set_status(self, message: str | None) -> None:
        """Set the task's status message."""
        ...

    @property
    def task_id(self) -> str | None:
        """The task's id; ``None`` while the call is not a task."""
        ...


class Rounds(ABC):
    """The questions and steps of one call.

    Args:
        request: the call.
        settings: the settings of the server.
        journal: the record of earlier rounds.

    Attributes:
        task: the task that this call is or may become; ``None`` for a call without tasks.
    """

    task: TaskOfCall | None = None

    def __init__(self, request: ServerRequestContext[Any], settings: RoundsSettings, journal: Journal) -> None:
        self.request = request
        self.settings = settings
        self.journal = journal
        self.occurrences = Occurrences()
        self._asking: set[str] = set()
        self._stepping: set[str] = set()
        self._gathers = Occurrences()
        self._pages = Occurrences()
        self._random: random.Random | None = None
        self._is_over = False

    @staticmethod
    def new_journal(settings: RoundsSettings) -> Journal:
        """Return the journal of a call that begins now."""
        return Journal(secrets.token_urlsafe(16), settings.clock())

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def suspending(self) -> bool:
        """Whether this round has ended and the body is only unwinding."""
        return False

    @property
    def replaying(self) -> bool:
        """Whether the body has not yet reached the point where the round before ended."""
        return False

    @property
    def started_at(self) -> float:
        """Time of the call's first round, in seconds since the epoch."""
        return self.journal.started_at

    def idempotency_key(self, name: str) -> str:
        """Return a key for a third party, which is equal in all rounds and forks of this call and of no other call.

        Raises:
            RoundsError: ``name`` is not a valid key.
        """
        check_key(name)
        # 128 bits; a digest, because third parties limit the length of such keys and must not learn the id of the call.
        return hashlib.sha256(f"{self.journal.call_id}/{current_scope()}{name}".encode()).hexdigest()[:32]

    def next_page(self) -> str:
        """Return a name for the next page that the user is asked to open; the same in each round."""
        # `check_key` allows no `#`.
        return self._pages.next("elicit_url").replace("#", "-")

    def random(self) -> random.Random:
        """Return a random generator with the same sequence in each round; not for secrets."""
        if self._random is None:
            # Seeded with the id of the call, which is the same in each round.
            self._random = random.Random(f"ferrule {self.journal.call_id}")
        return self._random

    def enter(self) -> bool:
        """Return whether this is the start of a task's body; ``False`` for a tool that a body calls."""
        return False

    async def ask_manually(
        self, asked: InputRequired, function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]
    ) -> Any:
        """Return ``asked``, the questions that a function returned, for the caller to handle.

        A task overrides this: it asks the questions and calls the function again with the answers.

        Args:
            asked: the return value of the function.
            function, kwargs: the function and its arguments, for another call.
        """
        return asked

    async def check_open(self) -> None:  # noqa: B027 - in the legacy era a round does not end before its body
        """Raise a cancellation if the round has ended; all async methods of ``Context`` call this first."""

    def break_cycle(self) -> None:  # noqa: B027 - not every engine has such a cycle
        """Remove the references that make a cycle with the request; called when the round has ended."""

    def _refuse_when_over(self, what: str) -> None:
        """Refuse questions and steps of a task that still runs after the body has returned.

        Raises:
            NotSupportedHere: the body has ended.
        """
        if self._is_over:
            raise NotSupportedHere(f"{what} after the call has ended; await the tasks that you start")

    # -- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, question: Question) -> Any:
        """Ask a question and return the answer as `Question.read` converts it.

        Raises:
            CapabilityNotDeclared: the client lacks the capability; in the modern era also an `MCPError` (-32021).
            AmbiguousKey: another branch asks a question with the same key at the same time.
            InvalidAnswer: three answers did not fit.
            QuestionExpired: no answer came within ``timeout_s``.
            NotSupportedHere: called inside a step, or after the call has ended.
        """
        await self.check_open()
        self._refuse_when_over(question.method)
        self._refuse_in_step(question.method)
        around = self.settings.around_question
        if around is None:
            return await self._ask_declared(question)
        async with around(question.method):
            return await self._ask_declared(question)

    async def _ask_declared(self, question: Question) -> Any:
        # Before the question counts as an occurrence: a body that catches the error gets the same keys in each round.
        self._check_declared(question)
        digest = question.content_digest()
        base = current_scope() + question_base(question.key, question.method, digest)
        if question.shared and base in self._asking:
            return await self._join(base)
        # The order in which branches run may differ between rounds: `#2` would then be another branch's question.
        if base in self._asking:
            raise AmbiguousKey(f"Two branches ask {base!r} at once; give key=, or use ctx.scope or ctx.gather")
        self._asking.add(base)
        try:
            return await self._ask(base, self.occurrences.next(base), digest, question)
        finally:
            self._asking.discard(base)

    @abstractmethod
    async def _ask(self, base: str, key: str, digest: str, question: Question) -> Any: ...

    @abstractmethod
    async def _join(self, base: str) -> Any:
        """Return the answer to a shared question that another branch has asked and that is still open."""

    def _check_declared(self, question: Question) -> None:
        declared = self.request.session.connection.client_capabilities_raw
        missing = missing_for_request(declared, question.method, question.params)
        if missing is not None:
            raise self._lacks(missing)

    def _lacks(self, missing: dict[str, Any]) -> Exception:
        return self.request.session.connection.capability_error(missing)

    def _refuse_in_step(self, what: str) -> None:
        step = in_step.get()
        if step is not None:
            raise NotSupportedHere(
                f"{what} inside the step {step.name!r}: ask first, then run the step with the answers"
            )

    # -- steps ----------------------------------------------------------------------------------------------------

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, once: bool = False, **kwargs: Any
    ) -> Any:
        """Run ``function`` once in a call, and return its result; each later round returns the recorded result.

        The result is converted to JSON and back in the first round too, so that it is equal in all rounds.

        Args:
            name: unique among the steps that run at the same time in a scope.
            function: sync (runs in a thread) or async.
            args, kwargs: JSON values; a recorded step that is called with other arguments is refused.
            once: run it at most once, even if the client sends the same round twice at the same time; needs a store.

        Raises:
            StepFailed: the function raised, now or when it was recorded.
            NonDeterminismError: it was recorded with other arguments, or it is new and comes before recorded steps.
            StepInDoubt: with ``once``, another process began it and the outcome is not known.
            AmbiguousKey: another branch runs a step of this name at the same time.
            NotSupportedHere: called inside another step, or after the call has ended.
            RoundsError: ``name`` is not a valid key.
        """
        await self.check_open()
        check_key(name)
        self._refuse_when_over(f"The step {name!r}")

        async def run() -> Any:
            return await _call(function, args, kwargs, self.settings)

        around = in_step.get()
        if around is not None and around.is_check and not once:
            return await run()  # part of a check, whose own result is recorded
        self._refuse_in_step(f"The step {name!r}")
        base = f"{current_scope()}step:{name}"
        if base in self._stepping:
            raise AmbiguousKey(f"Two branches run the step {name!r} at once; use ctx.scope or ctx.gather")
        return await self._recorded(base, StepCall("", content_digest([args, kwargs]), name, run, once))

    async def check_done(self, question: Question, done: Callable[[], Awaitable[bool]]) -> bool:
        """Return whether a page was completed; call ``done`` once for each visit, and record its result as a step's.

        Args:
            question: the page; the result is recorded under its key.
            done: returns whether the page was completed.

        Raises:
            StepFailed: ``done`` raised, now or when it was recorded.
        """

        async def check() -> bool:
            return bool(await done())

        await self.check_open()
        digest = question.content_digest()
        base = f"{current_scope()}done:{question_base(question.key, question.method, digest)}"
        return bool(await self._recorded(base, StepCall("", digest, "done", check, is_check=True)))

    async def _recorded(self, base: str, call: StepCall) -> Any:
        """Return the outcome of a step at its next place under ``base``."""
        self._stepping.add(base)
        try:
            call.key = self.occurrences.next(base)
            return await self._step(call)
        finally:
            self._stepping.discard(base)

    @abstractmethod
    async def _step(self, call: StepCall) -> Any: ...

    @property
    def mark_ttl_s(self) -> float:
        """Seconds that the mark of a ``once`` step is kept: as long as a state of this call can be sent again."""
        return self.settings.state.max_s

    async def run_step(self, call: StepCall) -> Entry:
        """Run a step that has no recorded outcome yet, record its outcome, and return the entry.

        It raises only when it is cancelled from outside.
        """
        mark = f"{self.journal.call_id}/{call.key}"
        marks = self.settings.marks if call.once else None
        # Claimed before the step runs: after a crash in between, the mark says that the effect may have happened.
        outcome = None if marks is None else await self._claim(marks, mark)
        if outcome is None:
            outcome = await self._outcome(call)
            if marks is not None:
                try:
                    await marks.finish(mark, encode(outcome), ttl_s=self.mark_ttl_s)
                except Exception:  # the step ran: this chain of rounds has its outcome, other forks stay in doubt
                    logger.exception("The outcome of the step %r could not be marked in the store", call.name)
        # Checked after the step: the caller may have been cancelled while it ran.
        if call.abandoned_after_s is not None:
            return self.record_abandoned(call)
        entry = Entry(self.journal.next_sequence(), outcome[0], call.digest, outcome[1])
        self.journal.entries[call.key] = entry
        return entry

    def record_abandoned(self, call: StepCall) -> Entry:
        """Record that the body continued without the outcome of a step, and return the entry."""
        known = self.journal.entries.get(call.key)
        sequence = self.journal.next_sequence() if known is None else known.sequence
        # Consumed, so that each later round waits for the body to abandon it again before it continues.
        entry = Entry(sequence, "abandoned", call.digest, call.abandoned_after_s, consumed=True)
        self.journal.entries[call.key] = entry
        return entry

    async def _outcome(self, call: StepCall) -> tuple[EntryKind, Any]:
        # A context variable: the function may start tasks, whose questions must be refused as well.
        token = in_step.set(call)
        watch = Interruptible()
        try:
            # To JSON and back, so that the first round gets exactly the value of the later ones.
            return "step", decode(encode(await run_interruptible(call.run(), watch)))
        except BaseException as error:
            failure = failure_of(error, watch)
            logger.error("The step %r failed", call.name, exc_info=failure)
            is_exit = isinstance(failure, BodyExit)  # its text names the original exception
            # Text only: the state passes through the client sealed as JSON, and an exception cannot be rebuilt from it.
            text = str(failure) if is_exit else f"{type(failure).__name__}: {failure}"
            del failure  # its traceback holds this frame
            return "step_failed", text
        finally:
            watch.interruption = None
            in_step.reset(token)

    async def _claim(self, marks: OneTimeMarks, mark: str) -> tuple[EntryKind, Any] | None:
        """Return the outcome of another process, or ``("in_doubt", None)``; ``None`` to run the step here."""
        # The other process may have died; its mark stays until it expires.
        deadline = anyio.current_time() + self.settings.step_wait_s
        while True:
            found = await marks.begin(mark, ttl_s=self.mark_ttl_s)
            if found.state == "mine":
                return None
            if found.state == "done":
                return cast("tuple[EntryKind, Any]", tuple(decode(found.value or b"")))
            if anyio.current_time() >= deadline:
                return "in_doubt", None
            await anyio.sleep(_MARK_POLL_S)

    @staticmethod
    def outcome_of(name: str, entry: Entry) -> Any:
        """Return a recorded step's result.

        Raises:
            StepFailed: the step raised.
            StepInDoubt: another process began the step and the outcome is not known.
        """
        if entry.kind == "step":
            return entry.value
        if entry.kind == "in_doubt":
            raise StepInDoubt(f"Another process began the step {name!r}; whether it took effect is not known")
        raise StepFailed(name, str(entry.value))

    @staticmethod
    def check_same_arguments(call: StepCall, entry: Entry) -> None:
        """Check that a recorded step is called with the recorded arguments.

        Raises:
            NonDeterminismError: it is not.
        """
        if entry.digest != call.digest:
            raise NonDeterminismError(f"The step {call.name!r} was recorded with other arguments; it is not run again")

    # -- branches -------------------------------------------------------------------------------------------------

    def next_gather(self) -> str:
        """Return the scope of the next `gather` in the current scope."""
        scope = current_scope()
        return self._gathers.next(f"{scope}gather:1").removeprefix(scope).replace(":1#", ":")

    @abstractmethod
    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Run branches concurrently, each in its own scope; wait for all and return their results.

        Raises:
            Exception: the exception of the failed branch with the lowest index.
        """

    # -- the end --------------------------------------------------------------------------------------------------

    @abstractmethod
    async def settle(self, value: Any) -> Any:
        """Return the body's result, or the result that this round has instead."""

    @abstractmethod
    async def settle_error(self, error: BaseException) -> Any:
        """Raise the error that the body raised, or return the result that this round has instead."""


class PushRounds(Rounds):
    """The rounds of the legacy era: a question is a request to the client, and the body waits for the response."""

    def __init__(self, request: ServerRequestContext[Any], settings: RoundsSettings, journal: Journal) -> None:
        super().__init__(request, settings, journal)
        self._shared: dict[str, _Shared] = {}
        self._asked: set[anyio.CancelScope] = set()

    async def _ask(self, base: str, key: str, digest: str, question: Question) -> Any:
        shared = self._shared[base] = _Shared()
        try:
            answer = await self._push(question)
        except BaseException as error:
            shared.settle(None, error if isinstance(error, Exception) else None)
            del shared  # it has the error, whose traceback holds this frame
            raise
        finally:
            self._shared.pop(base, None)
        shared.settle(answer, None)
        return answer

    async def _push(self, question: Question) -> Any:
        options: CallOptions = {"timeout_s": question.timeout_s}
        # Bounded, because a client could return the same wrong answer for ever.
        for refused in range(1, MAX_REFUSED_ANSWERS + 1):
            try:
                raw = await self._send(question, options)
            except RequestTimeout as error:
                raise QuestionExpired(f"No answer within {question.timeout_s:g} s") from error
            try:
                return question.read(raw)
            except MisfitAnswer as error:
                if refused == MAX_REFUSED_ANSWERS:
                    raise bad_answer(question, error) from error
                logger.info("An answer to %s does not fit, so the question is asked again: %s", question.method, error)
        raise AssertionError("unreachable")

    async def _send(self, question: Question, options: CallOptions) -> Any:
        with anyio.CancelScope() as scope:  # cancelled when the body ends, so that the client is notified
            self._asked.add(scope)
            try:
                # The user's time does not count against the tool's `timeout_s`.
                with paused_time():
                    return await self.request.session.send_request(question.method, question.params, options)
            finally:
                self._asked.discard(scope)
        self._refuse_when_over(question.method)
        raise AssertionError("unreachable")

    async def _join(self, base: str) -> Any:
        shared = self._shared.get(base)
        if shared is None:
            raise AmbiguousKey(f"Two branches ask {base!r} at once")
        return await shared.wait()

    async def _step(self, call: StepCall) -> Any:
        await yield_to_loop(self.request.session)  # the step itself may never yield
        # Shielded: an effect whose outcome is not recorded would be repeated.
        entry = await (self.run_step(call) if call.is_check else _shielded(self.run_step(call)))
        return self.outcome_of(call.name, entry)

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Return the results of concurrent branches, on any event loop; see `Rounds.gather`."""
        if self._is_over:
            close_all(awaitables)
        self._refuse_when_over("gather")
        # Taken before the branches run, in the order of the body.
        scope = self.next_gather()
        results: list[Any] = [None] * len(awaitables)
        errors: dict[int, BaseException] = {}

        async def branch(index: int, awaitable: Awaitable[Any]) -> None:
            with scoped(f"{scope}.{index}"):
                try:
                    results[index] = await awaitable
                except BaseException as error:
                    if not isinstance(error, Exception) and anyio.current_effective_deadline() == float("-inf"):
                        raise  # the group ends
                    errors[index] = error

        async with anyio.create_task_group() as group:
            for index, awaitable in enumerate(awaitables):
                group.start_soon(branch, index, awaitable)
        if errors:
            try:
                raise errors[min(errors)]
            finally:
                errors.clear()  # their tracebacks hold this frame
        return results

    async def settle(self, value: Any) -> Any:
        """Withdraw open questions and return the body's result."""
        self._end()
        return value

    async def settle_error(self, error: BaseException) -> Any:
        """Withdraw open questions and raise the error."""
        self._end()
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def _end(self) -> None:
        # First: a withdrawn question then raises `NotSupportedHere` in its task (`_send`).
        self._is_over = True
        # A copy: each cancelled question removes its scope.
        for scope in list(self._asked):
            scope.cancel()


class _Shared:
    """The answer to a question that several branches wait for."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._answer: Any = None
        self._error: Exception | None = None

    def settle(self, answer: Any, error: Exception | None) -> None:
        self._answer, self._error = answer, error
        self._event.set()

    async def wait(self) -> Any:
        await self._event.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the traceback holds this frame
        return self._answer


def bad_answer(question: Question, error: Exception) -> InvalidAnswer:
    """Return the error for `MAX_REFUSED_ANSWERS` answers that do not fit; ``error`` describes the last one."""
    return InvalidAnswer(
        f"The client answered {question.method} {MAX_REFUSED_ANSWERS} times with an invalid value: {error}"
    )


def close_all(awaitables: tuple[Awaitable[Any], ...]) -> None:
    """Close coroutines that will not run, so that Python does not warn that they were never awaited."""
    for awaitable in awaitables:
        if hasattr(awaitable, "close"):  # a coroutine; a task or future needs nothing
            cast("Coroutine[Any, Any, Any]", awaitable).close()


async def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], settings: RoundsSettings
) -> Any:
    """Call a function and return its result: a sync function in a thread, an async one in this task."""
    # Imported here: `inspect` takes milliseconds at the start, and few servers use steps.
    from inspect import iscoroutinefunction

    if iscoroutinefunction(function):
        return await function(*args, **kwargs)
    # A separate pool: sync tools keep their threads while they wait for steps, so that one pool could deadlock.
    result = await settings.threads.run(lambda: function(*args, **kwargs), {})
    return await result if hasattr(result, "__await__") else result  # a plain function that wraps an async one


async def _shielded(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs to its end, even if the caller is cancelled.

    A cancelled caller first waits for the end of the coroutine.
    """
    from ferrule.kernel.concurrency.spawner import is_asyncio

    # `asyncio.shield` needs a task; on trio a shielded scope does the same.
    if not is_asyncio():
        with anyio.CancelScope(shield=True):
            return await coroutine
    import asyncio

    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # a further cancellation must not end the wait
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn about it
        raise
