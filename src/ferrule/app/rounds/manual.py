"""Returning input requests by hand: for an author who wants to hold the state himself, or runs on trio.

A function returns `InputRequired`; it is called again with the answers in ``ctx.input_responses`` and what it kept in
``ctx.input_state``. In the legacy era the questions are pushed and the function called again in the same request, so
that this form, too, serves both eras.
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
    """What a tool, prompt or resource function returns to ask by hand.

    Args:
        questions: by the author's keys: a `Question` (made by ``elicit_question`` and its kind), or a mapping with
            ``method`` and ``params`` in wire shape.
        state: any JSON value; comes back in ``ctx.input_state``, sealed on its way through the client.
    """

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
    """The rounds of a call on an event loop where bodies cannot be re-enacted: state only, no questions."""

    def _refuse(self, what: str) -> NoReturn:
        raise NotSupportedHere(f"{what} needs asyncio in the modern era; return InputRequired by hand")

    async def _ask(self, base: str, key: str, digest: str, question: Question) -> Any:
        self._refuse(question.method)

    async def _join(self, base: str) -> Any:
        self._refuse(base)

    async def _step(self, call: StepCall) -> Any:
        self._refuse(f"The step {call.name!r}")

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Not here."""
        self._refuse("gather")

    async def settle(self, value: Any) -> Any:
        """Nothing to add."""
        return value

    async def settle_error(self, error: BaseException) -> Any:
        """Nothing to add."""
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
    """Return the round's answer (modern), or what the function returns once its questions were pushed (legacy).

    Raises:
        CapabilityNotDeclared: the client cannot be asked one of the questions.
        RoundLimitExceeded: it asked too often.
    """
    connection = request.session.connection
    missing = missing_for_requests(connection.client_capabilities_raw, asked.requests())
    if missing is not None:
        raise ClientLacks(missing) if connection.revision.has_rounds else connection.capability_error(missing)
    if connection.revision.has_rounds:
        return await _modern(request, asked)
    return await _legacy(request, asked, function, kwargs)


async def _modern(request: ServerRequestContext[Any], asked: InputRequired) -> InputRequiredResult:
    settings = settings_of(request.server)
    rounds = request.session.rounds
    journal = Rounds.new_journal(settings) if rounds is None else rounds.journal
    journal.round += 1
    if journal.round > settings.max_rounds:
        raise RoundLimitExceeded(f"A call may take {settings.max_rounds} rounds")
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
            answers[key] = await session.send_request(question["method"], question["params"])
        session.manual_answers = answers, asked.state
        value = await function(**kwargs)
        if not isinstance(value, InputRequired):
            return value
        asked = value
    raise RoundLimitExceeded("The call asked for more rounds than allowed")
