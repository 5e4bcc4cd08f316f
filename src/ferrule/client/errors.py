"""The errors of a client, apart from those of its connection. They are never raised in exception groups.

A `RemoteError` is an error response of the server; every other error is a `LocalError`. Errors that pass through a
client get up to three attributes: ``server`` (the client's name for it), ``method`` and ``after_s`` (seconds since the
call began).
"""

from __future__ import annotations

from typing import Any

from ferrule.protocol.errors import FerruleError, LocalError

__all__ = [
    "BadServerResponse",
    "DefinitionChanged",
    "ExtensionNotOffered",
    "InputNotProvided",
    "InputRequiredError",
    "InvalidToolOutput",
    "OutputNotCheckable",
    "ServerUnavailable",
    "SkillNotApproved",
    "SkillVerificationFailed",
    "TooManyPages",
    "TooManyRounds",
    "UnknownServer",
    "has_facts",
    "note_facts",
]


class BadServerResponse(LocalError):
    """The server's result does not have the form that its method requires (the server's fault)."""


class DefinitionChanged(LocalError):
    """A tool is not called because its definition is not the pinned one (``Client(pins=…)``); nothing was sent.

    Attributes:
        tool: the tool's name.
        changes: the members of the definition that differ; empty if the snapshot does not have the tool.
    """

    def __init__(self, tool: str, server: str, source: str, changes: list[str]) -> None:
        what = f"differs from {source} in {', '.join(changes)}" if changes else f"is not in {source}"
        super().__init__(f"The tool {tool!r} of {server} {what}. Look at it, then pin it again: ferrule snapshot")
        self.tool = tool
        self.changes = changes


class InvalidToolOutput(BadServerResponse):
    """A tool's structured result breaks the output schema that the tool declares (the server's fault).

    Attributes:
        tool: the tool's name.
        path: the path of the invalid value.
    """

    def __init__(self, tool: str, why: str, path: str) -> None:
        super().__init__(f"The result of the tool {tool!r} breaks its output schema: {why} - at `{path}`")
        self.tool = tool
        self.path = path


class OutputNotCheckable(InvalidToolOutput):
    """Validating a result would take more work than a client allows (the server's fault); the tool has run.

    Attributes:
        tool: the tool's name.
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
    """The server asks for input, and this client is configured not to answer (``max_rounds=0``).

    Attributes:
        result: the raw `InputRequiredResult` as JSON. Call again with ``input_responses`` and ``request_state``. For a
            task it is the task, and `TaskHandle.answer` sends the answers.
    """

    def __init__(self, method: str, result: dict[str, Any]) -> None:
        super().__init__(
            f"{method} needs input: {', '.join(result.get('inputRequests') or {}) or 'a repeated request'}"
        )
        self.result = result


class InputNotProvided(LocalError):
    """The server asked for input that the client did not provide: no handler, or the handler failed or refused.

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


class ServerUnavailable(LocalError):
    """A server is known not to respond, so the request was not sent; its cause is the last error of the connection.

    Attributes:
        down_since: when the connection was lost, in seconds since the epoch; ``None`` if it is not known.
        next_attempt_at: when the next attempt to connect begins, in seconds since the epoch; ``None`` if none does.
    """

    def __init__(
        self, server: str, sentence: str, *, down_since: float | None = None, next_attempt_at: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.server = server
        self.down_since = down_since
        self.next_attempt_at = next_attempt_at


class ExtensionNotOffered(LocalError):
    """The server does not declare an extension that a call needs.

    Attributes:
        identifier: the extension's identifier.
    """

    def __init__(self, identifier: str) -> None:
        super().__init__(f"The server does not offer the extension {identifier}")
        self.identifier = identifier


class SkillVerificationFailed(LocalError):
    """A file of a skill is not as the skill's entry describes it; it must not be used.

    It is corrupt, was tampered with, or has changed since the entry was read: ``await skill.refresh()`` reads the entry
    again, and until then the skill is not usable.

    Attributes:
        skill: the URI of the skill.
        uri: the URI of the file, or the path that was asked for.
    """

    def __init__(self, skill: str, uri: str, why: str) -> None:
        super().__init__(f"The skill {skill} cannot be used: {uri} {why}")
        self.skill = skill
        self.uri = uri


class SkillNotApproved(LocalError):
    """``approve_skill`` did not approve a skill.

    Attributes:
        skill: the URI of the skill.
    """

    def __init__(self, skill: str) -> None:
        super().__init__(f"The skill {skill} was not approved")
        self.skill = skill


def has_facts(error: BaseException) -> bool:
    """Return whether the error has passed through a client."""
    return isinstance(error, FerruleError) and error.has_call_facts


def note_facts(error: BaseException, server: str, method: str, after_s: float) -> None:
    """Add the server, the method and the duration to an error; only the innermost client adds them.

    Attributes that the error has already (the process that ended, the method of the request) are kept.

    Args:
        error: the error; one that is not Ferrule's stays unchanged.
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
