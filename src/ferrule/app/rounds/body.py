"""The state of a call's body (the function that serves the call), kept with the session of its request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio

    from ferrule.app.rounds.base import Rounds
    from ferrule.kernel.session import ServerSession

__all__ = ["CallBody", "body_of", "engine_of"]


class CallBody(Struct, eq=False):
    """The body of one call; made when it starts.

    Attributes:
        task: the asyncio task that runs it; ``None`` on another event loop, and after its end, because the task
            references the request, which references this object.
        has_ended: whether it has returned or raised, or was cancelled.
        is_handed_over: whether the next `ferrule.app.rounds.run.run_body` continues this body; otherwise it calls a
            function as a part of this body.
        rounds: the engine of its questions and steps; ``None`` before the first one, and after the end of the call. Set
            by `ferrule.app.rounds.run`.
        manual_answers: the answers to the `InputRequired` that it returned, and its state; ``None`` without one.
    """

    task: asyncio.Task[Any] | None
    has_ended: bool = False
    is_handed_over: bool = False
    rounds: Rounds | None = None
    manual_answers: tuple[dict[str, Any], Any] | None = None


def body_of(session: ServerSession) -> CallBody | None:
    """Return the body of the call that a session belongs to; ``None`` before it starts."""
    return session.body  # type: ignore[no-any-return]  # the kernel keeps it without knowing its class


def engine_of(session: ServerSession) -> Rounds | None:
    """Return the engine of a call; ``None`` before its first question or step."""
    body = body_of(session)
    return None if body is None else body.rounds
