"""The base class of all Ferrule errors, and the three errors of decoding, encoding and converting.

They are in the lowest layer because all layers raise or catch them. Errors that are sent to a peer have JSON-RPC codes;
they are in ``ferrule.protocol.errors``.
"""

from __future__ import annotations

from typing import Any


class FerruleError(Exception):
    """Base class of all errors that Ferrule raises on purpose.

    It can be pickled with its attributes, whatever the parameters of its constructor are.

    Attributes:
        server: the client's name for the server of the failed call; ``None`` outside a client's call, as for the next
            two.
        method: the method of that call's request.
        after_s: seconds since the start of that call (of the process, for an error about a process).
        has_call_facts: whether a client has set these three.
    """

    server: str | None = None
    method: str | None = None
    after_s: float | None = None
    has_call_facts: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[FerruleError], args: tuple[Any, ...], attributes: dict[str, Any]) -> FerruleError:
    """Return an unpickled error; its constructor is not called, since its parameters are not known here."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class DecodeError(FerruleError, ValueError):
    """Bytes from a peer are not one JSON value within Ferrule's limits (the peer's fault).

    The message describes the error without quoting the input.
    """


class EncodeError(FerruleError, ValueError):
    """A value cannot be encoded as JSON (the local program's fault)."""


class ConvertError(FerruleError, ValueError):
    """A JSON value does not have the declared shape.

    Attributes:
        reason: the expected and the found shape, without the path.
        path: JSON path of the value at fault, ``"$"`` for the value itself.
    """

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason if path == "$" else f"{reason} at {path}")
        self.reason = reason
        self.path = path
