"""Reads a folder of skills: which skills and files there are, their frontmatter, sizes and digests.

A folder is checked while it is read. What cannot be served safely is refused: links that leave the folder, links in a
circle, and files that are no regular files. Hidden files and folders (names that begin with a dot) and
``__pycache__`` are left out: they are not part of a skill.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from ferrule.app.errors import RegistrationError
from ferrule.protocol.skills import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    FrontmatterError,
    digest_of,
    is_skill_name,
    read_frontmatter,
)

__all__ = [
    "Bounds",
    "FoundFile",
    "FoundSkill",
    "SkillFolderError",
    "Stamp",
    "check_frontmatter",
    "find_skills",
    "is_within",
    "read_at_most",
    "stamp_of",
    "uri_path",
]

MAX_DEPTH: Final = 32
"""Maximum nesting of folders."""

MAX_DESCRIPTION_CHARS: Final = 1024
"""Maximum length of a description (Agent Skills specification)."""

_SEGMENT: Final = "!$&'()*+,;=:@-._~"
"""Characters that a segment of a URI's path may have beside letters and digits (RFC 3986, section 3.3)."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, time of the last change of the contents, and of the last change of the file's facts, of one file."""


class SkillFolderError(RegistrationError):
    """A folder of skills cannot be served; the message names the file and the reason."""


class Bounds(Struct, frozen=True, kw_only=True):
    """The bounds of one folder of skills.

    Attributes:
        max_files: maximum number of files of one skill.
        max_bytes: maximum number of bytes of all files of one skill.
        max_skills: maximum number of skills.
    """

    max_files: int = MAX_SKILL_FILES
    max_bytes: int = MAX_SKILL_BYTES
    max_skills: int = 1000


class FoundFile(Struct, frozen=True):
    """One file of a folder of skills.

    Attributes:
        path: where it is.
        where: its path from the folder, with ``/``.
        stamp: its facts when it was read.
        digest: the digest of its bytes.
        is_text: whether its bytes are UTF-8 without NUL.
        frontmatter: the fields of a ``SKILL.md``; ``None`` for another file.
    """

    path: str
    where: str
    stamp: Stamp
    digest: str
    is_text: bool
    frontmatter: dict[str, Any] | None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.stamp[1]


class FoundSkill(Struct, frozen=True):
    """One skill of a folder.

    Attributes:
        where: the path of its directory from the folder, with ``/``; the name of the folder for the folder itself.
        frontmatter: that of its ``SKILL.md``.
        files: its files by their path from its directory, ``SKILL.md`` first.
        directories: the paths of its directories, from its directory.
    """

    where: str
    frontmatter: dict[str, Any]
    files: dict[str, FoundFile]
    directories: tuple[str, ...]


def find_skills(folder: Path, bounds: Bounds, known: Mapping[str, FoundFile]) -> list[FoundSkill]:
    """Return the skills of a folder: of the folder itself if it has a ``SKILL.md``, else of all folders below it.

    A skill in the folder of another one is a skill of its own, and its files are also files of the outer one.

    Args:
        folder: the folder.
        bounds: its bounds.
        known: files that were read before, by their paths; they are read again only if their facts have changed.

    Raises:
        SkillFolderError: something in the folder cannot be served.
        OSError: the folder cannot be read.
    """
    base = os.path.realpath(folder)
    if not os.path.isdir(base):
        raise SkillFolderError(f"{folder} is not a folder")
    walk = _Walk(base, bounds, known)
    tree = list(walk.entries(base, ()))
    # Everything in a directory follows its ``SKILL.md``, which is the first in it.
    starts = [index for index, entry in enumerate(tree) if entry.where[-1] == SKILL_FILE and not entry.is_directory]
    if len(starts) > bounds.max_skills:
        raise SkillFolderError(f"{folder} has more than {bounds.max_skills} skills")
    is_skill = bool(starts) and len(tree[starts[0]].where) == 1
    prefix = (os.path.basename(base),) if is_skill else ()
    return [_skill(walk, base, prefix, tree, start) for start in starts]


def check_frontmatter(frontmatter: Mapping[str, Any], folder_name: str, where: str) -> None:
    """Check the fields that every skill has.

    Args:
        frontmatter: the fields.
        folder_name: the name of the skill's directory.
        where: names the skill in the message.

    Raises:
        SkillFolderError: a field is missing or against the Agent Skills specification.
    """
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or not is_skill_name(name):
        raise SkillFolderError(
            f"{where} needs a name of 1 to 64 lowercase letters, digits and single hyphens: {name!r}"
        )
    if name != folder_name:
        raise SkillFolderError(
            f"{where} has the name {name!r}, and its folder is called {folder_name!r}: make them equal"
        )
    if not isinstance(description, str) or not description.strip():
        raise SkillFolderError(f"{where} needs a description")
    if len(description) > MAX_DESCRIPTION_CHARS:
        raise SkillFolderError(f"{where} has a description of more than {MAX_DESCRIPTION_CHARS} characters")


def uri_path(where: str) -> str:
    """Return a path with ``/`` as the path of a URI."""
    return "/".join(quote(segment, safe=_SEGMENT) for segment in where.split("/"))


class _Entry(NamedTuple):
    where: tuple[str, ...]
    path: str
    facts: os.stat_result

    @property
    def is_directory(self) -> bool:
        return S_ISDIR(self.facts.st_mode)


class _Walk:
    """The walk through one folder. It asks for the facts of each file once, and makes no objects of paths."""

    def __init__(self, base: str, bounds: Bounds, known: Mapping[str, FoundFile]) -> None:
        self._base = base
        self._known = dict(known)
        self._left = (bounds.max_files + 1) * bounds.max_skills
        self.bounds = bounds

    def entries(self, directory: str, where: tuple[str, ...]) -> Iterator[_Entry]:
        """Yield what is in a directory and below it, in the order of names, but a ``SKILL.md`` first."""
        if len(where) > MAX_DEPTH:
            raise SkillFolderError(f"{directory} is nested more than {MAX_DEPTH} folders deep")
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: (entry.name != SKILL_FILE, entry.name))
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__pycache__":
                continue
            self._left -= 1
            if self._left < 0:
                raise SkillFolderError(f"{self._base} has too many files")
            made = _Entry((*where, entry.name), entry.path, self._facts(entry, directory))
            yield made
            if made.is_directory:
                yield from self.entries(made.path, made.where)

    def _facts(self, entry: os.DirEntry[str], directory: str) -> os.stat_result:
        try:
            entry.name.encode()
            if entry.is_symlink():
                self._check_link(entry.path, directory)
            facts = entry.stat()
        except UnicodeEncodeError as error:
            raise SkillFolderError(f"{entry.path!r} has a name that is not UTF-8") from error
        except FileNotFoundError as error:
            raise SkillFolderError(f"{entry.path} is a link that leads nowhere") from error
        except OSError as error:
            raise SkillFolderError(f"{entry.path} cannot be read: {error.strerror}") from error
        if not S_ISREG(facts.st_mode) and not S_ISDIR(facts.st_mode):
            raise SkillFolderError(f"{entry.path} is neither a file nor a folder")
        return facts

    def _check_link(self, path: str, directory: str) -> None:
        target = os.path.realpath(path, strict=True)
        if not is_within(target, self._base):
            raise SkillFolderError(f"{path} is a link that leads out of {self._base}")
        # What leads to a folder that it is in is the only way round.
        if is_within(os.path.realpath(directory), target):
            raise SkillFolderError(f"{path} is a link in a circle")

    def file(self, entry: _Entry, where: str) -> FoundFile:
        """Return the facts of a file; its bytes are read if it has changed, and once if several skills have it."""
        path, stamp = entry.path, stamp_of(entry.facts)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp:
            return known
        try:
            data = read_at_most(path, self.bounds.max_bytes)
        except OSError as error:
            raise SkillFolderError(f"{path} cannot be read: {error.strerror}") from error
        if data is None:
            raise SkillFolderError(f"{path} is larger than {self.bounds.max_bytes:,} bytes")
        stamp = (stamp[0], len(data), *stamp[2:])
        frontmatter = _frontmatter(path, data) if entry.where[-1] == SKILL_FILE else None
        found = self._known[path] = FoundFile(path, where, stamp, digest_of(data), _is_text(data), frontmatter)
        return found


def stamp_of(facts: os.stat_result) -> Stamp:
    """Return the facts by which a changed file is noticed."""
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def is_within(path: str, folder: str) -> bool:
    """Return whether a real path is that of a folder, or leads below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def read_at_most(path: str, max_bytes: int) -> bytes | None:
    """Return the bytes of a file; ``None`` if there are more than ``max_bytes``.

    Raises:
        OSError: the file cannot be read, or is no regular file any more: a pipe in its place is not waited for.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        data = file.read(max_bytes + 1)
    return data if len(data) <= max_bytes else None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows lacks the flag


def _skill(walk: _Walk, base: str, prefix: tuple[str, ...], tree: Sequence[_Entry], start: int) -> FoundSkill:
    parent = tree[start].where[:-1]
    here, depth = os.path.join(base, *parent), len(parent)
    files: dict[str, FoundFile] = {}
    directories: list[str] = []
    total = 0
    for index in range(start, len(tree)):
        entry = tree[index]
        if entry.where[:depth] != parent:
            break
        inside = "/".join(entry.where[depth:])
        if entry.is_directory:
            directories.append(inside)
            continue
        if len(files) == walk.bounds.max_files:
            raise SkillFolderError(f"The skill {here} has more than {walk.bounds.max_files} files")
        files[inside] = found = walk.file(entry, "/".join((*prefix, *entry.where)))
        total += found.size
        if total > walk.bounds.max_bytes:
            raise SkillFolderError(f"The skill {here} has more than {walk.bounds.max_bytes:,} bytes")
    frontmatter = files[SKILL_FILE].frontmatter or {}
    check_frontmatter(frontmatter, os.path.basename(here), tree[start].path)
    return FoundSkill("/".join((*prefix, *parent)), frontmatter, files, tuple(directories))


def _frontmatter(path: str, data: bytes) -> dict[str, Any]:
    try:
        return read_frontmatter(data.decode())
    except UnicodeDecodeError as error:
        raise SkillFolderError(f"{path} is not UTF-8") from error
    except FrontmatterError as error:
        raise SkillFolderError(f"{path} {error}") from error


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
