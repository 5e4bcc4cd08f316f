"""What both eras share about the questions and steps of one call: keys, scopes, steps, and who may ask.

`Rounds` is the face that ``Context`` speaks to. `PushRounds` sends each question to the client and waits (legacy);
``ReplayRounds`` (in ``replay.py``) ends the round and runs the body again (modern). Both refuse the same things at
the same place, so that a body which works in one era works in the other.
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

__all__ = ["MAX_REFUSED_ANSWERS", "PushRounds", "Rounds", "StepCall", "TaskSide", "bad_answer", "close_all"]

logger = logging.getLogger("ferrule.app.rounds")

T = TypeVar("T")

MAX_REFUSED_ANSWERS: Final = 3
"""Answers that may misfit one question before `InvalidAnswer`."""

_MARK_POLL_S: Final = 0.05


@dataclass(slots=True)
class StepCall:
    """One call of ``ctx.step``.

    Attributes:
        key, digest: its place, and what it was called with.
        name: as the author gave it.
        run: calls the function.
        once: at most once across forks of the call, with a store.
        is_check: it only looks whether something is so, and has no effect. A cancellation of its caller ends it, and
            steps inside it are part of it.
        abandoned_after_s: seconds after which its caller was cancelled while the body went on; ``None``: it was not.
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


class TaskSide(Protocol):
    """What a body may do about the task that it is, or may become."""

    async def begin(self) -> str:
        """Become a task, unless it is one; return its id."""
        ...

    async def set_status(self, message: str | None) -> None:
        """Set the task's status message."""
        ...

    @property
    def task_id(self) -> str | None:
        """The task's id, ``None`` while the call is none."""
        ...


class Rounds(ABC):
    """The questions and steps of one call.

    Args:
        request: the call.
        settings: of the server.
        journal: what is settled so far.

    Attributes:
        side: the task that this call is or may become; ``None`` for a call without tasks.
    """

    side: TaskSide | None = None

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
        """Of a call that begins now."""
        return Journal(secrets.token_urlsafe(16), settings.clock())

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def suspending(self) -> bool:
        """Whether this round has ended and the body is only unwinding."""
        return False

    @property
    def replaying(self) -> bool:
        """Whether the body has not yet come to where the round before stopped."""
        return False

    @property
    def started_at(self) -> float:
        """Seconds since the epoch of the call's first round."""
        return self.journal.started_at

    def idempotency_key(self, name: str) -> str:
        """Return a key for a third party: equal in every round and every fork of this call, and for no other call."""
        check_key(name)
        return hashlib.sha256(f"{self.journal.call_id}/{current_scope()}{name}".encode()).hexdigest()[:32]

    def next_page(self) -> str:
        """A name for the next page that the user is sent to; equal in every round, and different for each page."""
        return self._pages.next("elicit_url").replace("#", "-")

    def random(self) -> random.Random:
        """Return a generator whose sequence is equal in every round."""
        if self._random is None:
            self._random = random.Random(f"ferrule {self.journal.call_id}")  # equality is the point
        return self._random

    def enter(self) -> bool:
        """Return whether the body of a task begins; ``False`` for a tool that a body calls."""
        return False

    async def ask_manually(
        self, asked: InputRequired, function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]
    ) -> Any:
        """Return ``asked``, the questions that a function returned, for the caller to answer; a task asks them itself.

        Args:
            asked: what the function returned.
            function, kwargs: call it again with the answers.
        """
        return asked

    async def check_open(self) -> None:  # noqa: B027 - in the legacy era a round does not end before its body
        """Cancel whoever still speaks for a round that has ended; every call of ``Context`` comes here."""

    def let_go(self) -> None:  # noqa: B027 - not every engine holds itself
        """The round has ended: forget what makes a cycle."""

    def _refuse_when_over(self, what: str) -> None:
        """A task that outlives the body can neither ask nor take effects: nobody would hear of it."""
        if self._is_over:
            raise NotSupportedHere(f"{what} after the call has ended; await the tasks that you start")

    # -- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, question: Question) -> Any:
        """Ask, and return what `Question.read` made of the answer.

        Raises:
            CapabilityNotDeclared: the client cannot be asked this; in the modern era also an `MCPError` (-32021).
            AmbiguousKey: another branch is asking under the same key.
            InvalidAnswer, QuestionExpired: no usable answer came.
            NotSupportedHere: inside a step, or after the call has ended.
        """
        await self.check_open()
        self._refuse_when_over(question.method)
        self._refuse_in_step(question.method)
        self._check_declared(question)
        digest = question.content_digest()
        base = current_scope() + question_base(question.key, question.method, digest)
        if question.shared and base in self._asking:
            return await self._join(base)
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
        """Return the answer to a shared question that another branch is asking."""

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
        """Run ``function`` once per logical call; its result is the recorded one in every later round.

        The result is JSON from the first round on, so that it cannot differ between rounds.

        Args:
            name: unique among the steps that run at the same time in a scope.
            function: sync (runs in a thread) or async.
            args, kwargs: JSON-shaped; a recorded step that is called with others is refused.
            once: with a store: at most once even when the same round is sent twice at the same time.

        Raises:
            StepFailed: it raised, now or when it was recorded.
            NonDeterminismError: recorded with other arguments, or new before the recorded rounds were replayed.
            StepInDoubt: ``once``, begun elsewhere, outcome unknown.
            NotSupportedHere: inside another step, or after the call has ended.
        """
        await self.check_open()
        check_key(name)
        self._refuse_when_over(f"The step {name!r}")

        async def run() -> Any:
            return await _call(function, args, kwargs, self.settings)

        around = in_step.get()
        if around is not None and around.is_check and not once:
            return await run()  # what the check returns is recorded, and this is part of it
        self._refuse_in_step(f"The step {name!r}")
        base = f"{current_scope()}step:{name}"
        if base in self._stepping:
            raise AmbiguousKey(f"Two branches run the step {name!r} at once; use ctx.scope or ctx.gather")
        return await self._recorded(base, StepCall("", content_digest([args, kwargs]), name, run, once))

    async def check_done(self, question: Question, done: Callable[[], Awaitable[bool]]) -> bool:
        """Ask the author's ``done`` once per logical call and visit; later rounds return what it said then.

        Args:
            question: the page; the check is recorded under its key.
            done: whether the page was completed.

        Raises:
            StepFailed: it raised, now or when it was recorded.
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
        """Seconds that a ``once`` step is marked: as long as any state of this call can be sent again."""
        return self.settings.state.max_s

    async def run_step(self, call: StepCall) -> Entry:
        """Run a step that is not recorded and record what comes of it. Never raises but when cancelled from outside."""
        mark = f"{self.journal.call_id}/{call.key}"
        marks = self.settings.marks if call.once else None
        outcome = None if marks is None else await self._claim(marks, mark)
        if outcome is None:
            outcome = await self._outcome(call)
            if marks is not None:
                try:
                    await marks.finish(mark, encode(outcome), ttl_s=self.mark_ttl_s)
                except Exception:  # it ran: this chain of rounds records it, other forks stay in doubt
                    logger.exception("The outcome of the step %r could not be marked in the store", call.name)
        if call.abandoned_after_s is not None:
            return self.record_abandoned(call)
        entry = Entry(self.journal.next_sequence(), outcome[0], call.digest, outcome[1])
        self.journal.entries[call.key] = entry
        return entry

    def record_abandoned(self, call: StepCall) -> Entry:
        """Record that the body did not get the outcome of a step, whatever that is or was."""
        known = self.journal.entries.get(call.key)
        sequence = self.journal.next_sequence() if known is None else known.sequence
        entry = Entry(sequence, "abandoned", call.digest, call.abandoned_after_s, consumed=True)
        self.journal.entries[call.key] = entry
        return entry

    async def _outcome(self, call: StepCall) -> tuple[EntryKind, Any]:
        token = in_step.set(call)
        watch = Interruptible()
        try:
            # Through JSON and back, so that the first round sees exactly what the later ones will.
            return "step", decode(encode(await run_interruptible(call.run(), watch)))
        except BaseException as error:
            failure = failure_of(error, watch)
            logger.error("The step %r failed", call.name, exc_info=failure)
            is_exit = isinstance(failure, BodyExit)  # whose text says what it stands for
            text = str(failure) if is_exit else f"{type(failure).__name__}: {failure}"
            del failure  # its traceback holds this frame
            return "step_failed", text
        finally:
            watch.interruption = None
            in_step.reset(token)

    async def _claim(self, marks: OneTimeMarks, mark: str) -> tuple[EntryKind, Any] | None:
        """``None`` if the step is ours to run, else the outcome that somebody else recorded."""
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
        """Return a recorded step's result; raises what it failed with."""
        if entry.kind == "step":
            return entry.value
        if entry.kind == "in_doubt":
            raise StepInDoubt(f"The step {name!r} was begun elsewhere; whether it took effect is not known")
        raise StepFailed(name, str(entry.value))

    @staticmethod
    def check_same_arguments(call: StepCall, entry: Entry) -> None:
        """Refuse a recorded step that is called with other arguments."""
        if entry.digest != call.digest:
            raise NonDeterminismError(f"The step {call.name!r} was recorded with other arguments; it is not run again")

    # -- branches -------------------------------------------------------------------------------------------------

    def next_gather(self) -> str:
        """Return the scope of the next `gather` in the present scope."""
        scope = current_scope()
        return self._gathers.next(f"{scope}gather:1").removeprefix(scope).replace(":1#", ":")

    @abstractmethod
    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Run branches at once, each in a scope of its own; wait for all; raise the first failure by index."""

    # -- the end --------------------------------------------------------------------------------------------------

    @abstractmethod
    async def settle(self, value: Any) -> Any:
        """Return the body returned: its value, or what this round answers instead."""

    @abstractmethod
    async def settle_error(self, error: BaseException) -> Any:
        """Raise the error that the body raised, or return the result that this round has instead."""


class PushRounds(Rounds):
    """Legacy: a question is a request to the client, and the body waits for it."""

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
                logger.info("An answer to %s does not fit and is asked for again: %s", question.method, error)
        raise AssertionError("unreachable")

    async def _send(self, question: Question, options: CallOptions) -> Any:
        with anyio.CancelScope() as scope:  # a question that outlives the body is withdrawn
            self._asked.add(scope)
            try:
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
        await yield_to_loop(self.request.session)  # on trio the step itself may do without
        entry = await (self.run_step(call) if call.is_check else _shielded(self.run_step(call)))
        return self.outcome_of(call.name, entry)

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """See `Rounds.gather`; on any event loop."""
        if self._is_over:
            close_all(awaitables)
        self._refuse_when_over("gather")
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
        """Withdraw what nobody waits for any more."""
        self._end()
        return value

    async def settle_error(self, error: BaseException) -> Any:
        """As `settle`; raises the error."""
        self._end()
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def _end(self) -> None:
        self._is_over = True
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
    """After three answers that do not fit."""
    return InvalidAnswer(f"The client answered {question.method} {MAX_REFUSED_ANSWERS} times with a misfit: {error}")


def close_all(awaitables: tuple[Awaitable[Any], ...]) -> None:
    """Spare coroutines that will not run the warning that nobody awaited them."""
    for awaitable in awaitables:
        if hasattr(awaitable, "close"):  # a coroutine; a task or future needs nothing
            cast("Coroutine[Any, Any, Any]", awaitable).close()


async def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], settings: RoundsSettings
) -> Any:
    """Return a sync function in a thread, an async one here."""
    from inspect import iscoroutinefunction

    if iscoroutinefunction(function):
        return await function(*args, **kwargs)
    # A pool of the steps' own: sync tools hold the threads of the other one while they wait for their steps.
    result = await settings.threads.run(lambda: function(*args, **kwargs), {})
    return await result if hasattr(result, "__await__") else result  # a plain function that wraps an async one


async def _shielded(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run to the end whatever happens to the caller; a cancelled caller waits and is then cancelled."""
    from ferrule.kernel.concurrency.spawner import is_asyncio

    if not is_asyncio():
        with anyio.CancelScope(shield=True):
            return await coroutine
    import asyncio

    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # cancelled once more, it waits once more
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved: nobody else will
        raise
