"""The names that a server had when a command last listed them, for completion: Tab starts no server.

There is one small file for each TARGET in the cache folder of the user, named by a digest of TARGET. A file has names
of tools, arguments, resources and prompts, the values of enumerations, and the first words of descriptions; nothing of
the configuration, no header, no variable, no argument that was given, and no URI with a user or a query, which may hold
a key. What cannot be read, or was written by another version, counts as not there.

Nothing here may fail a command: a folder that cannot be written leaves completion without names.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_FILES", "MAX_FILE_BYTES", "MAX_NAMES", "MAX_NAME_LENGTH", "folder", "recall", "remember"]

MAX_FILES: Final = 100
"""Files in the folder; those that were written longest ago are deleted."""
MAX_FILE_BYTES: Final = 256 << 10
"""Bytes of one server's file; of larger lists nothing is kept."""
MAX_NAMES: Final = 1000
"""Names of one kind; also arguments of one tool, and values of one argument, of which 100 are kept."""
MAX_NAME_LENGTH: Final = 300
"""Characters of a name, a URI or a value; longer ones are not kept."""

_FORMAT: Final = 1
_MAX_PARTS: Final = 100
_MAX_DESCRIPTION: Final = 80


def folder() -> Path | None:
    """Return the folder of this user; ``None`` if ``FERRULE_COMPLETION_CACHE`` is empty: then nothing is kept.

    That variable names another folder. Otherwise it is ``ferrule/completion`` in ``$XDG_CACHE_HOME`` or ``~/.cache``
    (macOS: ``~/Library/Caches``, Windows: ``%LOCALAPPDATA%``).
    """
    said = os.environ.get("FERRULE_COMPLETION_CACHE")
    if said is not None:
        return Path(said) if said else None
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "ferrule" / "completion"


def remember(target: str, lists: Mapping[str, Sequence[Any]]) -> None:
    """Keep the names of a server; a kind that is not given stays as it was.

    Args:
        target: TARGET as typed; with a server of a configuration, ``FILE:NAME``.
        lists: ``tools``, ``resources``, ``templates``, ``prompts`` → the listed items.
    """
    found = {kind: _READERS[kind](items) for kind, items in lists.items() if kind in _READERS}
    if not found:
        return
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
        path = _path(target)
        if path is None:
            return
        text = json.dumps({"format": _FORMAT, **_read(path), **found}, separators=(",", ":"))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(text) > MAX_FILE_BYTES:
            path.unlink(missing_ok=True)
            return
        _replace(path, text.encode("ascii"))
        _delete_oldest(path.parent)


def recall(target: str) -> dict[str, Any]:
    """Return the names of a server; empty where none are known.

    Returns:
        ``tools``: name → ``{"about": text, "arguments": {name: [values]}}``; ``prompts`` likewise; ``resources`` and
        ``templates``: URI → about.
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        path = _path(target)
        return {} if path is None else _read(path)
    return {}


def _path(target: str) -> Path | None:
    from hashlib import sha256

    from ferrule.cli.targets import split_path

    where = folder()
    if where is None:
        return None
    text = target.strip()
    path, name = split_path(text)
    if path is not None:
        key = f"file {path.resolve()} {name or ''}"
    elif any(character.isspace() for character in text):  # a command line may name files of this folder
        key = f"command {Path.cwd()} {text}"
    else:
        key = f"name {text}"
    return where / f"{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not is_object(found) or found.get("format") != _FORMAT:
        return {}
    return {kind: items for kind, items in found.items() if kind in _READERS and is_object(items)}


def _replace(path: Path, content: bytes) -> None:
    """Write a file in one step, for this user alone; as `ferrule.cli.files`, without the imports of `tempfile`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _delete_oldest(where: Path) -> None:
    found: list[tuple[float, Path]] = []
    for path in where.glob("*.json"):
        with contextlib.suppress(OSError):  # another process may have deleted it
            found.append((path.stat().st_mtime, path))
    for _, path in sorted(found)[: max(0, len(found) - MAX_FILES)]:
        with contextlib.suppress(OSError):
            path.unlink()


def _tools(items: Sequence[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for tool in items[:MAX_NAMES]:
        if _is_kept(tool.name):
            made[tool.name] = {"about": _about(tool), "arguments": _arguments(tool.input_schema)}
    return made


def _prompts(items: Sequence[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for prompt in items[:MAX_NAMES]:
        if _is_kept(prompt.name):
            names = [each.name for each in (prompt.arguments or ())[:_MAX_PARTS] if _is_kept(each.name)]
            made[prompt.name] = {"about": _about(prompt), "arguments": dict.fromkeys(names, ())}
    return made


def _resources(items: Sequence[Any]) -> dict[str, str]:
    return {item.uri: _about(item) for item in items[:MAX_NAMES] if _is_kept(item.uri) and _is_public(item.uri)}


def _templates(items: Sequence[Any]) -> dict[str, str]:
    return {
        item.uri_template: _about(item)
        for item in items[:MAX_NAMES]
        if _is_kept(item.uri_template) and _is_public(item.uri_template.partition("{")[0])
    }


_READERS: Final[Mapping[str, Any]] = {
    "tools": _tools,
    "prompts": _prompts,
    "resources": _resources,
    "templates": _templates,
}


def _arguments(schema: Any) -> dict[str, list[str]]:
    """Return argument → the values that it may have, as they are typed; empty for those that may have any."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(properties):
        return {}
    made: dict[str, list[str]] = {}
    for name, part in list(properties.items())[:_MAX_PARTS]:
        if _is_kept(name):
            made[name] = [text for text in _values(part) if _is_kept(text)][:_MAX_PARTS]
    return made


def _values(part: Any) -> list[str]:
    if not is_object(part):
        return []
    kind, items = part.get("type"), part.get("items")
    if kind == "array" and is_object(items):
        part, kind = items, items.get("type")
    found: list[Any] = cast("list[Any]", part.get("enum")) if is_list(part.get("enum")) else []
    for branch in part.get("anyOf") or () if is_list(part.get("anyOf")) else ():
        if is_object(branch) and is_list(branch.get("enum")):
            found = [*found, *cast("list[Any]", branch["enum"])]
    if kind == "boolean":
        found = [True, False]
    return [value if isinstance(value, str) else json.dumps(value) for value in found[: 2 * _MAX_PARTS]]


def _is_kept(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MAX_NAME_LENGTH


def _is_public(uri: str) -> bool:
    """Return whether a URI has neither user nor query."""
    head, mark, _ = uri.partition("?")
    authority = head.partition("://")[2].partition("/")[0]
    return not mark and "@" not in authority


def _about(item: Any) -> str:
    text = (item.title or "").strip() or (item.description or "").strip()
    first = " ".join(text.partition("\n")[0].split())
    return first if len(first) <= _MAX_DESCRIPTION else f"{first[: _MAX_DESCRIPTION - 1]}…"
