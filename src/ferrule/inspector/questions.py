"""Requests of the server to the user, until the page answers them.

One question is one event with a form, and the call that caused it waits. A question ends with its call (cancelled,
timed out, connection closed). While `MAX_OPEN` questions are open, further ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.calls.callbacks import SamplingRefused
from ferrule.inspector.errors import BadCall
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_list, is_mapping

if TYPE_CHECKING:
    from ferrule.inspector.feed import Feed

__all__ = ["PendingQuestions"]

MAX_OPEN: Final = 100


class PendingQuestions:
    """The open questions of every connection.

    Args:
        feed: publishes each question.
        server: name of the server.
        answered: called as ``(connection, method, answer)`` for generated code.
    """

    def __init__(self, feed: Feed, server: str, answered: Callable[[str, str, Any], None]) -> None:
        self._feed = feed
        self._server = server
        self._answered = answered
        self._open: dict[str, _Question] = {}
        self._number = 0

    def handlers(self, connection: str) -> dict[str, Any]:
        """Return the options of a client whose questions go to the page."""

        async def elicit(params: Any) -> Any:
            if len(self._open) >= MAX_OPEN:
                return {"action": "cancel"}
            return await self._ask(connection, "elicitation/create", params)

        async def sample(params: Any) -> Any:
            answer = (
                None if len(self._open) >= MAX_OPEN else await self._ask(connection, "sampling/createMessage", params)
            )
            if answer is None:
                raise SamplingRefused
            return answer

        return {
            "elicitation_handler": elicit,
            "elicitation_modes": ("form", "url"),
            "sampling_handler": sample,
            "sampling_tools": True,
        }

    def answer(self, key: str, answer: Mapping[str, Any] | None) -> bool:
        """Answer a question; return whether it was still open.

        Raises:
            BadCall: the content of a form has a value that no answer may have.
        """
        _check_content(answer)
        question = self._open.get(key)
        if question is None:
            return False
        question.answer = answer
        question.answered.set()
        return True

    async def _ask(self, connection: str, method: str, params: Any) -> Any:
        self._number += 1
        key = f"q{self._number}"
        question = self._open[key] = _Question()
        facts = {"connection": connection, "method": method, "server": self._server}
        self._feed.publish_state("question", key, state="open", params=to_builtins(params), **facts)
        outcome = "ended"
        try:
            await question.answered.wait()
            answer = cast("Any", question.answer)
            outcome = "refused" if answer is None else str(answer.get("action", "answered"))
            self._answered(connection, method, answer)
            return answer
        finally:
            del self._open[key]
            self._feed.publish_state("question", key, state=outcome, **facts)


def _check_content(answer: Mapping[str, Any] | None) -> None:
    """Refuse an object in the content of an answer to a form, which the client could not send (2026-07-28)."""
    content: Any = None if answer is None or "action" not in answer else answer.get("content")
    if content is None:
        return
    if not is_mapping(content):
        raise BadCall("The content of an answer is an object")
    for name, value in content.items():
        if is_mapping(value) or (is_list(value) and not all(isinstance(item, str) for item in value)):
            raise BadCall(
                f"An answer has text, numbers, truth values and lists of text; {name[:100]!r} is something else"
            )


class _Question:
    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.answer: Mapping[str, Any] | None = None
