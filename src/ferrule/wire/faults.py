"""The root of every Ferrule error, and the three faults that bytes and values can have.

They live at the bottom of the tree because everything above raises or catches them. Errors that a peer sees
carry JSON-RPC codes and are made in ``ferrule.protocol.errors``; nothing here knows a code.
"""

from __future__ import annotations

from typing import Any


class FerruleError(Exception):
    """Root of every error that Ferrule raises on purpose.

    Pickles with its attributes, whatever its constructor takes.

    Attributes:
        server: what the client calls the server in whose call the error was raised; ``None`` outside a client's call,
            as the next two.
        method: of that call's request.
        after_s: seconds from the start of that call (of the process, for an error that is about a process).
        has_call_facts: whether a client has noted these three.
    """

    server: str | None = None
    method: str | None = None
    after_s: float | None = None
    has_call_facts: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[FerruleError], args: tuple[Any, ...], attributes: dict[str, Any]) -> FerruleError:
    """Return the error without its constructor, which makes the message from facts that are attributes by now."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class DecodeError(FerruleError, ValueError):
    """Bytes from a peer are not one JSON value within Ferrule's limits (the peer's fault).

    The message says what is wrong without quoting the input.
    """


class EncodeError(FerruleError, ValueError):
    """A value handed to the codec has no JSON form (the local program's fault)."""


class ConvertError(FerruleError, ValueError):
    """A JSON value does not have the declared shape.

    Attributes:
        reason: what was expected and found, without the path.
        path: JSON path of the offending value, ``"$"`` for the value itself.
    """

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason if path == "$" else f"{reason} at {path}")
        self.reason = reason
        self.path = path
