"""The part of ``Context`` that asks: questions, steps and what goes with them.

One body serves both eras. In the legacy era a question is a request to the client. In the modern era the call ends,
the client answers and calls again, and the body runs again from its start up to the question. So: code outside
``step`` runs once per round; ask first, take effect last, and take effects in ``step``. While a round ends, the body
is cancelled: ``finally`` runs each round (`suspending` tells), and a transaction around a question is rolled back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ferrule.app.in_threads import with_result, without_result
from ferrule.app.rounds.run import rounds_of
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.protocol.deprecations import warn_deprecated

if TYPE_CHECKING:
    import random

    from ferrule.app.rounds.base import Rounds, TaskSide
    from ferrule.app.rounds.questions import Elicited, Question
    from ferrule.kernel.server import ServerRequestContext
    from ferrule.wire.types import CreateMessageResult, Root

__all__ = ["InteractionMixin"]

T = TypeVar("T")

MAX_VISITS = 20
"""How often ``elicit_url`` sends the user to a page that is not ``done``."""


class InteractionMixin:
    """Base of ``Context``; needs nothing but ``request``."""

    __slots__ = ()

    if TYPE_CHECKING:
        request: ServerRequestContext[Any]

    @property
    def _rounds(self) -> Rounds:
        return rounds_of(self.request)

    async def _check_open(self) -> None:
        """Every call of a body that is being unwound yields once and is cancelled."""
        rounds = self.request.session.rounds
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
        """Ask the user to fill in a form.

        Args:
            message: what is asked, for the user.
            wanted: a class with primitive fields, a scalar type, an enum or ``Literal``, or a form schema.
            key: a stable name for the question; needed when two branches ask the same at once.
            timeout_s: seconds after which `QuestionExpired` is raised.

        Returns:
            ``.action`` (accept, decline or cancel) and, if accepted, ``.data``.

        Raises:
            CapabilityNotDeclared: the client cannot ask its user.
            TypeError: ``wanted`` has a field that no form can show.
        """
        from ferrule.app.rounds.questions import elicit_question

        answer: Elicited[Any] = await self._rounds.ask(elicit_question(message, wanted, key=key, timeout_s=timeout_s))
        return answer

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
        """Ask the user to open a page, for what must not pass through the client (credentials, payments).

        Accepting is consent to open it, not completion.

        Args:
            message: why, for the user.
            url: holds no secret of the user and is not pre-authenticated; https.
            done: whether the page was completed; called after each visit, once per call as a step is. The user is
                asked again while it returns false. It may not ask.
            key, timeout_s: as in `elicit`.

        Returns:
            ``.action``: accept, decline or cancel.

        Raises:
            CapabilityNotDeclared: the client cannot show a page.
            StepFailed: ``done`` raised.
            TimeoutError: the page was opened 20 times and not completed.
        """
        from ferrule.app.rounds.questions import elicit_url_question

        rounds = self._rounds
        needs_id = self.request.revision.has_url_elicitation_error
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
        """Ask the client's model for one message (deprecated by the protocol since 2026-07-28, and still served).

        Args:
            messages: one user text, or sampling messages.
            max_tokens: a limit the client must respect.
            include_context: other than ``"none"``, a wish that the client may ignore; left out where it does not
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
        if not request.revision.sampling_tools:  # before there was something to declare
            return True
        sampling = request.session.client_capabilities.sampling
        return isinstance(sampling, Mapping) and sampling.get("context") is not None

    @with_result
    async def roots(self, *, key: str | None = None, timeout_s: float | None = None) -> list[Root]:
        """Return the folders that the client works in (deprecated by the protocol since 2026-07-28, and still served).

        Branches that ask at the same time ask once.

        Raises:
            CapabilityNotDeclared: the client has none to tell.
        """
        from ferrule.app.rounds.questions import roots_question

        warn_deprecated("roots")
        answer: list[Root] = await self._rounds.ask(roots_question(key=key, timeout_s=timeout_s))
        return answer

    @with_result
    async def ask(self, question: Question) -> Any:
        """Ask a `Question` made elsewhere."""
        return await self._rounds.ask(question)

    # -- effects --------------------------------------------------------------------------------------------------

    @with_result
    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, once: bool = False, **kwargs: Any
    ) -> Any:
        """Run ``function(*args, **kwargs)`` once per logical call, however many rounds it takes.

        The result is JSON, and in later rounds the recorded one. Without a store that is once per *chain of rounds*:
        a client that sends the same retry twice at the same time runs it twice. ``once=True`` with a store is at most
        once; the best protection without one is `idempotency_key`.

        Raises:
            StepFailed: it raised (now, or when it was recorded).
            NonDeterminismError: it was recorded with other arguments.
            StepInDoubt: ``once``, and begun elsewhere with an unknown outcome.
        """
        return await self._rounds.step(name, function, *args, once=once, **kwargs)

    def idempotency_key(self, name: str) -> str:
        """Return a key for a third party, equal in every round and fork of this call: pass it to a payment provider."""
        return self._rounds.idempotency_key(name)

    # -- tasks ----------------------------------------------------------------------------------------------------

    @with_result
    async def begin_task(self) -> str | None:
        """From here on this call is a task, if it can be one (``task=`` of the tool, and the client's support).

        Questions before it are rounds of the call; later ones wait in the task. Without tasks nothing happens and the
        call goes on as it is.

        Returns:
            The task's id; ``None``: it is no task.
        """
        await yield_to_loop(self.request.session)
        side = self._task_side
        return None if side is None else await side.begin()

    @without_result
    async def set_status(self, message: str | None) -> None:
        """Say how the task stands, for people and models; does nothing where the call is no task."""
        await self._check_open()
        await yield_to_loop(self.request.session)
        side = self._task_side
        if side is not None:
            await side.set_status(message)

    @property
    def task_id(self) -> str | None:
        """The id of the task that this call is; ``None`` when it is none (yet)."""
        side = self._task_side
        return None if side is None else side.task_id

    @property
    def _task_side(self) -> TaskSide | None:
        rounds: Rounds | None = self.request.session.rounds
        return None if rounds is None else rounds.side

    # -- branches -------------------------------------------------------------------------------------------------

    @with_result
    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Run branches that ask at the same time: each in a scope of its own, all waited for, the first failure by
        index raised. Their questions form one round.
        """
        return await self._rounds.gather(*awaitables)

    def scope(self, name: str) -> AbstractContextManager[None]:
        """``with ctx.scope("a"):`` gives the questions and steps inside names of their own."""
        from ferrule.app.rounds.keys import check_key, scoped

        return scoped(check_key(name))

    # -- facts ----------------------------------------------------------------------------------------------------

    @property
    def suspending(self) -> bool:
        """Whether this round has ended and the body is only unwinding; look at it in ``finally``."""
        rounds = self.request.session.rounds
        return rounds is not None and rounds.suspending

    @property
    def replaying(self) -> bool:
        """Whether the body has not yet come to where the round before stopped."""
        rounds = self.request.session.rounds
        return rounds is not None and rounds.replaying

    @property
    def started_at(self) -> float:
        """Seconds since the epoch of the call's first round; equal in every round."""
        return self._rounds.started_at

    def random(self) -> random.Random:
        """Return a generator whose sequence is equal in every round; not for secrets."""
        return self._rounds.random()

    @property
    def input_responses(self) -> Mapping[str, Any]:
        """The raw answers to the questions of an `InputRequired` that this function returned; empty at first."""
        session = self.request.session
        if session.manual_answers is not None:
            return session.manual_answers[0]
        # Params of tools, prompts and resources have it; what else may stand here is of an author's own type.
        return getattr(self.request.params, "input_responses", None) or {}

    def answer_to(self, key: str, question: Question) -> Any:
        """Return what the client answered to a question of an `InputRequired` that this function returned.

        Any answer that fits is taken, also one that nobody was asked for: look at `input_state` where that matters.

        Args:
            key: the question's key in `InputRequired`.
            question: the same question, made anew.

        Returns:
            What `elicit`, `sample` or `roots` would return; ``None``: there is no answer yet, or none that fits, and
            the function asks (again).
        """
        from ferrule.app.rounds.questions import MisfitAnswer

        answers = self.input_responses
        try:
            return question.read(answers[key]) if key in answers else None
        except MisfitAnswer:
            return None

    @property
    def input_state(self) -> Any:
        """What this function kept in ``InputRequired.state``; ``None`` at first."""
        session = self.request.session
        if session.manual_answers is not None:
            return session.manual_answers[1]
        return None if session.rounds is None else session.rounds.journal.manual
