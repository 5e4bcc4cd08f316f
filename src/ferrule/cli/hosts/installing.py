"""Changing a host's configuration, and changing it back.

Before a file is changed its whole content and the member in question are noted in a journal of this user
(``installs.json`` in the state folder). Undoing restores the bytes if the file has not changed since, and otherwise
puts back only the one member.

Files are replaced in one step, so a host never reads half of one; a link stays a link, and permissions are kept.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ferrule.client.jsonc import as_mapping, parse_jsonc, remove_member, set_member

__all__ = ["Change", "InstallHistory", "apply_change", "plan_install", "plan_removal", "plan_undo"]


@dataclass(frozen=True, slots=True)
class Change:
    """What a configuration file would become.

    Attributes:
        path: the file.
        key, name: the member that holds the servers, and the server.
        before: its text; ``None`` where there is no file yet.
        after: its text then; ``None`` to delete it.
    """

    path: Path
    key: str
    name: str
    before: str | None
    after: str | None

    @property
    def is_nothing(self) -> bool:
        """Whether the file is already so."""
        return self.before == self.after

    def diff(self) -> str:
        """As a unified diff."""
        old = (self.before or "").splitlines(keepends=True)
        new = (self.after or "").splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), n=3)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def read_text(path: Path) -> str | None:
    """Return the file with its line ends and byte order mark as they are; ``None`` where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def plan_install(path: Path, key: str, name: str, entry: Mapping[str, Any]) -> Change:
    """Put a server in, or in place of the one with its name.

    Raises:
        JsoncError: the file is malformed; it is left alone.
    """
    before = read_text(path)
    text = before or ""
    if _member(text, key, name) == dict(entry):
        return Change(path, key, name, before, before)
    return Change(path, key, name, before, set_member(text, [key, name], dict(entry)))


def plan_removal(path: Path, key: str, name: str) -> Change:
    """Take a server out.

    Raises:
        JsoncError: the file is malformed.
    """
    before = read_text(path)
    return Change(path, key, name, before, None if before is None else remove_member(before, [key, name]))


def plan_undo(record: Record, path: Path) -> Change:
    """Make a recorded change undone."""
    now = read_text(path)
    if now is not None and _digest(now) == record.digest_after:
        return Change(path, record.key, record.name, now, record.before)
    if now is None:
        return Change(path, record.key, record.name, None, None)
    old = _member(record.before or "", record.key, record.name)
    where = [record.key, record.name]
    after = remove_member(now, where) if old is None else set_member(now, where, old)
    return Change(path, record.key, record.name, now, after)


def _member(text: str, key: str, name: str) -> Any:
    servers = as_mapping(parse_jsonc(text)).get(key)
    return cast("dict[str, Any]", servers).get(name) if isinstance(servers, dict) else None


def apply_change(change: Change) -> None:
    """Write it.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    path = change.path.resolve()  # a link to a file elsewhere stays a link
    if change.after is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(change.after.encode("utf-8"))
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """One change that was made: where, what there was, and what the file was then."""

    path: str
    key: str
    name: str
    before: str | None
    digest_after: str


class InstallHistory:
    """The changes of this user that can be undone, oldest first; the last 50.

    It holds copies of configuration files, which may hold secrets: only this user can read it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _state_folder() / "installs.json"

    def records(self) -> list[Record]:
        """Return all entries; empty if the journal is missing or malformed."""
        try:
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
            return [Record(**entry) for entry in found]
        except (OSError, ValueError, TypeError):
            return []

    def add(self, change: Change) -> None:
        """Note a change before it is made."""
        made = Record(str(change.path.resolve()), change.key, change.name, change.before, _digest(change.after or ""))
        self._write([*self.records(), made][-50:])

    def last(self, path: Path, name: str | None) -> Record | None:
        """Return the latest change of a file, of one server if it is named."""
        where = str(path.resolve())
        found = (r for r in reversed(self.records()) if r.path == where and name in (None, r.name))
        return next(found, None)

    def drop(self, record: Record) -> None:
        """It was undone."""
        self._write([each for each in self.records() if each != record])

    def _write(self, records: list[Record]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps([asdict(record) for record in records], indent=1, ensure_ascii=False)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")  # 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _state_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "ferrule"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "ferrule"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ferrule"
