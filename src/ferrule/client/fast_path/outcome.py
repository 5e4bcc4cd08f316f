"""The outcome of a request on the fast path that is not a plain result."""

from __future__ import annotations

from typing import Any

__all__ = ["FirstOutcome"]


class FirstOutcome:
    """The outcome of a request that the fast path has sent; the general path uses it once, in place of sending.

    Attributes:
        started: `time.monotonic` when the call began.
        is_taken: whether `result` was called.
    """

    __slots__ = ("_error", "_result", "is_taken", "started")

    def __init__(self, started: float, result: Any = None, error: Exception | None = None) -> None:
        self.started = started
        self.is_taken = False
        self._result = result
        self._error = error

    def result(self) -> Any:
        """Return the raw result.

        Raises:
            Exception: the error that ended the request.
        """
        self.is_taken = True
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return self._result
