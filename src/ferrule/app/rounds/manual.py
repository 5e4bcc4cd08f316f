"""Returning input requests explicitly: for functions that keep their own state, or run on trio.

A function returns `InputRequired`; it is called again with the answers in ``ctx.input_responses`` and its state in
``ctx.input_state``. In the legacy era the questions are sent to the client and the function is called again within the
same request, so that such a function serves both eras.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast

from ferrule.app.rounds.base import Rounds, StepCall
from ferrule.app.rounds.errors import ClientLacks, NotSupportedHere, RoundLimitExceeded
from ferrule.app.rounds.questions import Question
from ferrule.app.rounds.settings import settings_of
from ferrule.app.rounds.state import seal_state
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.capabilities import missing_for_requests
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.types import InputRequiredResult

__all__ = ["InputRequired", "ManualRounds", "answer_manually"]


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The return value of a tool, prompt or resource function that asks questions and is called again.

    Args:
        questions: by keys of the author: a `Question` (made by ``elicit_question`` and similar functions), or a mapping
            with ``method`` and ``params`` in wire shape.
        state: any JSON value; the next call has it in ``ctx.input_state``. It passes through the client sealed.
    """

    # By this marker `run_body` finds it without importing this module.
    is_input_required: ClassVar[bool] = True

    questions: Mapping[str, Question | Mapping[str, Any]] = field(default_factory=dict[str, Any])
    state: Any = None

    def requests(self) -> dict[str, dict[str, Any]]:
        """Return the questions in wire shape."""
        return {
            key: {"method": asked.method, "params": asked.params or {}}
            if isinstance(asked, Question)
            else cast("dict[str, Any]", to_builtins(asked))
            for key, asked in self.questions.items()
        }


class ManualRounds(Rounds):
    """The rounds of a modern call on an event loop other than asyncio, where replay does not work: state only."""

    def _refuse(self, what: str) -> NoReturn:
        raise NotSupportedHere(f"{what} needs asyncio in the modern era; return InputRequired instead")

    async def _ask(self, base: str, key: str, digest: str, question: Question) -> Any:
        self._refuse(question.method)

    async def _join(self, base: str) -> Any:
        self._refuse(base)

    async def _step(self, call: StepCall) -> Any:
        self._refuse(f"The step {call.name!r}")

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Refuse the call.

        Raises:
            NotSupportedHere: always.
        """
        self._refuse("gather")

    async def settle(self, value: Any) -> Any:
        """Return the body's result."""
        return value

    async def settle_error(self, error: BaseException) -> Any:
        """Raise the error."""
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


async def answer_manually(
    request: ServerRequestContext[Any],
    asked: InputRequired,
    function: Callable[..., Awaitable[Any]],
    kwargs: dict[str, Any],
) -> Any:
    """Return the result for a function that returned `InputRequired`.

    Modern era: an ``input_required`` result. Legacy era: the questions are sent to the client, and the function is
    called with the answers until it returns another value.

    Raises:
        CapabilityNotDeclared: the client lacks a capability for one of the questions.
        RoundLimitExceeded: the function returned questions too often.
    """
    connection = request.session.connection
    # All of them before the first is sent: half of the questions would be useless to the function.
    missing = missing_for_requests(connection.client_capabilities_raw, asked.requests())
    if missing is not None:
        raise ClientLacks(missing) if connection.revision.has_rounds else connection.capability_error(missing)
    if connection.revision.has_rounds:
        return await _modern(request, asked)
    return await _legacy(request, asked, function, kwargs)


async def _modern(request: ServerRequestContext[Any], asked: InputRequired) -> InputRequiredResult:
    settings = settings_of(request.server)
    body = request.session.body
    rounds: Rounds | None = None if body is None else body.rounds
    # The same journal in each round, so that `max_rounds` counts the whole call.
    journal = Rounds.new_journal(settings) if rounds is None else rounds.journal
    journal.round += 1
    if journal.round > settings.max_rounds:
        raise RoundLimitExceeded(f"A call may take {settings.max_rounds} rounds")
    # As JSON now: an error of the author's value must be raised here and not when the state is sealed.
    journal.manual = to_builtins(asked.state)
    answer: dict[str, Any] = {"resultType": "input_required"}
    if asked.questions:
        answer["inputRequests"] = asked.requests()
    answer["requestState"] = await seal_state(request, settings, journal)
    return convert(answer, InputRequiredResult)


async def _legacy(
    request: ServerRequestContext[Any],
    asked: InputRequired,
    function: Callable[..., Awaitable[Any]],
    kwargs: dict[str, Any],
) -> Any:
    session = request.session
    for _ in range(settings_of(request.server).max_rounds):
        answers: dict[str, Any] = {}
        for key, question in asked.requests().items():
            # One after the other, in the author's order: many clients show one form at a time.
            answers[key] = await session.send_request(question["method"], question["params"])
        session.body.manual_answers = answers, asked.state
        value = await function(**kwargs)
        if not isinstance(value, InputRequired):
            return value
        asked = value
    raise RoundLimitExceeded("The call needs more rounds than allowed")
