"""The file format of conversations: text with the messages of a client and the expected ones of the server.

A file has a head of ``name: value`` lines and a body of steps, one a line. A line that is indented continues the step
before it; ``#`` starts a comment line::

    # A tool call, in every revision.
    revisions: all

    > {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}}
    < {"id": 1, "result": {"content": [{"type": "text", "text": "hi"}], "...": true}}

Head (all optional):

``revisions``
    which to run: versions, ``all``, ``legacy``, ``modern``, ranges such as ``2025-06-18..``; separated by commas.
``carriers``
    which to run on (`ferrule.testing.carriers`); all by default.
``handshake``
    ``auto``: in a legacy revision the runner shakes hands first. ``none``: the file does.
``envelope``
    ``auto``: in a modern revision the runner adds the envelope to each request that has none. ``none``: the file does.
``capabilities``
    JSON: what the client declares, in the handshake or in the envelope.
``order``
    ``strict``, or ``any``: the server lines between two client lines may come in any order.
``server``
    a word for the runner of the files, if one server does not fit all.

Steps:

``> JSON``
    the client sends; ``"jsonrpc": "2.0"`` is added if missing.
``>> text``
    the client sends these raw bytes (Python escapes such as ``\\xff`` allowed), where the carrier has bytes.
``< JSON``
    the server sends a message that matches this pattern (`ferrule.testing.matching`).
``! close``
    the client closes its side; what the server still says may follow.
``+ Name: value`` and ``- Name``
    over HTTP, set or leave out a header of the next client message.
``= 400``
    over HTTP, the status of the client message before it.

A condition in brackets right after the marker limits a step to some runs: ``<[legacy]``, ``>[2025-06-18..]``,
``<[..2025-03-26]``, ``+[asgi]``, ``<[!asgi]``; several, separated by commas, must all hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.revisions import REVISIONS

__all__ = [
    "Conversation",
    "ConversationSyntaxError",
    "Step",
    "load_conversation",
    "names_revision",
    "parse_conversation",
]

StepKind: TypeAlias = Literal["send", "send_raw", "expect", "close", "set_header", "drop_header", "status"]

CARRIERS: Final = ("direct", "memory", "bytes", "asgi")
"""The names of the carriers, in the order in which they are tried."""

_KINDS: Final[dict[str, StepKind]] = {
    ">": "send",
    ">>": "send_raw",
    "<": "expect",
    "!": "close",
    "+": "set_header",
    "-": "drop_header",
    "=": "status",
}
_STEP = re.compile(r"(?P<marker>>>|[><!+=-])(?:\[(?P<condition>[^\]]*)\])?(?: (?P<text>.*))?")
_HEAD = re.compile(r"(?P<name>[a-z]+): *(?P<value>.*)")


class ConversationSyntaxError(FerruleError, ValueError):
    """A conversation file is malformed (its author's fault); the message starts with the file and the line."""


@dataclass(slots=True)
class Step:
    """One line of the body.

    Attributes:
        kind: the kind of step.
        value: the decoded JSON of ``send`` and ``expect``, the bytes of ``send_raw``, a status, or header text.
        line: its line number, from 1; the first one of a continued step.
        lines: the number of its lines.
        condition: as written, empty if the step always holds.
    """

    kind: StepKind
    value: Any
    line: int
    lines: int = 1
    condition: str = ""

    def holds(self, revision: str, carrier: str) -> bool:
        """Return whether the step belongs to a run."""
        return all(_holds(part.strip(), revision, carrier) for part in self.condition.split(",") if part.strip())


@dataclass(slots=True)
class Conversation:
    """One file.

    Attributes:
        name: its name for people: the file's name without suffix.
        revisions: the versions to run, oldest first.
        carriers: the carriers to run it on.
        shakes_hands: whether the runner does the handshake of legacy revisions.
        adds_envelope: whether the runner adds the envelope to modern requests.
        capabilities: the capabilities that the client declares.
        ordered: whether server lines must come in the order of the file.
        server: the word for the runner's choice of a server.
        steps: the steps of the body.
        path: the file; ``None`` without one.
        text: the text of the file.
    """

    name: str
    text: str
    path: Path | None = None
    revisions: tuple[str, ...] = tuple(REVISIONS)
    carriers: tuple[str, ...] = CARRIERS
    shakes_hands: bool = True
    adds_envelope: bool = True
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    ordered: bool = True
    server: str = "default"
    steps: list[Step] = field(default_factory=list[Step])

    def where(self, line: int) -> str:
        """Return ``file:line``, which editors can open."""
        return f"{self.path or self.name}:{line}"


def load_conversation(path: Path) -> Conversation:
    """Read a file and return its conversation.

    Raises:
        ConversationSyntaxError: the file is malformed.
    """
    return parse_conversation(path.read_text(encoding="utf-8"), name=path.stem, path=path)


def parse_conversation(text: str, *, name: str = "conversation", path: Path | None = None) -> Conversation:
    """Return the conversation in a text.

    Raises:
        ConversationSyntaxError: the text is malformed.
    """
    conversation = Conversation(name, text, path)
    for line, count, content in _logical_lines(text):
        try:
            if conversation.steps or _STEP.fullmatch(content):
                conversation.steps.append(_parse_step(content, line, count))
            else:
                _parse_head(conversation, content)
        except (ValueError, DecodeError) as error:
            raise ConversationSyntaxError(f"{conversation.where(line)}: {error}") from error
    return conversation


def _logical_lines(text: str) -> list[tuple[int, int, str]]:
    """Return ``(line number, lines, content)`` of each step, without comments and blank lines."""
    found: list[tuple[int, int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t" and found:
            first, _, content = found[-1]
            found[-1] = (first, number - first + 1, f"{content} {line.strip()}")
        else:
            found.append((number, 1, line.rstrip()))
    return found


def _parse_step(content: str, line: int, count: int) -> Step:
    found = _STEP.fullmatch(content)
    if found is None:
        raise ValueError(f"a step starts with one of {' '.join(_KINDS)} and a space")
    kind = _KINDS[found["marker"]]
    condition = found["condition"] or ""
    for part in condition.split(","):
        if part.strip():
            _holds(part.strip(), next(iter(REVISIONS)), CARRIERS[0])
    text = found["text"] or ""
    value: Any = text
    if kind in ("send", "expect"):
        value = decode(text)
    elif kind == "send_raw":
        value = text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")
    elif kind == "status":
        value = int(text)
    elif kind == "close" and text != "close":
        raise ValueError("the only command is ! close")
    elif kind == "set_header" and ":" not in text:
        raise ValueError("a header is written Name: value")
    return Step(kind, value, line, count, condition)


def _parse_head(conversation: Conversation, content: str) -> None:
    found = _HEAD.fullmatch(content)
    if found is None:
        raise ValueError("neither a step nor a line of the head")
    name, value = found["name"], found["value"].strip()
    words = [word.strip() for word in value.split(",") if word.strip()]
    if name == "revisions":
        conversation.revisions = _parse_revisions(words)
    elif name == "carriers":
        if not words or not set(words) <= set(CARRIERS):
            raise ValueError(f"carriers are {', '.join(CARRIERS)}")
        conversation.carriers = tuple(words)
    elif name in ("handshake", "envelope"):
        automatic = _choice(value, "auto", "none")
        if name == "handshake":
            conversation.shakes_hands = automatic
        else:
            conversation.adds_envelope = automatic
    elif name == "order":
        conversation.ordered = _choice(value, "strict", "any")
    elif name == "capabilities":
        conversation.capabilities = cast("dict[str, Any]", decode(value))
    elif name == "server":
        conversation.server = value
    else:
        raise ValueError(f"the head has no {name!r}")


def _choice(value: str, yes: str, no: str) -> bool:
    if value not in (yes, no):
        raise ValueError(f"either {yes} or {no}")
    return value == yes


def _parse_revisions(words: Sequence[str]) -> tuple[str, ...]:
    wanted = {version for word in words for version in REVISIONS if names_revision(word, version)}
    if not wanted:
        raise ValueError("no revision is named")
    return tuple(version for version in REVISIONS if version in wanted)


def _holds(part: str, revision: str, carrier: str) -> bool:
    if part.startswith("!"):
        return not _holds(part[1:], revision, carrier)
    return part == carrier if part in CARRIERS else names_revision(part, revision)


def names_revision(word: str, version: str) -> bool:
    """Return whether a word for one or more revisions names this one; a range uses the order of the table.

    Raises:
        ValueError: the word names no revision.
    """
    if word == "all":
        return True
    if word in ("legacy", "modern"):
        return REVISIONS[version].is_modern == (word == "modern")
    order = list(REVISIONS)
    first, dots, last = word.partition("..")
    if not dots:
        last = first
    for end in (first, last):
        if end and end not in REVISIONS:
            raise ValueError(f"{end!r} is neither a revision nor a carrier")
    start = order.index(first) if first else 0
    stop = order.index(last) if last else len(order) - 1
    return start <= order.index(version) <= stop
