"""Runs conversation files: sends the client lines to a server, and compares its messages with the server lines.

One file is replayed on every carrier and in every revision that it names, so that one text tests all of them::

    conversation = load_conversation(Path("tests/conversations/tools_call.conv"))
    for revision, carrier in runs_of(conversation):
        await run_conversation(conversation, make_server(), revision=revision, carrier=carrier)

The format is described in `ferrule.testing.script`, patterns in `ferrule.testing.matching`, carriers in
`ferrule.testing.carriers`. `update_conversation` writes the server lines again from the server's present messages;
review the difference between the files.

The runner sends a client line, then waits for each server line that follows it. At the end it closes the client's side,
and any further message of the server is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import anyio

from ferrule.testing.carriers import Carrier, each_byte, open_carrier
from ferrule.testing.matching import fill, mismatch
from ferrule.testing.script import (
    CARRIERS,
    Conversation,
    ConversationSyntaxError,
    Step,
    load_conversation,
    names_revision,
    parse_conversation,
)
from ferrule.wire.codec import encode_str
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS

if TYPE_CHECKING:
    from ferrule.kernel.server import Server

__all__ = [
    "CARRIERS",
    "Conversation",
    "ConversationMismatch",
    "ConversationSyntaxError",
    "Exchange",
    "Transcript",
    "load_conversation",
    "parse_conversation",
    "run_conversation",
    "runs_of",
    "update_conversation",
]

CLIENT_INFO: Final = {"name": "conversation", "version": "1"}
_ENVELOPE = "io.modelcontextprotocol/"
_QUIET_S = 0.2


class ConversationMismatch(AssertionError):
    """The server's messages differ from the file; the message starts with file and line.

    Attributes:
        path: the file or the name of the conversation.
        line: the line of the step, from 1.
        problem: the difference, with a JSON path.
        received: the received message; ``None`` if there was none.
    """

    def __init__(self, where: str, line: int, problem: str, received: Any, run: str) -> None:
        came = "nothing came" if received is None else f"came: {encode_str(received)}"
        super().__init__(f"{where}:{line}: {problem}\n  {came}\n  run: {run}")
        self.path = where
        self.line = line
        self.problem = problem
        self.received = received


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message of a run.

    Attributes:
        sender: ``"client"`` or ``"server"``.
        message: decoded JSON; bytes for a raw client line.
    """

    sender: Literal["client", "server"]
    message: Any


@dataclass(slots=True)
class Transcript:
    """All messages of one run, in the order of the runner.

    Attributes:
        revision: the version of the run.
        carrier: the carrier of the run.
        messages: the messages, with the handshake.
    """

    revision: str
    carrier: str
    messages: list[Exchange] = field(default_factory=list[Exchange])


def runs_of(conversation: Conversation) -> list[tuple[str, str]]:
    """Return every ``(revision, carrier)`` that a file names, for ``pytest.mark.parametrize``."""
    return [(revision, carrier) for revision in conversation.revisions for carrier in conversation.carriers]


async def run_conversation(
    conversation: Conversation,
    server: Server[Any],
    *,
    revision: str,
    carrier: str,
    timeout_s: float = 5.0,
    chunks: Callable[[bytes], Iterable[bytes]] = each_byte,
) -> Transcript:
    """Replay a conversation once.

    Args:
        conversation: the file.
        server: a new server, whose lifespan is entered and left.
        revision: the version of the client.
        carrier: one of `CARRIERS`.
        timeout_s: seconds to wait for each server line.
        chunks: how the ``bytes`` carrier splits the client's messages.

    Raises:
        ConversationMismatch: a message of the server differs, is missing, or is not in the file.
        ConversationSyntaxError: this carrier does not support a step.
    """
    run = _Run(conversation, revision, carrier, timeout_s)
    await run.play(server, chunks)
    return run.transcript


async def update_conversation(conversation: Conversation, server: Callable[[], Server[Any]]) -> str:
    """Return the text of the file with server lines for the server's present messages.

    A line that still matches is kept with its patterns. If revisions differ, there is a line for each. Only the first
    carrier of the file is used.

    Args:
        conversation: the file; it is not changed.
        server: makes a new server for each run.
    """
    changes = _Changes()
    for revision in conversation.revisions:
        run = _Run(conversation, revision, conversation.carriers[0], 1.0, changes)
        await run.play(server(), each_byte)
    return changes.applied_to(conversation)


# --- one run ----------------------------------------------------------------------------------------------------------


class _Run:
    def __init__(
        self,
        conversation: Conversation,
        revision: str,
        carrier: str,
        timeout_s: float,
        changes: _Changes | None = None,
    ) -> None:
        self.conversation = conversation
        self.transcript = Transcript(revision, carrier)
        self._revision = REVISIONS[revision]
        self._timeout_s = timeout_s
        self._changes = changes
        self._headers: dict[str, str | None] = {}
        modern = LATEST_MODERN_VERSION if self._revision.has_sessions else revision
        self._envelope = {
            f"{_ENVELOPE}protocolVersion": modern,
            f"{_ENVELOPE}clientCapabilities": conversation.capabilities,
            f"{_ENVELOPE}clientInfo": CLIENT_INFO,
        }
        self._names: dict[str, Any] = {"revision": revision, "envelope": self._envelope}

    async def play(self, server: Server[Any], chunks: Callable[[bytes], Iterable[bytes]]) -> None:
        """Run all steps, then check the end."""
        transcript = self.transcript
        steps = [s for s in self.conversation.steps if s.holds(transcript.revision, transcript.carrier)]
        failure: Exception | None = None
        async with open_carrier(transcript.carrier, server, self._revision, chunks=chunks) as carrier:
            try:
                await self._play_on(carrier, steps)
            except (ConversationMismatch, ConversationSyntaxError) as error:
                failure = error  # raised outside, so that no task group of the carrier wraps it
        if failure is not None:
            raise failure

    async def _play_on(self, carrier: Carrier, steps: list[Step]) -> None:
        if self.conversation.shakes_hands and self._revision.has_sessions:
            await self._shake_hands(carrier)
        at = 0
        while at < len(steps):
            block = at
            while block < len(steps) and steps[block].kind == "expect":
                block += 1
            if block > at:
                await self._expect(carrier, steps[at:block])
                at = block
            else:
                await self._do(carrier, steps[at])
                at += 1
            if self._changes is not None:
                await self._take_extra(carrier, steps, at)
        if self._changes is None:
            await self._end(carrier, steps[-1] if steps else Step("close", "", 1))

    # -- the client -----------------------------------------------------------------------------------------------

    async def _do(self, carrier: Carrier, step: Step) -> None:
        if step.kind == "send":
            await self._send(carrier, self._completed(fill(step.value, self._names)))
        elif step.kind == "send_raw":
            self.transcript.messages.append(Exchange("client", step.value))
            headers, self._headers = self._headers, {}
            try:
                await carrier.send_raw(step.value, headers)
            except NotImplementedError as error:
                where = self.conversation.where(step.line)
                raise ConversationSyntaxError(f"{where}: raw bytes need a carrier that has some: {error}") from error
        elif step.kind == "close":
            await carrier.close()
        elif step.kind == "status":
            await self._check_status(carrier, step)
        elif step.kind == "set_header":
            name, _, value = step.value.partition(":")
            self._headers[name.strip().lower()] = fill(value.strip(), self._names)
        else:
            self._headers[step.value.strip().lower()] = None

    async def _send(self, carrier: Carrier, message: Any) -> None:
        self.transcript.messages.append(Exchange("client", message))
        headers, self._headers = self._headers, {}
        with anyio.fail_after(self._timeout_s):
            await carrier.send(message, headers)

    async def _check_status(self, carrier: Carrier, step: Step) -> None:
        with anyio.fail_after(self._timeout_s):
            status = await carrier.status()
        if status is not None and status != step.value:
            raise self._mismatch(step, f"the status is {status} and not {step.value}", None)

    def _completed(self, message: Any) -> Any:
        """Return a client line with the members that every message of the revision has."""
        if not is_mapping(message):
            return message
        completed: dict[str, Any] = {"jsonrpc": "2.0", **message}
        wants_envelope = (
            not self._revision.has_sessions
            and "method" in completed
            and "id" in completed
            and self.conversation.adds_envelope
        )
        if wants_envelope:
            params = completed.get("params", {})
            if is_mapping(params):
                completed["params"] = {**params, "_meta": {**self._envelope, **params.get("_meta", {})}}
        return completed

    async def _shake_hands(self, carrier: Carrier) -> None:
        params = {
            "protocolVersion": self._revision.version,
            "capabilities": self.conversation.capabilities,
            "clientInfo": CLIENT_INFO,
        }
        start = Step("expect", None, 1)
        await self._send(carrier, {"jsonrpc": "2.0", "id": "handshake", "method": "initialize", "params": params})
        answer = await self._receive(carrier, start)
        pattern = {
            "jsonrpc": "2.0",
            "id": "handshake",
            "result": {"protocolVersion": self._revision.version, "...": True},
        }
        problem = mismatch(pattern, answer, {})
        if problem is not None:
            raise self._mismatch(start, f"the handshake failed: {problem}", answer)
        await self._send(carrier, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    # -- the server -----------------------------------------------------------------------------------------------

    async def _expect(self, carrier: Carrier, steps: list[Step]) -> None:
        """Wait for a block of server lines, in their order or (``order: any``) in any order."""
        waiting = list(steps)
        while waiting:
            try:
                message = await self._receive(carrier, waiting[0])
            except ConversationMismatch:
                if self._changes is None:
                    raise
                for step in waiting:
                    self._changes.replace(step, self._revision.version, None)
                return
            problems = [self._problem(step, message) for step in waiting]
            found = 0 if self.conversation.ordered else next((at for at, p in enumerate(problems) if p is None), 0)
            step = waiting.pop(found)
            problem = problems[found]
            if self._changes is not None:
                self._changes.replace(
                    step, self._revision.version, step.value if problem is None else _as_pattern(message)
                )
            elif problem is not None:
                raise self._mismatch(step, problem, message)

    def _problem(self, step: Step, message: Any) -> str | None:
        """Return the difference or ``None``; names are remembered only if the whole message matches."""
        names = dict(self._names)
        pattern = step.value
        if is_mapping(pattern):
            pattern = {"jsonrpc": "2.0", **pattern}
        problem = mismatch(pattern, message, names)
        if problem is None:
            self._names = names
        return problem

    async def _receive(self, carrier: Carrier, step: Step) -> Any:
        problem = "the server says nothing"
        with anyio.move_on_after(self._timeout_s):
            try:
                message = await carrier.receive()
            except anyio.EndOfStream:
                problem = "the connection has ended"
            else:
                self.transcript.messages.append(Exchange("server", message))
                return message
        raise self._mismatch(step, problem, None)

    async def _end(self, carrier: Carrier, last: Step) -> None:
        """Close the client's side, and check that no message follows."""
        await carrier.close()
        with anyio.move_on_after(self._timeout_s):
            try:
                message = await carrier.receive()
            except anyio.EndOfStream:
                return
            self.transcript.messages.append(Exchange("server", message))
            raise self._mismatch(last, "after the last line the server says more", message)
        raise self._mismatch(last, "the server does not end", None)

    async def _take_extra(self, carrier: Carrier, steps: list[Step], at: int) -> None:
        """Take the server's messages that the file does not have, for an update."""
        if self._changes is None or (at < len(steps) and steps[at].kind in ("expect", "status")):
            return
        while True:
            message = None
            with anyio.move_on_after(_QUIET_S):
                try:
                    message = await carrier.receive()
                except anyio.EndOfStream:
                    return
            if message is None:
                return
            self._changes.insert(steps[at - 1], self._revision.version, _as_pattern(message))

    def _mismatch(self, step: Step, problem: str, received: Any) -> ConversationMismatch:
        where = str(self.conversation.path or self.conversation.name)
        run = f"{self.transcript.revision} over {self.transcript.carrier}"
        return ConversationMismatch(where, step.line, problem, received, run)


# --- updating ---------------------------------------------------------------------------------------------------------


class _Changes:
    """The new lines of each run, in place of and after each line of the file."""

    def __init__(self) -> None:
        self._replaced: dict[int, dict[str, Any]] = {}
        self._inserted: dict[int, dict[str, list[Any]]] = {}
        self._steps: dict[int, Step] = {}

    def replace(self, step: Step, revision: str, message: Any) -> None:
        """Replace a line in this revision by ``message``; ``None`` removes it."""
        self._steps[step.line] = step
        self._replaced.setdefault(step.line, {})[revision] = message

    def insert(self, after: Step, revision: str, message: Any) -> None:
        """Insert ``message`` after a line in this revision."""
        self._steps[after.line] = after
        self._inserted.setdefault(after.line, {}).setdefault(revision, []).append(message)

    def applied_to(self, conversation: Conversation) -> str:
        """Return the new text."""
        lines: list[str] = []
        old = conversation.text.removesuffix("\n").split("\n")
        at = 1
        while at <= len(old):
            step = self._steps.get(at)
            count = 1 if step is None else step.lines
            kept = old[at - 1 : at - 1 + count]
            if step is not None and at in self._replaced:
                lines += self._written(step, self._replaced[at], kept, conversation)
            else:
                lines += kept
            lines += _lines_for(self._inserted.get(at, {}), conversation)
            at += count
        return "\n".join(lines) + "\n"

    @staticmethod
    def _written(step: Step, said: dict[str, Any], kept: list[str], conversation: Conversation) -> list[str]:
        if all(message is step.value for message in said.values()):
            return kept
        if step.condition and len({encode_str(message) for message in said.values()}) == 1:
            message = next(iter(said.values()))
            return [] if message is None else [f"<[{step.condition}] {encode_str(message)}"]
        return _lines_for({r: [] if message is None else [message] for r, message in said.items()}, conversation)


def _lines_for(said: dict[str, list[Any]], conversation: Conversation) -> list[str]:
    """Return the server lines for the messages of each revision; one line for revisions with the same message."""
    groups: dict[str, list[str]] = {}
    for revision, messages in said.items():
        groups.setdefault(encode_str(messages), []).append(revision)
    lines: list[str] = []
    for revisions in groups.values():
        for condition in _conditions(revisions, conversation.revisions):
            lines += [f"<{condition} {encode_str(message)}" for message in said[revisions[0]]]
    return lines


def _conditions(revisions: list[str], all_revisions: tuple[str, ...]) -> list[str]:
    """Return the shortest conditions that name some of a file's revisions."""
    if len(revisions) == len(all_revisions):
        return [""]
    for word in ("legacy", "modern"):
        if revisions == [each for each in all_revisions if names_revision(word, each)]:
            return [f"[{word}]"]
    first, last = all_revisions.index(revisions[0]), all_revisions.index(revisions[-1])
    if len(revisions) == 1 or list(all_revisions[first : last + 1]) != revisions:
        return [f"[{revision}]" for revision in revisions]
    start = "" if first == 0 else revisions[0]
    stop = "" if last == len(all_revisions) - 1 else revisions[-1]
    return [f"[{start}..{stop}]"]


def _as_pattern(message: Any) -> Any:
    """Return a message as a pattern: without ``jsonrpc``, and with ``$`` escaped."""
    if is_mapping(message) and message.get("jsonrpc") == "2.0":
        message = {key: value for key, value in message.items() if key != "jsonrpc"}
    return _literal(message)


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return f"${value}" if value.startswith("$") else value
    if is_mapping(value):
        return {key: _literal(item) for key, item in value.items()}
    return [_literal(item) for item in value] if is_list(value) else value


def save_conversation(conversation: Conversation, text: str) -> bool:
    """Write the updated text to the file, and return whether it has changed."""
    path = cast("Path", conversation.path)
    if text == conversation.text:
        return False
    path.write_text(text, encoding="utf-8")
    return True
