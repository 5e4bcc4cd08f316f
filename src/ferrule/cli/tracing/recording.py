"""Recordings of messages between a host and a server, as JSON lines, and their conversion to conversation tests.

`ferrule.testing.recordings.lines` describes the lines. Secrets are masked where their names or their forms show them;
others may remain, so that a new file is readable by its owner only.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ferrule.protocol.secret_forms import SecretTools, mask_secrets
from ferrule.testing.recordings.lines import Line, Sender, read_recording
from ferrule.wire.codec import decode, encode_str
from ferrule.wire.faults import DecodeError
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS

__all__ = ["Line", "Recorder", "conversation_of", "read_recording"]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"


class Recorder:
    """Writes a recording line by line; for use from any thread.

    Args:
        path: the file; an old recording is replaced.
        clock: returns a time in seconds.
        masks: write `ferrule.protocol.secret_forms.MASK` in the place of secrets.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic, *, masks: bool = True) -> None:
        self._stream = open(path, "w", encoding="utf-8", errors="backslashreplace", opener=_open_private)  # noqa: SIM115 - closed by close()
        self._clock = clock
        self._masks = masks
        self._secrets = SecretTools()
        self._start = clock()
        self._lock = threading.Lock()

    def note(self, sender: Sender, line: bytes) -> None:
        """Record one line."""
        if not line.strip():
            return
        try:
            found = {"message": decode(line)}
        except DecodeError:
            found = {"raw": line.decode("utf-8", "replace").rstrip("\r\n")}
        if self._masks:
            message: Any = found.get("message")
            self._secrets.learn_from(message)
            found = mask_secrets(found if message is None else {"message": self._secrets.masked(message)})
        with self._lock:
            at_s = round(self._clock() - self._start, 6)
            self._stream.write(encode_str({"at_s": at_s, "from": sender, **found}) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _open_private(path: str, flags: int) -> int:
    """Open a file and return its descriptor; only the owner can read a new one. An old one keeps its permissions."""
    return os.open(path, flags, 0o600)


def relay(source: Any, target: Any, note: Callable[[bytes], None]) -> None:
    """Copy lines unchanged until the source (a binary file) ends, then close the target."""
    try:
        for line in iter(source.readline, b""):
            note(line)
            target.write(line)
            target.flush()
    except (OSError, ValueError):  # the reader of the target has ended
        pass
    finally:
        try:
            target.close()
        except OSError:
            pass


def conversation_of(lines: list[Line], comment: str = "Recorded with ferrule trace.") -> str:
    """Return a recording as the text of a conversation file (`ferrule.testing.conversations`).

    Ids of server requests and sealed states differ in each run, so they are replaced by names.

    Raises:
        ValueError: the recording has no handshake and no modern request, so its revision is unknown.
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
    """Values that the server chooses: found in its messages, and replaced by names in both sides' messages."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def server(self, message: dict[str, Any]) -> Any:
        """Return a server's message as a pattern, with names for values that it chose."""
        made = _escaped(message)
        if "method" in message and "id" in message:
            made["id"] = self._first(message["id"], "question")
        state = _dict(message.get("result")).get("requestState")
        if isinstance(state, str):
            made["result"]["requestState"] = self._first(state, "state")
        return made

    def client(self, message: dict[str, Any]) -> Any:
        """Return a client's message, with names for values that the server chose before."""
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
