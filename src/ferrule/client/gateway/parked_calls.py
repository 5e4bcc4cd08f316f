"""A call to a legacy server whose requests a modern client answers in later requests: it is suspended in between.

A request of the server becomes an ``input_required`` result, and the client's next request continues the call. Parked
calls exist in this process only, and for a bounded time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.wire.codec import encode_str

if TYPE_CHECKING:
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["MAX_PARKED", "PARKED_S", "ParkedCall", "fingerprint_of"]

PARKED_S: Final = 300.0
"""Seconds that a call waits for the client to come back with an answer."""
MAX_PARKED: Final = 1024
"""Calls of one proxy that may wait for answers."""


class ParkedCall:
    """One suspended call.

    Attributes:
        fingerprint: the fingerprint of the request; only a request with the same one continues the call.
        party: the principal that made the call; for any other the call does not exist.
        ctx: the request that is being served; ``None`` while the client is away.
        turned: set when there is a result, an error, or a request to the client.
        scope: cancels the call.
    """

    def __init__(self, fingerprint: str, party: Any = None) -> None:
        self.fingerprint = fingerprint
        self.party = party
        self.ctx: ServerRequestContext[Any] | None = None
        self.turned = anyio.Event()
        self.result: dict[str, Any] | None = None
        self.error: Exception | None = None
        self.scope = anyio.CancelScope()
        self._asked: dict[str, tuple[str, dict[str, Any] | None, _PendingAnswer]] = {}
        self._number = 0

    def begin(self, ctx: ServerRequestContext[Any]) -> None:
        """Note that a request of the client is being served."""
        self.ctx = ctx
        self.turned = anyio.Event()
        self.scope.deadline = float("inf")

    def resume(self, ctx: ServerRequestContext[Any], answers: Mapping[str, Any]) -> None:
        """Take the answers of the client's next request; requests without an answer are sent again."""
        self.begin(ctx)
        for key in [key for key in self._asked if key in answers]:
            self._asked.pop(key)[2].settle(answers[key])
        if self._asked:
            self._turn()

    async def ask(self, method: str, params: dict[str, Any] | None) -> Any:
        """Take a request of the backend, and return the answer when the client has come back with it."""
        self._number += 1
        answer = _PendingAnswer()
        self._asked[f"q{self._number}"] = (method, params, answer)
        self._turn()
        return await answer.wait()

    def questions(self) -> dict[str, Any]:
        """Return the requests without an answer, as ``inputRequests``."""
        return {
            key: {"method": method} if params is None else {"method": method, "params": params}
            for key, (method, params, _) in self._asked.items()
        }

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Forward progress to the request that is being served, if it asked for progress."""
        if self.ctx is not None:
            await self.ctx.session.progress(progress, total, message)

    def abandon(self) -> None:
        """Cancel the call: no request waits for it."""
        self.scope.cancel()

    def _turn(self) -> None:
        self.ctx = None
        self.scope.deadline = anyio.current_time() + PARKED_S
        self.turned.set()


class _PendingAnswer:
    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: Any = None

    def settle(self, value: Any) -> None:
        """Set the answer."""
        self._value = value
        self._event.set()

    async def wait(self) -> Any:
        """Wait for the answer, and return it."""
        await self._event.wait()
        return self._value


def fingerprint_of(method: str, params: Mapping[str, Any]) -> str:
    """Return one text for a request without its answers and its state."""
    return encode_str([method, dict(sorted(params.items()))])
