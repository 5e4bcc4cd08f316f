"""The states of other servers that a proxy or a gateway has passed to its clients.

A client continues a call with the state that it got (2026-07-28, "Multi Round-Trip Requests"). A server in front of
others cannot open their states; what it has passed out itself is how it tells a later round from a new call.

Imported only by what uses it: a server that is no proxy never loads this module.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from ferrule.kernel.session import RESUMED
from ferrule.wire.codec import Encoded, decode, encode
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.kernel.server import CallNext, ServerRequestContext

__all__ = ["MAX_PASSED", "PassedStates"]

MAX_PASSED: Final = 10_000
"""States that are remembered; above it those that were passed out longest ago are forgotten: they begin new calls."""


class PassedStates:
    """The states that a server has passed out, each for one sender and one request; an attachment of the server."""

    def __init__(self) -> None:
        self._digests: dict[bytes, None] = {}

    def has(self, ctx: ServerRequestContext[Any]) -> bool:
        """Return whether a request brings a state that its sender got for the same request."""
        params: Any = ctx.params
        state: Any = params.get("requestState") if is_mapping(params) else None
        return isinstance(state, str) and _digest(ctx, state) in self._digests

    async def serve(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Serve a request, and remember the state of its result; one that continues a call is noted as `RESUMED`."""
        if ctx.method not in ctx.revision.input_required_methods:
            return await call_next(ctx)
        if self.has(ctx):
            ctx.session.notes |= {RESUMED}
        result = await call_next(ctx)
        state = _state_of(result)
        if state is not None:
            digest = _digest(ctx, state)
            self._digests.pop(digest, None)  # one that is passed out again is as new as any
            self._digests[digest] = None
            if len(self._digests) > MAX_PASSED:
                del self._digests[next(iter(self._digests))]
        return result


def _digest(ctx: ServerRequestContext[Any], state: str) -> bytes:
    params: Any = ctx.params
    party = ctx.transport.principal
    # A principal may be an object of the program's own verifier.
    bound = [str(getattr(party, "id", party)), ctx.method, *(params.get(key) for key in ("name", "uri", "arguments"))]
    return hashlib.sha256(encode([*bound, state])).digest()


def _state_of(result: Any) -> str | None:
    if isinstance(result, Encoded):
        result = decode(bytes(result)) if b'"input_required"' in bytes(result) else None
    if not is_mapping(result) or result.get("resultType") != "input_required":
        return None
    state: Any = result.get("requestState")
    return state if isinstance(state, str) else None
