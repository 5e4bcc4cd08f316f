"""A call to a legacy server whose requests a modern client answers in later requests: it is suspended in between.

A request of the server becomes an ``input_required`` result, and the client's next request continues the call. Parked
calls exist in this process only, and for a bounded time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.gateway.backend_sessions import caller_of
from ferrule.protocol.errors import InvalidParams, LocalError
from ferrule.wire.codec import encode_str

if TYPE_CHECKING:
    from ferrule.client.gateway.backend_sessions import BackendSession
    from ferrule.kernel.server import ServerRequestContext
    from ferrule.transports.background import Background

__all__ = ["MAX_PARKED", "PARKED_S", "ParkedCall", "ParkedCalls", "fingerprint_of"]

PARKED_S: Final = 300.0
"""Seconds that a call waits for the client to come back with an answer."""
MAX_PARKED: Final = 1024
"""Calls of one proxy that may wait for answers."""


class ParkedCall:
    """One suspended call.

    Attributes:
        fingerprint: the fingerprint of the request; only a request with the same one continues the call.
        party: the principal that made the call; for any other the call does not exist.
        caller: identifies the client; see `caller_of`.
        ctx: the request that is being served; ``None`` while the client is away.
        turned: set when there is a result, an error, or a request to the client.
        scope: cancels the call.
    """

    def __init__(self, fingerprint: str, party: Any = None, caller: Hashable = None) -> None:
        self.fingerprint = fingerprint
        self.party = party
        self.caller = caller
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


class ParkedCalls:
    """The calls of one proxy that may be suspended, by the state that continues them; at most `MAX_PARKED` wait.

    Args:
        background: runs the calls.
        open_session: returns the session with the backend for a call, while the call runs.
    """

    def __init__(
        self,
        background: Background,
        open_session: Callable[[ServerRequestContext[Any], ParkedCall], AbstractAsyncContextManager[BackendSession]],
    ) -> None:
        self._background = background
        self._open_session = open_session
        self._waiting: dict[str, ParkedCall] = {}

    async def serve(
        self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any], meta: Mapping[str, Any]
    ) -> Any:
        """Begin or continue a call; return its result, or an ``input_required`` result with its questions.

        Args:
            ctx: the request.
            method: its method.
            params: its params; the state and the answers are taken out of them.
            meta: what the backend gets as ``_meta``.

        Raises:
            InvalidParams: the state is unknown, has expired, or belongs to another call or principal.
            LocalError: too many calls wait, or the client did not continue the call in time.
        """
        state, answers = params.pop("requestState", None), params.pop("inputResponses", None)
        fingerprint, party = fingerprint_of(method, params), ctx.transport.principal
        if state is not None:
            parked = self._waiting.get(state) if isinstance(state, str) else None
            is_theirs = parked is not None and parked.party == party
            if is_theirs:
                del self._waiting[state]
            if parked is None or not is_theirs or parked.fingerprint != fingerprint:
                raise InvalidParams("This request cannot be continued: its state is unknown or has expired")
            parked.resume(ctx, cast("Mapping[str, Any]", answers) if isinstance(answers, Mapping) else {})
        else:
            parked = ParkedCall(fingerprint, party, caller_of(ctx))
            parked.begin(ctx)
            self._background.start(self._run(parked, method, params, ctx, meta), "ferrule-proxy-call")
        return await self._outcome(parked)

    def clear(self) -> None:
        """Forget the calls that wait."""
        self._waiting.clear()

    async def _outcome(self, parked: ParkedCall) -> Any:
        try:
            await parked.turned.wait()
        except BaseException:
            parked.abandon()
            raise
        if parked.error is not None:
            raise parked.error
        if parked.result is not None:
            return parked.result
        if len(self._waiting) >= MAX_PARKED:
            parked.abandon()
            raise LocalError("Too many calls wait for answers of the client")
        state = secrets.token_urlsafe(24)
        self._waiting[state] = parked
        return {"resultType": "input_required", "inputRequests": parked.questions(), "requestState": state}

    async def _run(
        self,
        parked: ParkedCall,
        method: str,
        params: dict[str, Any],
        ctx: ServerRequestContext[Any],
        meta: Mapping[str, Any],
    ) -> None:
        """Run one call on a session with the backend, across several requests of the client."""
        with parked.scope:
            try:
                async with self._open_session(ctx, parked) as backend:
                    parked.result = await backend.client.request(method, params, meta=meta, on_progress=parked.progress)
            except Exception as error:
                parked.error = error
        if parked.result is None and parked.error is None:
            parked.error = LocalError("The client did not continue the call in time")
        for state in [state for state, other in self._waiting.items() if other is parked]:
            del self._waiting[state]  # the client did not come back in time
        parked.turned.set()


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
