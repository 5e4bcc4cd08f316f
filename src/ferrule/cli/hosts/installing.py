"""Changes the configuration of a host, and undoes the change.

Before a file is changed, its whole content and the member are recorded in a journal of this user (``installs.json`` in
the state folder). Undoing restores the bytes if the file has not changed since, otherwise only the member.

Files are replaced atomically, so that a host never reads half of one. A link stays a link, and permissions are kept.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, cast

from ferrule.cli.files import replace_file
from ferrule.cli.hosts.edits import FormatError
from ferrule.cli.hosts.formats import format_of
from ferrule.protocol.jsonc import as_mapping
from ferrule.wire.codec import decoder
from ferrule.wire.faults import ConvertError, DecodeError

__all__ = ["Change", "InstallHistory", "apply_change", "plan_install", "plan_removal", "plan_undo", "read_text"]

MAX_FILE_BYTES: Final = 16 << 20
MAX_RECORDS: Final = 50
MAX_JOURNAL_CHARS: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change of a configuration file.

    Attributes:
        path: the file.
        key, name: the member with the servers, and the name of the server.
        before: the text before the change; ``None`` if there is no file yet.
        after: the text after the change; ``None`` to delete the file.
    """

    path: Path
    key: str
    name: str
    before: str | None
    after: str | None

    @property
    def is_nothing(self) -> bool:
        """Whether the change has no effect."""
        return self.before == self.after

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old = (self.before or "").splitlines(keepends=True)
        new = (self.after or "").splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), n=3)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def read_text(path: Path) -> str | None:
    """Return the text of a file, with its line ends and byte order mark; ``None`` if there is no file.

    Raises:
        FormatError: it is no regular file, is larger than 16 MiB, or is not UTF-8.
        OSError: it cannot be read.
    """
    try:
        if not S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            raise FormatError("it is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_FILE_BYTES:
        raise FormatError(f"it has more than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error


def plan_install(path: Path, key: str, name: str, entry: Mapping[str, Any]) -> Change:
    """Return the change that adds a server, or replaces the one with the same name.

    Raises:
        FormatError: the file is malformed, or written in a form that cannot be edited; it stays unchanged.
    """
    _check_encodable([key, name, entry])
    before = read_text(path)
    text = before or ""
    if _member(path, text, key, name) == dict(entry):
        return Change(path, key, name, before, before)
    return Change(path, key, name, before, format_of(path).set_entry(text, key, name, entry))


def plan_removal(path: Path, key: str, name: str) -> Change:
    """Return the change that removes a server.

    Raises:
        FormatError: as `plan_install`.
    """
    before = read_text(path)
    after = None if before is None else format_of(path).remove_entry(before, key, name)
    return Change(path, key, name, before, after)


def plan_undo(record: Record, path: Path) -> Change:
    """Return the change that undoes a recorded one."""
    now = read_text(path)
    if now is not None and _digest(now) == record.digest_after:
        return Change(path, record.key, record.name, now, record.before)
    if now is None:
        return Change(path, record.key, record.name, None, None)
    old = _member(path, record.before or "", record.key, record.name)
    form, key, name = format_of(path), record.key, record.name
    after = form.remove_entry(now, key, name) if old is None else form.set_entry(now, key, name, old)
    return Change(path, key, name, now, after)


def _check_encodable(value: Any) -> None:
    """Refuse text that is not Unicode, as an argument or a variable may be that is not UTF-8.

    Raises:
        FormatError: there is such text in the value.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise FormatError("the entry has text that is not UTF-8") from error


def _member(path: Path, text: str, key: str, name: str) -> Any:
    servers = as_mapping(format_of(path).parse(text)).get(key)
    return cast("dict[str, Any]", servers).get(name) if isinstance(servers, dict) else None


def apply_change(change: Change) -> None:
    """Write the changed file.

    Raises:
        FormatError: the file was changed after the change was planned, by the host or another program.
        OSError: the file cannot be written; it stays unchanged.
    """
    path = change.path.resolve()  # a link to a file elsewhere stays a link
    if read_text(path) != change.before:
        raise FormatError("it was changed by another program just now: try again")
    if change.after is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o600
    replace_file(path, change.after.encode("utf-8"), mode)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """One change that was made: the file, the former member and text, and a digest of the new text."""

    path: str
    key: str
    name: str
    before: str | None
    digest_after: str


class InstallHistory:
    """The changes of this user that can be undone, oldest first: the last 50, of at most 32 MiB together.

    It holds copies of configuration files, which may hold secrets: only this user can read it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _state_folder() / "installs.json"

    def records(self) -> list[Record]:
        """Return all entries; empty if the journal is missing or malformed."""
        try:
            return decoder(list[Record])(self.path.read_bytes())
        except (OSError, DecodeError, ConvertError):
            return []

    def add(self, change: Change) -> Record:
        """Record a change, before it is made, and return the record."""
        made = Record(str(change.path.resolve()), change.key, change.name, change.before, _digest(change.after or ""))
        kept, size = [made], 0
        for record in reversed(self.records()[-MAX_RECORDS + 1 :]):
            size += len(record.before or "")
            if size > MAX_JOURNAL_CHARS:
                break
            kept.append(record)
        self._write(kept[::-1])
        return made

    def last(self, path: Path, name: str | None) -> Record | None:
        """Return the latest change of a file, of one server if it is named."""
        where = str(path.resolve())
        found = (r for r in reversed(self.records()) if r.path == where and name in (None, r.name))
        return next(found, None)

    def drop(self, record: Record) -> None:
        """Remove a record, after it was undone."""
        self._write([each for each in self.records() if each != record])

    def _write(self, records: list[Record]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps([asdict(record) for record in records], indent=1, ensure_ascii=False)
        replace_file(self.path, text.encode("utf-8"))


def _state_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "ferrule"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ferrule"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ferrule"
