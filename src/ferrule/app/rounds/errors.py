"""What can go wrong around questions and steps, each fault with a class of its own.

Two kinds. `RoundsError`s are for the author of the body: caught there, or masked like any exception. The
`StateRefused` family answers a client that brought a state which may not be used: -32602 with ``data.reason``, so
that a log tells an attack from a deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ferrule.protocol.errors import CapabilityNotDeclared, InvalidParams, MissingRequiredClientCapability
from ferrule.wire.faults import FerruleError

__all__ = [
    "AmbiguousKey",
    "ClientLacks",
    "InvalidAnswer",
    "NonDeterminismError",
    "NotSupportedHere",
    "QuestionExpired",
    "RoundLimitExceeded",
    "RoundsError",
    "StateExpired",
    "StateForeignCall",
    "StateForeignPrincipal",
    "StateRefused",
    "StateTampered",
    "StateTooLarge",
    "StateUnknownKey",
    "StateUsed",
    "StepFailed",
    "StepInDoubt",
]


class RoundsError(FerruleError):
    """Root of the faults that the author of a body can meet at ``ctx.elicit``, ``sample``, ``roots`` and ``step``."""


class AmbiguousKey(RoundsError):
    """Two branches ask under one key at the same time; give ``key=``, or use ``ctx.scope`` or ``ctx.gather``."""


class InvalidAnswer(RoundsError):
    """The client answered one question three times with something that does not fit it."""


class QuestionExpired(RoundsError, TimeoutError):
    """A question's ``timeout_s`` passed without an answer."""


class StepFailed(RoundsError):
    """A step raised; recorded, so that it raises the same in each later round.

    Attributes:
        name: of the step.
        error: the type and text of what it raised.
    """

    def __init__(self, name: str, error: str) -> None:
        super().__init__(f"Step {name!r} failed: {error}")
        self.name = name
        self.error = error


class StepInDoubt(RoundsError):
    """A ``once`` step was begun elsewhere and its outcome is not known; it is not run a second time."""


class StateTooLarge(RoundsError):
    """The state of a call outgrew ``inline_state_bytes`` and there is no store to keep it in."""


class NotSupportedHere(RoundsError):
    """Questions and steps cannot work in this place: inside a step, or on an event loop other than asyncio."""


class ClientLacks(MissingRequiredClientCapability, CapabilityNotDeclared):
    """The modern form of `CapabilityNotDeclared`: uncaught, it becomes the -32021 answer."""

    def __init__(self, required: Mapping[str, Any]) -> None:
        CapabilityNotDeclared.__init__(self, required)
        told = MissingRequiredClientCapability(required)  # its __init__ would come back to the other base
        self.message, self.code, self.data = told.message, told.code, told.data


class StateRefused(InvalidParams):
    """A ``requestState`` may not be used; ``data.reason`` says why."""

    reason: ClassVar[str] = "refused"

    def __init__(self, message: str) -> None:
        super().__init__(message, data={"reason": self.reason})


class StateTampered(StateRefused):
    """It was not sealed by this server, or not as it is now."""

    reason = "tampered"


class StateUnknownKey(StateTampered):
    """It was sealed under a key that this process does not have, or is no state at all."""

    reason = "unknown_key"


class StateExpired(StateRefused):
    """Its time is over; begin the call again."""

    reason = "expired"


class StateUsed(StateRefused):
    """It has been used, and this server opens each state once; begin the call again."""

    reason = "used"


class StateForeignPrincipal(StateRefused):
    """It was sealed for somebody else."""

    reason = "foreign_principal"


class StateForeignCall(StateRefused):
    """It was sealed for another method, name or other arguments."""

    reason = "foreign_call"


class NonDeterminismError(StateRefused, RoundsError):
    """The body no longer does what the rounds before recorded; going on could repeat an effect."""

    reason = "diverged"


class RoundLimitExceeded(StateRefused):
    """The call asked for more rounds than allowed."""

    reason = "too_many_rounds"
