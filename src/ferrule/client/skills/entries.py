"""The checks of entries of skills, and of the bytes of their files (SEP-2640, "Skill Entries", "Integrity")."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import unquote

from ferrule.client.errors import BadServerResponse
from ferrule.protocol.skills import (
    DYNAMIC,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    digest_of,
    is_digest,
    name_in_uri,
    root_of,
)
from ferrule.wire.types import ReadResourceResult
from ferrule.wire.types.skills import Skill, SkillResource
from ferrule.wire.uri_template import normal_uri

__all__ = ["bytes_of", "checked_entry", "excess_of", "fault_of", "files_of", "fingerprint_of"]


def checked_entry(entry: Skill) -> Skill:
    """Return an entry whose parts fit together.

    Raises:
        BadServerResponse: they do not.
    """
    root = root_of(entry.uri)
    name = entry.frontmatter.get("name")
    if root is None:
        raise BadServerResponse(f"{entry.uri[:200]!r} is not the URI of a {SKILL_FILE}")
    if not isinstance(name, str) or not isinstance(entry.frontmatter.get("description"), str):
        raise BadServerResponse(f"The frontmatter of {entry.uri[:200]} has no name or no description")
    if unquote(name_in_uri(entry.uri)) != name:
        raise BadServerResponse(f"{entry.uri[:200]} does not end in the name of the skill, {name[:100]!r}")
    files_of(entry, root)
    return entry


def files_of(entry: Skill, root: str) -> dict[str, SkillResource] | None:
    """Return the files of an entry by their paths; ``None`` for a dynamic skill.

    Raises:
        BadServerResponse: a file is described wrongly, twice, or is not within the skill's directory.
    """
    if entry.resources == DYNAMIC:
        return None
    files: dict[str, SkillResource] = {}
    for file in entry.resources:
        path = unquote(file.uri[len(root) + 1 :])
        if not file.uri.startswith(f"{root}/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise BadServerResponse(f"{file.uri[:200]} is not within the skill {root[:200]}")
        if not is_digest(file.digest) or file.size < 0:
            raise BadServerResponse(f"The digest or the size of {file.uri[:200]} is malformed")
        if path in files:
            raise BadServerResponse(f"{file.uri[:200]} is listed twice")
        files[path] = file
    if SKILL_FILE not in files:
        raise BadServerResponse(f"The files of {entry.uri[:200]} do not have its {SKILL_FILE}")
    return files


def excess_of(files: Iterable[SkillResource]) -> str | None:
    """Return which limit of the specification a skill with these files exceeds; ``None`` if none."""
    sizes = [file.size for file in files]
    if len(sizes) > MAX_SKILL_FILES:
        return f"has {len(sizes)} files, more than {MAX_SKILL_FILES}"
    if sum(sizes) > MAX_SKILL_BYTES:
        return f"has {sum(sizes):,} bytes, more than {MAX_SKILL_BYTES:,}"
    return None


def fingerprint_of(files: Iterable[SkillResource]) -> str:
    """Return one digest for the URIs and digests of a skill's files."""
    lines = sorted(f"{file.digest} {file.uri}" for file in files)
    return sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def bytes_of(result: ReadResourceResult, uri: str) -> bytes | None:
    """Return the bytes of the one content that a read of ``uri`` has; ``None`` if there is another number of them."""
    found = [each for each in result.contents if each.uri == uri or normal_uri(each.uri) == normal_uri(uri)]
    if len(found) != 1:
        return None
    if found[0].text is not None:
        return found[0].text.encode("utf-8", "replace")
    try:
        return b64decode(found[0].blob or "", validate=True)
    except ValueError:
        return None


def fault_of(data: bytes, file: SkillResource) -> str | None:
    """Return how a file differs from its description; ``None`` if it does not."""
    if len(data) != file.size:
        return f"has {len(data):,} bytes, and {file.size:,} by the entry"
    return None if digest_of(data) == file.digest else "has another digest than by the entry"
