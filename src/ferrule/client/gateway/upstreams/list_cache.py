"""The last known lists of the servers behind a gateway, in files: the next start answers lists at once.

There is one small file for each server, named by a digest of what identifies it: its name and its program or address,
without values of environment variables and headers, and without user and query of a URL. A file has what the server
announced and its lists, and nothing of the configuration. It is replaced as a whole, so that any number of processes
may use the same folder; what cannot be read counts as not there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ferrule.client.gateway.pages import RawList
from ferrule.client.targets import HttpTarget, StdioTarget, Target
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_FILES", "MAX_FILE_BYTES", "KnownServer", "ListCache", "default_folder", "digest_of"]

logger = logging.getLogger("ferrule.client.gateway")

MAX_FILE_BYTES: Final = 8 << 20
"""Bytes of one server's file; larger lists are not kept."""
MAX_FILES: Final = 200
"""Files in one folder; those that were written longest ago are deleted."""

_FORMAT: Final = 1


@dataclass(slots=True)
class KnownServer:
    """What is known of a server without asking it.

    Attributes:
        capabilities: as it announced them.
        instructions: its instructions for models.
        lists: method → its last list.
        asks: whether it has asked a client something.
        has_sessions: whether it speaks the handshake era; ``None``: not known.
    """

    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None
    lists: dict[str, RawList] = field(default_factory=dict[str, RawList])
    asks: bool = False
    has_sessions: bool | None = None

    def copy(self) -> KnownServer:
        """Return a copy that another thread may read."""
        return KnownServer(self.capabilities, self.instructions, dict(self.lists), self.asks, self.has_sessions)


class ListCache:
    """The files of one folder.

    Args:
        folder: made, for the user alone, when the first file is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str) -> KnownServer | None:
        """Return what the file of a key has; ``None`` if there is none that can be used."""
        path = self._path(key)
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                return None
            return _read(decode(path.read_bytes()))
        except (OSError, DecodeError):
            return None

    def store(self, key: str, known: KnownServer) -> bool:
        """Replace the file of a key; return whether that succeeded. A failure is logged."""
        lists = {method: [found.items, found.rest] for method, found in known.lists.items()}
        made = encode(
            {
                "format": _FORMAT,
                "capabilities": known.capabilities,
                "instructions": known.instructions,
                "lists": lists,
                "asks": known.asks,
                "hasSessions": known.has_sessions,
            }
        )
        if len(made) > MAX_FILE_BYTES:
            logger.info("The lists of a server are too large to be kept: %d bytes", len(made))
            return False
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(self._path(key), made)
            self._delete_oldest()
        except OSError as error:
            logger.warning("Lists cannot be kept in %s: %s", self.folder, error.strerror)
            return False
        return True

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _replace(self, path: Path, content: bytes) -> None:
        # `mkstemp` makes a file that only its user can read.
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def _delete_oldest(self) -> None:
        found: list[tuple[float, Path]] = []
        for path in [*self.folder.glob("*.json"), *self.folder.glob(".new-*.tmp")]:
            with contextlib.suppress(OSError):  # another process may have deleted it
                found.append((path.stat().st_mtime, path))
        for _, path in sorted(found)[: max(0, len(found) - MAX_FILES)]:
            with contextlib.suppress(OSError):
                path.unlink()


def _read(found: Any) -> KnownServer | None:
    if not is_object(found) or found.get("format") != _FORMAT:
        return None
    lists: Any = found.get("lists")
    capabilities: Any = found.get("capabilities")
    instructions: Any = found.get("instructions")
    if not is_object(lists) or not is_object(capabilities):
        return None
    known = KnownServer(capabilities, instructions if isinstance(instructions, str) else None)
    known.asks = found.get("asks") is True
    has_sessions: Any = found.get("hasSessions")
    known.has_sessions = has_sessions if isinstance(has_sessions, bool) else None
    for method, pair in lists.items():
        if not is_list(pair) or len(pair) != 2 or not is_list(pair[0]) or not is_object(pair[1]):
            return None
        known.lists[method] = RawList([each for each in pair[0] if is_object(each)], pair[1])
    return known


def digest_of(name: str, target: Target, gateway: str = "") -> str | None:
    """Return the key of a server; ``None`` for one that has none: a server object or a pair of streams.

    Args:
        name: its name in the configuration.
        target: the server.
        gateway: what identifies the configuration, such as the path of its file.
    """
    if isinstance(target, HttpTarget):
        parts: list[Any] = ["http", target.label, sorted(map(str.lower, target.headers))]
    elif isinstance(target, StdioTarget):
        server = target.server
        environment = sorted(server.env or {})
        parts = ["stdio", server.command, list(server.args), environment, os.fspath(server.cwd or "")]
    else:
        return None
    return sha256(encode([_FORMAT, gateway, name, *parts])).hexdigest()[:40]


def default_folder() -> Path | None:
    """Return the folder of this user for the lists of gateways; ``None`` if ``FERRULE_GATEWAY_CACHE`` is empty.

    That variable names another folder.
    """
    said = os.environ.get("FERRULE_GATEWAY_CACHE")
    if said is not None:
        return Path(said) if said else None
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ferrule" / "gateway"
