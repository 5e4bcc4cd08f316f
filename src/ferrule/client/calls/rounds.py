"""Multi round-trip requests: answer the server's questions and repeat the request until it has a result (2026-07-28).

The state in a server's response is returned unchanged in the next request and in no later one. A response without a
state is followed by a request without one. Answers to earlier rounds are not repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import anyio

from ferrule.client.concurrent import gather
from ferrule.client.errors import BadServerResponse, InputRequiredError, TooManyRounds

__all__ = ["DEFAULT_MAX_ROUNDS", "Answer", "Send", "run_rounds"]

DEFAULT_MAX_ROUNDS: Final = 16
"""Maximum number of rounds of questions in one call: a server could ask for ever."""

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the request with these params (under a new id) and returns its raw result."""

Answer: TypeAlias = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Any]]
"""Answers one question: ``(key, method, params) -> bare result as JSON``."""


def is_input_required(result: Mapping[str, Any]) -> bool:
    """Return whether a raw result is a round of questions."""
    return result.get("resultType") == "input_required"


async def run_rounds(
    method: str, params: dict[str, Any], first: dict[str, Any], send: Send, answer: Answer, *, max_rounds: int
) -> dict[str, Any]:
    """Continue a request from its first round of questions, and return its raw result.

    Args:
        method: the method of the request, for errors.
        params: the request's own params, without answers or state.
        first: the raw `InputRequiredResult`.
        send: repeats the request.
        answer: answers one question; all of a round run at once.
        max_rounds: maximum number of rounds to answer; 0 for none.

    Raises:
        InputRequiredError: ``max_rounds`` is 0.
        TooManyRounds: the server asks again after ``max_rounds`` rounds.
        InputNotProvided: a question could not be answered.
        BadServerResponse: a round has neither questions nor a state, or is malformed.
    """
    result = first
    for round_number in range(max_rounds):
        questions, state = _read(method, result)
        sent = dict(params)
        if questions is not None:
            sent["inputResponses"] = await _answer_all(questions, answer)
        elif round_number:
            # A server under load returns a state without questions; an immediate retry would add to the load.
            await anyio.sleep(min(2.0, 0.05 * 2**round_number))
        if state is not None:
            sent["requestState"] = state
        result = await send(sent)
        if not is_input_required(result):
            return result
    if not max_rounds:
        raise InputRequiredError(method, result)
    raise TooManyRounds(f"{method} still asks for input after {max_rounds} rounds")


def _read(method: str, result: Mapping[str, Any]) -> tuple[Mapping[str, Mapping[str, Any]] | None, str | None]:
    questions, state = result.get("inputRequests"), result.get("requestState")
    if questions is None and state is None:
        raise BadServerResponse(f"The server asks for input to {method} without a question and without a state")
    if state is not None and not isinstance(state, str):
        raise BadServerResponse(f"The server's requestState for {method} is not text")
    if questions is not None and not _are_questions(questions):
        raise BadServerResponse(f"The server's inputRequests for {method} are malformed")
    return cast("Mapping[str, Mapping[str, Any]] | None", questions), state


def _are_questions(questions: Any) -> bool:
    return isinstance(questions, Mapping) and all(
        isinstance(question, Mapping) and isinstance(cast("Mapping[str, Any]", question).get("method"), str)
        for question in cast("Mapping[str, Any]", questions).values()
    )


async def _answer_all(questions: Mapping[str, Mapping[str, Any]], answer: Answer) -> dict[str, Any]:
    async def one(key: str, question: Mapping[str, Any]) -> Any:
        return await answer(key, question["method"], question.get("params"))

    answers = await gather([one(key, question) for key, question in questions.items()])
    return dict(zip(questions, answers, strict=True))
