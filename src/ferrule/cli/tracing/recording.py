"""Recordings of what a host and a server say: one JSON object per line, and the conversation test that it makes.

A line is ``{"at_s": seconds since the start, "from": "client" | "server", "message": …}``; a line that is not a message
has ``"raw"`` instead. The recording holds everything that was said, secrets in arguments and results included, so
a new file is readable by its owner only.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ferrule.wire.codec import decode, encode_str
from ferrule.wire.faults import DecodeError
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS

__all__ = ["Line", "Recorder", "conversation_of", "read_recording"]

Sender = Literal["client", "server"]
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: when, who, what; ``message`` is ``None`` where it was none."""

    at_s: float
    sender: Sender
    message: Any = None


class Recorder:
    """Writes a recording as it happens; any thread.

    Args:
        path: where to; an old recording is replaced.
        clock: seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = open(path, "w", encoding="utf-8", errors="backslashreplace", opener=_open_private)  # noqa: SIM115 - closed by close()
        self._clock = clock
        self._start = clock()
        self._lock = threading.Lock()

    def note(self, sender: Sender, line: bytes) -> None:
        """One line that passed."""
        if not line.strip():
            return
        try:
            found = {"message": decode(line)}
        except DecodeError:
            found = {"raw": line.decode("utf-8", "replace").rstrip("\r\n")}
        with self._lock:
            at_s = round(self._clock() - self._start, 6)
            self._stream.write(encode_str({"at_s": at_s, "from": sender, **found}) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """The end."""
        self._stream.close()


def _open_private(path: str, flags: int) -> int:
    """A new file is its owner's alone, because there may be secrets in it; an old one keeps its permissions."""
    return os.open(path, flags, 0o600)


def relay(source: Any, target: Any, note: Callable[[bytes], None]) -> None:
    """Pass lines on, byte for byte, until the source (a binary file) ends; then close the target."""
    try:
        for line in iter(source.readline, b""):
            note(line)
            target.write(line)
            target.flush()
    except (OSError, ValueError):  # the other side is gone
        pass
    finally:
        try:
            target.close()
        except OSError:
            pass


def read_recording(path: Path) -> list[Line]:
    """Return a recording.

    Raises:
        ValueError: a line is malformed.
    """
    found: list[Line] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(text)
            found.append(Line(float(entry["at_s"]), entry["from"], entry.get("message")))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: no line of a recording") from error
    return found


def conversation_of(lines: list[Line], comment: str = "Recorded with ferrule trace.") -> str:
    """Return a recording as the text of a conversation file (`ferrule.testing.conversations`).

    Its ids of server requests and its sealed states differ in every run, so they become names.

    Raises:
        ValueError: no revision was spoken in it.
    """
    messages: list[tuple[Sender, dict[str, Any]]] = [
        (line.sender, found) for line in lines if (found := _dict(line.message))
    ]
    made = [f"# {comment}", f"revisions: {_revision(messages)}", "carriers: memory", "handshake: none",
            "envelope: none", "order: any", ""]  # fmt: skip
    names = _Names()
    for sender, message in messages:
        body = {key: value for key, value in message.items() if key != "jsonrpc"}
        if sender == "client":
            made.append(f"> {encode_str(names.client(body))}")
        else:
            made.append(f"< {encode_str(names.server(body))}")
    return "\n".join(made) + "\n"


def _revision(messages: list[tuple[Sender, dict[str, Any]]]) -> str:
    for sender, message in messages:
        if sender == "server":
            version: Any = _dict(message.get("result")).get("protocolVersion")
        else:
            version = _dict(_dict(message.get("params")).get("_meta")).get(_VERSION_KEY)
        if isinstance(version, str) and version in REVISIONS:
            return version
        if sender == "server" and "result" in message and "supportedVersions" in _dict(message["result"]):
            return LATEST_MODERN_VERSION
    raise ValueError("no revision of the protocol was spoken in this recording")


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class _Names:
    """Values that the server makes up: remembered in its lines, filled into the client's."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def server(self, message: dict[str, Any]) -> Any:
        """Return a pattern: what was said, and names for what is made up."""
        made = _escaped(message)
        if "method" in message and "id" in message:
            made["id"] = self._first(message["id"], "question")
        state = _dict(message.get("result")).get("requestState")
        if isinstance(state, str):
            made["result"]["requestState"] = self._first(state, "state")
        return made

    def client(self, message: dict[str, Any]) -> Any:
        """What to send: names for what the server made up before."""
        made = _escaped(message)
        if "method" not in message and (name := self._known.get(encode_str(message.get("id")))):
            made["id"] = f"$is:{name}"
        state = _dict(message.get("params")).get("requestState")
        if isinstance(state, str) and (name := self._known.get(encode_str(state))):
            made["params"]["requestState"] = f"$is:{name}"
        return made

    def _first(self, value: Any, kind: str) -> str:
        name = self._known.setdefault(encode_str(value), f"{kind}{len(self._known) + 1}")
        return f"$any:{name}"


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return f"${value}" if value.startswith("$") else value
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [_escaped(item) for item in items]
    return value
