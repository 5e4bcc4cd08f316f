"""A call to a legacy server whose questions a modern client answers in later requests: it is parked in between.

Its question becomes a round, and the client's next request goes on with it. Parked calls live in this process and for
a bounded time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.wire.codec import encode_str

if TYPE_CHECKING:
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["MAX_PARKED", "PARKED_S", "Parked", "fingerprint_of"]

PARKED_S: Final = 300.0
"""Seconds that a call waits for the answer to a question that became a round."""
MAX_PARKED: Final = 1024
"""Calls of one proxy that may wait for answers."""


class Parked:
    """One such call.

    Attributes:
        fingerprint: of the request; only its like may go on with the call.
        party: the principal whose call it is; for anyone else it does not exist.
        ctx: the request that is being served; ``None`` while nobody is.
        turned: set when there is a result, an error, or a question.
        scope: ends the call.
    """

    def __init__(self, fingerprint: str, party: Any = None) -> None:
        self.fingerprint = fingerprint
        self.party = party
        self.ctx: ServerRequestContext[Any] | None = None
        self.turned = anyio.Event()
        self.result: dict[str, Any] | None = None
        self.error: Exception | None = None
        self.scope = anyio.CancelScope()
        self._asked: dict[str, tuple[str, dict[str, Any] | None, _Answer]] = {}
        self._number = 0

    def begin(self, ctx: ServerRequestContext[Any]) -> None:
        """A request from before is being served."""
        self.ctx = ctx
        self.turned = anyio.Event()
        self.scope.deadline = float("inf")

    def resume(self, ctx: ServerRequestContext[Any], answers: Mapping[str, Any]) -> None:
        """The client came back with answers; unanswered questions are asked again."""
        self.begin(ctx)
        for key in [key for key in self._asked if key in answers]:
            self._asked.pop(key)[2].settle(answers[key])
        if self._asked:
            self._turn()

    async def ask(self, method: str, params: dict[str, Any] | None) -> Any:
        """A question from behind: wait until the client has come back with its answer."""
        self._number += 1
        answer = _Answer()
        self._asked[f"q{self._number}"] = (method, params, answer)
        self._turn()
        return await answer.wait()

    def questions(self) -> dict[str, Any]:
        """What is open, as input requests."""
        return {
            key: {"method": method} if params is None else {"method": method, "params": params}
            for key, (method, params, _) in self._asked.items()
        }

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress goes to the request that is being served, if it asked for it."""
        if self.ctx is not None:
            await self.ctx.session.progress(progress, total, message)

    def abandon(self) -> None:
        """Nobody waits any more."""
        self.scope.cancel()

    def _turn(self) -> None:
        self.ctx = None
        self.scope.deadline = anyio.current_time() + PARKED_S
        self.turned.set()


class _Answer:
    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: Any = None

    def settle(self, value: Any) -> None:
        """Hand it over."""
        self._value = value
        self._event.set()

    async def wait(self) -> Any:
        """Wait for it."""
        await self._event.wait()
        return self._value


def fingerprint_of(method: str, params: Mapping[str, Any]) -> str:
    """One text for a request without its answers and its state."""
    return encode_str([method, dict(sorted(params.items()))])
