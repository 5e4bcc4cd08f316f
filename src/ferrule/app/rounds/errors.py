"""The errors of questions, steps and states.

There are two kinds. A `RoundsError` is for the author of the body: it may be caught there, and is masked like any
exception otherwise. A `StateRefused` is the response to a client that sent an invalid state: -32602 with
``data.reason``, so that a log distinguishes attacks from deployments.
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
    """Base class of the errors that ``ctx.elicit``, ``sample``, ``roots`` and ``step`` raise in a body."""


class AmbiguousKey(RoundsError):
    """Two branches use one key at the same time; set ``key=``, or use ``ctx.scope`` or ``ctx.gather``."""


class InvalidAnswer(RoundsError):
    """Three answers of the client to one question did not fit."""


class QuestionExpired(RoundsError, TimeoutError):
    """A question's ``timeout_s`` passed without an answer."""


class StepFailed(RoundsError):
    """A step raised an exception; it is recorded, so that each later round raises the same.

    Attributes:
        name: the name of the step.
        error: type and text of the exception.
    """

    def __init__(self, name: str, error: str) -> None:
        super().__init__(f"Step {name!r} failed: {error}")
        self.name = name
        self.error = error


class StepInDoubt(RoundsError):
    """Another process began a ``once`` step and its outcome is not known; the step is not run a second time."""


class StateTooLarge(RoundsError):
    """The state of a call is larger than ``inline_state_bytes`` and there is no store, or too large for the store."""


class NotSupportedHere(RoundsError):
    """Questions and steps do not work in this place, such as inside a step or on an event loop other than asyncio."""


class ClientLacks(MissingRequiredClientCapability, CapabilityNotDeclared):
    """The modern form of `CapabilityNotDeclared`: if it is not caught, it becomes the error -32021."""

    def __init__(self, required: Mapping[str, Any]) -> None:
        CapabilityNotDeclared.__init__(self, required)
        # A second object instead of the other `__init__`, whose `super()` call would reach the first base again.
        modern = MissingRequiredClientCapability(required)
        self.message, self.code, self.data = modern.message, modern.code, modern.data


class StateRefused(InvalidParams):
    """A ``requestState`` is refused; ``data.reason`` has the reason."""

    reason: ClassVar[str] = "refused"

    def __init__(self, message: str) -> None:
        super().__init__(message, data={"reason": self.reason})


class StateTampered(StateRefused):
    """The state was not sealed by this server, or was changed."""

    reason = "tampered"


class StateUnknownKey(StateTampered):
    """The state was sealed with a key that this process does not have, or is not a state."""

    reason = "unknown_key"


class StateExpired(StateRefused):
    """The state has expired; begin the call again."""

    reason = "expired"


class StateUsed(StateRefused):
    """The state was used before, and this server opens each state once; begin the call again."""

    reason = "used"


class StateForeignPrincipal(StateRefused):
    """The state was sealed for another principal."""

    reason = "foreign_principal"


class StateForeignCall(StateRefused):
    """The state was sealed for another method, name or other arguments."""

    reason = "foreign_call"


class NonDeterminismError(StateRefused, RoundsError):
    """The body does not do what earlier rounds recorded; continuing could repeat an effect."""

    reason = "diverged"


class RoundLimitExceeded(StateRefused):
    """The call needs more rounds than allowed."""

    reason = "too_many_rounds"
