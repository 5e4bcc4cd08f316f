"""Errors that a tool's author raises, and errors of a wrong signature or registration.

The text of a `ToolError` is sent to the model unchanged, as a result with ``isError``. Any other exception of a tool is
masked for the peer and logged in full. Functions of resources and prompts may raise `ToolError` too; there it becomes a
protocol error, because these methods have no error results.
"""

from __future__ import annotations

from ferrule.wire.faults import FerruleError

__all__ = ["NoRequest", "NoSession", "RegistrationError", "ResultError", "SignatureError", "ToolError"]


class ToolError(FerruleError):
    """A failure that the model may read and act on.

    Args:
        text: shown to the model unchanged. It should explain what to do differently.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class RegistrationError(FerruleError, ValueError):
    """A component cannot be registered: its name is taken or malformed (the author's mistake)."""


class SignatureError(FerruleError, TypeError):
    """A function cannot be served as it is written; raised when it is registered, never when it is called.

    Attributes:
        reason: the explanation without the names.
        function: the function's qualified name.
        parameter: the parameter at fault; ``None`` when the fault is not in one parameter.
    """

    def __init__(self, reason: str, *, function: str = "", parameter: str | None = None) -> None:
        where = f"{function}(): " if function else ""
        what = f"parameter {parameter!r}: " if parameter is not None else ""
        super().__init__(f"{where}{what}{reason}")
        self.reason = reason
        self.function = function
        self.parameter = parameter


class ResultError(FerruleError, ValueError):
    """A function's return value does not fit what it declares, or has no JSON form (the author's mistake).

    The peer reads a result with ``isError``; the text names the path and the types, never the value.
    """


class NoRequest(FerruleError, LookupError):
    """`current_context` was called outside a request."""


class NoSession(FerruleError, RuntimeError):
    """Session state was requested in a request that belongs to no session."""
