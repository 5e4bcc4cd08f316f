"""The part of ``Context`` for interaction with the user, the model and the host: questions, steps, branches, tasks.

One body serves both eras. In the legacy era a question is a request to the client. In the modern era the call ends with
input requests, the client calls again with the answers, and the body runs again from its start up to the question.
Therefore code outside ``step`` runs once in each round: ask first, take effect last, and take effects in ``step``. When
a round ends, the body is cancelled: ``finally`` runs in each round (see `suspending`), and a transaction around a
question is rolled back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ferrule.app.in_threads import with_result, without_result
from ferrule.app.rounds.body import body_of, engine_of
from ferrule.app.rounds.run import rounds_of
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.protocol.deprecations import warn_deprecated

if TYPE_CHECKING:
    import random

    from ferrule.app.rounds.base import Rounds, TaskOfCall
    from ferrule.app.rounds.questions import Elicited, Question
    from ferrule.kernel.server import ServerRequestContext
    from ferrule.wire.types import CreateMessageResult, Root

__all__ = ["InteractionMixin"]

T = TypeVar("T")

# Otherwise a client that accepts each time without opening the page would keep the call running for ever.
MAX_VISITS = 20
"""How often ``elicit_url`` asks the user to open a page that is not ``done``."""


class InteractionMixin:
    """Base class of ``Context``; it uses only ``request``."""

    __slots__ = ()

    if TYPE_CHECKING:
        request: ServerRequestContext[Any]

    @property
    def _rounds(self) -> Rounds:
        return rounds_of(self.request)

    async def _check_open(self) -> None:
        """Raise a cancellation if the round of this call has ended."""
        rounds = engine_of(self.request.session)
        if rounds is not None:
            await rounds.check_open()

    # -- questions ------------------------------------------------------------------------------------------------

    @overload
    async def elicit(
        self, message: str, wanted: type[T], *, key: str | None = None, timeout_s: float | None = None
    ) -> Elicited[T]: ...

    @overload
    async def elicit(
        self, message: str, wanted: Mapping[str, Any], *, key: str | None = None, timeout_s: float | None = None
    ) -> Elicited[dict[str, Any]]: ...

    @overload
    async def elicit(
        self, message: str, wanted: Any, *, key: str | None = None, timeout_s: float | None = None
    ) -> Elicited[Any]: ...

    @with_result
    async def elicit(
        self, message: str, wanted: Any, *, key: str | None = None, timeout_s: float | None = None
    ) -> Elicited[Any]:
        """Ask the user to fill in a form ("Elicitation").

        Args:
            message: the question, shown to the user.
            wanted: a class with primitive fields, a scalar type, an enum or ``Literal``, or a form schema.
            key: a stable name for the question; needed when two branches ask the same at once.
            timeout_s: seconds after which `QuestionExpired` is raised.

        Returns:
            ``.action`` (accept, decline or cancel) and, if accepted, ``.data``.

        Raises:
            CapabilityNotDeclared: the client did not declare forms.
            TypeError: ``wanted`` has a field that no form can show.
            InvalidAnswer: three answers did not fit.
            QuestionExpired: no answer came within ``timeout_s``.
        """
        from ferrule.app.rounds.questions import elicit_question

        answer: Elicited[Any] = await self._rounds.ask(elicit_question(message, wanted, key=key, timeout_s=timeout_s))
        return answer

    @with_result
    async def confirm(self, message: str, *, key: str | None = None, timeout_s: float | None = None) -> bool:
        """Ask the user a question with yes or no, such as ``"Delete note 3?"``.

        Args:
            message: the question, shown to the user.
            key, timeout_s: as in `elicit`.

        Returns:
            Whether the user said yes; ``False`` also for a user who declined or dismissed the question.

        Raises:
            CapabilityNotDeclared, InvalidAnswer, QuestionExpired: see `elicit`.
        """
        from ferrule.app.rounds.questions import CONFIRMATION, elicit_question

        answer = await self._rounds.ask(elicit_question(message, CONFIRMATION, key=key, timeout_s=timeout_s))
        return bool(answer) and answer.data["confirm"] is True

    @with_result
    async def choose(
        self,
        message: str,
        choices: Mapping[str, str] | Sequence[str],
        *,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> str | None:
        """Ask the user to choose one of several values.

        Args:
            message: the question, shown to the user.
            choices: value → label that the user sees, or values that are their own labels.
            key, timeout_s: as in `elicit`.

        Returns:
            The value; ``None`` if the user declined or dismissed the question.

        Raises:
            ValueError: there are no choices.
            CapabilityNotDeclared, InvalidAnswer, QuestionExpired: see `elicit`.
        """
        from ferrule.app.rounds.questions import choice_form, elicit_question

        answer = await self._rounds.ask(elicit_question(message, choice_form(choices), key=key, timeout_s=timeout_s))
        return str(answer.data["choice"]) if answer else None

    @with_result
    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        done: Callable[[], Awaitable[bool]] | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Elicited[None]:
        """Ask the user to open a page, for data that must not pass through the client (credentials, payments).

        Accepting is consent to open the page, not its completion.

        Args:
            message: the reason, shown to the user.
            url: an https URL without secrets of the user, not pre-authenticated.
            done: returns whether the page was completed; called after each visit, and recorded like a step. The user is
                asked again while it returns ``False``. It must not ask questions.
            key, timeout_s: as in `elicit`.

        Returns:
            ``.action``: accept, decline or cancel.

        Raises:
            CapabilityNotDeclared: the client did not declare URLs.
            StepFailed: ``done`` raised.
            TimeoutError: the page was opened 20 times and not completed.
        """
        from ferrule.app.rounds.questions import elicit_url_question

        rounds = self._rounds
        # `elicitationId` exists in 2025-11-25 only, where it names the page in a later notification.
        needs_id = self.request.revision.has_url_elicitation_error
        # Derived and not random: it must be the same in each round.
        elicitation_id = rounds.idempotency_key(rounds.next_page()) if needs_id else None
        for _ in range(MAX_VISITS):
            question = elicit_url_question(message, url, elicitation_id=elicitation_id, key=key, timeout_s=timeout_s)
            answer: Elicited[None] = await rounds.ask(question)
            if not answer.accepted or done is None or await rounds.check_done(question, done):
                return answer
        raise TimeoutError(f"The page was opened {MAX_VISITS} times and not completed")

    @with_result
    async def sample(
        self,
        messages: str | Sequence[Any],
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: Any = None,
        include_context: str | None = None,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> CreateMessageResult:
        """Return one message of the client's model ("Sampling"; deprecated since 2026-07-28, and still served).

        Args:
            messages: one user text, or sampling messages.
            max_tokens: a limit that the client must respect.
            include_context: other than ``"none"``, a hint that the client may ignore; left out where it does not
                declare ``sampling.context`` (2025-11-25 on).
            tools: definitions that the model may use; the client must have declared ``sampling.tools``.
            key, timeout_s: as in `elicit`.

        Raises:
            CapabilityNotDeclared: the client offers no sampling, or none with tools; its revision has none with tools
                (`NotInRevision`).
        """
        from ferrule.app.rounds.questions import sample_question

        warn_deprecated("sampling")
        question = sample_question(
            messages,
            max_tokens=max_tokens,
            key=key,
            timeout_s=timeout_s,
            systemPrompt=system_prompt,
            temperature=temperature,
            stopSequences=None if stop_sequences is None else list(stop_sequences),
            modelPreferences=model_preferences,
            includeContext=include_context if self._may_include_context else None,
            tools=None if tools is None else list(tools),
            toolChoice=tool_choice,
            metadata=metadata,
        )
        answer: CreateMessageResult = await self._rounds.ask(question)
        return answer

    @property
    def _may_include_context(self) -> bool:
        request = self.request
        if not request.revision.sampling_tools:  # the revision has no `sampling.context` capability
            return True
        sampling = request.session.client_capabilities.sampling
        return isinstance(sampling, Mapping) and sampling.get("context") is not None

    @with_result
    async def roots(self, *, key: str | None = None, timeout_s: float | None = None) -> list[Root]:
        """Return the client's root folders ("Roots"; deprecated since 2026-07-28, and still served).

        Concurrent branches send one request.

        Raises:
            CapabilityNotDeclared: the client did not declare roots.
        """
        from ferrule.app.rounds.questions import roots_question

        warn_deprecated("roots")
        answer: list[Root] = await self._rounds.ask(roots_question(key=key, timeout_s=timeout_s))
        return answer

    @with_result
    async def ask(self, question: Question) -> Any:
        """Ask a question, and return the answer as `Question.read` converts it; for errors see `elicit`."""
        return await self._rounds.ask(question)

    # -- effects --------------------------------------------------------------------------------------------------

    @with_result
    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, once: bool = False, **kwargs: Any
    ) -> Any:
        """Run ``function(*args, **kwargs)`` once in a call, whatever its number of rounds, and return its result.

        The result is a JSON value; later rounds return the recorded one. Without a store it runs once in each *chain of
        rounds*: if a client sends the same round twice at the same time, it runs twice. With ``once=True`` and a store
        it runs at most once; without a store, `idempotency_key` is the best protection.

        Raises:
            StepFailed: the function raised, now or when it was recorded.
            NonDeterminismError: it was recorded with other arguments.
            StepInDoubt: with ``once``, another process began it and the outcome is not known.
        """
        return await self._rounds.step(name, function, *args, once=once, **kwargs)

    def idempotency_key(self, name: str) -> str:
        """Return a key that is equal in all rounds and forks of this call, for example for a payment provider."""
        return self._rounds.idempotency_key(name)

    # -- tasks ----------------------------------------------------------------------------------------------------

    @with_result
    async def begin_task(self) -> str | None:
        """Make this call a task from here on, if the tool (``task=``) and the client support tasks.

        Questions before it are rounds of the call; later ones wait in the task. Without support nothing happens, and
        the call continues.

        Returns:
            The task's id; ``None`` if the call is not a task.
        """
        await yield_to_loop(self.request.session)
        side = self._task_of_call
        return None if side is None else await side.begin()

    @without_result
    async def set_status(self, message: str | None) -> None:
        """Set the task's status message, for people and models; do nothing if the call is not a task."""
        await self._check_open()
        await yield_to_loop(self.request.session)
        side = self._task_of_call
        if side is not None:
            await side.set_status(message)

    @property
    def task_id(self) -> str | None:
        """The id of the task that this call is; ``None`` if it is not a task (yet)."""
        side = self._task_of_call
        return None if side is None else side.task_id

    @property
    def _task_of_call(self) -> TaskOfCall | None:
        rounds = engine_of(self.request.session)
        return None if rounds is None else rounds.task

    # -- branches -------------------------------------------------------------------------------------------------

    @with_result
    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Run branches concurrently, each in its own scope; wait for all and return their results.

        Their questions form one round.

        Raises:
            Exception: the exception of the failed branch with the lowest index.
        """
        return await self._rounds.gather(*awaitables)

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager that puts the keys of questions and steps inside it under a scope.

        Raises:
            RoundsError: ``name`` is not a valid key.
        """
        from ferrule.app.rounds.keys import check_key, scoped

        return scoped(check_key(name))

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def suspending(self) -> bool:
        """Whether this round has ended and the body is only unwinding; for use in ``finally``."""
        rounds = engine_of(self.request.session)
        return rounds is not None and rounds.suspending

    @property
    def replaying(self) -> bool:
        """Whether the body has not yet reached the point where the round before ended."""
        rounds = engine_of(self.request.session)
        return rounds is not None and rounds.replaying

    @property
    def started_at(self) -> float:
        """Time of the call's first round, in seconds since the epoch; equal in each round."""
        return self._rounds.started_at

    def random(self) -> random.Random:
        """Return a random generator with the same sequence in each round; not for secrets."""
        return self._rounds.random()

    @property
    def input_responses(self) -> Mapping[str, Any]:
        """The raw answers to the questions of an `InputRequired` that this function returned; empty at first."""
        body = body_of(self.request.session)
        if body is not None and body.manual_answers is not None:
            return body.manual_answers[0]
        # Params of tools, prompts and resources have the field; params of a method of the author's may not.
        return getattr(self.request.params, "input_responses", None) or {}

    def answer_to(self, key: str, question: Question) -> Any:
        """Return the client's answer to a question of an `InputRequired` that this function returned.

        Any answer that fits is accepted, even if the question was not asked: if that matters, check `input_state`.

        Args:
            key: the question's key in `InputRequired`.
            question: an equal question.

        Returns:
            The value that `elicit`, `sample` or `roots` would return; ``None`` if there is no answer, or none that
            fits: the function then asks (again).
        """
        from ferrule.app.rounds.questions import MisfitAnswer

        answers = self.input_responses
        try:
            return question.read(answers[key]) if key in answers else None
        except MisfitAnswer:
            return None

    @property
    def input_state(self) -> Any:
        """The value of ``InputRequired.state`` that this function returned before; ``None`` at first."""
        body = body_of(self.request.session)
        if body is None:
            return None
        if body.manual_answers is not None:
            return body.manual_answers[1]
        return None if body.rounds is None else body.rounds.journal.manual
