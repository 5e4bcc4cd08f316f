"""The errors of a client beside those of its connection; one family, no exception groups.

`RemoteError` is what the server answered; everything else is a `LocalError` and never looks like an answer. Errors
that pass through a client carry three facts where they apply: ``server`` (which one), ``method`` and ``after_s``
(seconds since the call began).
"""

from __future__ import annotations

from typing import Any

from ferrule.protocol.errors import FerruleError, LocalError

__all__ = [
    "BadServerResponse",
    "InputNotProvided",
    "InputRequiredError",
    "InvalidToolOutput",
    "OutputNotCheckable",
    "TooManyPages",
    "TooManyRounds",
    "UnknownServer",
    "has_facts",
    "note_facts",
]


class BadServerResponse(LocalError):
    """The server's answer does not have the shape that its method demands (the server's fault)."""


class InvalidToolOutput(BadServerResponse):
    """A tool's structured result breaks the output schema that the tool declares (the server's fault).

    Attributes:
        tool: its name.
        path: the path of the offending value.
    """

    def __init__(self, tool: str, why: str, path: str) -> None:
        super().__init__(f"The result of the tool {tool!r} breaks its output schema: {why} - at `{path}`")
        self.tool = tool
        self.path = path


class OutputNotCheckable(InvalidToolOutput):
    """A tool's output schema asks for more work than a client does for it (the server's fault); the tool has run.

    Attributes:
        tool: its name.
        path: ``$``.
    """

    def __init__(self, tool: str, why: str, path: str = "$") -> None:
        BadServerResponse.__init__(
            self,
            f"The result of the tool {tool!r} cannot be checked against its output schema: {why} "
            "(validate_output=False takes results unchecked)",
        )
        self.tool = tool
        self.path = path


class InputRequiredError(LocalError):
    """The server asks for input, and this client does not answer (``max_rounds=0``).

    Attributes:
        result: the raw `InputRequiredResult` as JSON. Call again with ``input_responses`` and ``request_state``.
    """

    def __init__(self, method: str, result: dict[str, Any]) -> None:
        super().__init__(
            f"{method} needs input: {', '.join(result.get('inputRequests') or {}) or 'a repeated request'}"
        )
        self.result = result


class InputNotProvided(LocalError):
    """The server asked for input that could not be given: no handler for it, or the handler failed or refused.

    Attributes:
        key: the server's key of the question.
        method: the method that was called.
    """

    def __init__(self, key: str, method: str, why: str) -> None:
        super().__init__(f"The server asked for {method} ({key!r}), which was not answered: {why}")
        self.key = key
        self.method = method


class TooManyRounds(LocalError):
    """The server kept asking for input beyond the bound on rounds."""


class TooManyPages(LocalError):
    """A list has more pages than the bound, or repeats its cursor."""


class UnknownServer(LocalError):
    """A name does not begin with the prefix of any server of the group."""


def has_facts(error: BaseException) -> bool:
    """Return whether the error has passed through a client."""
    return isinstance(error, FerruleError) and error.has_call_facts


def note_facts(error: BaseException, server: str, method: str, after_s: float) -> None:
    """Note on an error which server, which call and after how many seconds; only the innermost client notes it.

    Facts that an error has already (the process that ended, the method of the request) are kept.

    Args:
        error: nothing is noted on errors that are not Ferrule's.
        server: the client's name for the server.
        method: the method of the request; ``"connect"`` while connecting.
        after_s: seconds since the call began.
    """
    if not isinstance(error, FerruleError) or error.has_call_facts:
        return
    error.has_call_facts = True
    names_server = error.server is not None
    error.server = error.server if names_server else server
    error.method = method if error.method is None else error.method
    error.after_s = after_s if error.after_s is None else error.after_s
    if isinstance(error, LocalError) and len(error.args) == 1 and not names_server:
        error.args = (f"{error.args[0]} (server {server}, {method}, after {after_s:.1f} s)",)
