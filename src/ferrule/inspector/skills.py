"""Skills for the page: their entries, and files that are verified before they are shown (SEP-2640)."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, cast

from ferrule.app.results.content import media_type_of
from ferrule.client.skills.entries import files_of
from ferrule.protocol.skills import digest_of, root_of

if TYPE_CHECKING:
    from ferrule.client.client import Client
    from ferrule.client.skills.skill import ServerSkill

__all__ = ["list_skills", "read_skill_file"]


async def list_skills(client: Client) -> list[dict[str, Any]]:
    """Return the listed skills as the JSON objects that the page shows; no file is read.

    ``files`` has the path, URI, digest and size in bytes of each file, and is null for a dynamic skill.

    Raises:
        ExtensionNotOffered: the server does not declare skills; nothing is sent to it.
        LocalError, RemoteError: the list cannot be read.
    """
    return [_describe(skill) for skill in await client.list_skills()]


async def read_skill_file(client: Client, skill: str, uri: str, digest: str | None) -> dict[str, Any]:
    """Return one file of a skill as contents of a resource, with ``digest``, ``size`` and ``isVerified``.

    The file is compared with an entry that is requested now, so a failed comparison does not affect later reads.

    Args:
        client: is connected to the server.
        skill: the URI of the skill's ``SKILL.md``.
        uri: the URI of the file.
        digest: the digest that the page shows for the file; ``None`` for a file of a dynamic skill.

    Raises:
        SkillVerificationFailed: the file is not as the entry describes it, or the skill exceeds the limits.
        ValueError: the entry has another digest than the page, or PyYAML is not installed.
        LocalError, RemoteError: the entry or the file cannot be read.
    """
    found = await client.get_skill(skill)
    described = [] if found.is_dynamic else _files(found)
    if digest is not None and not any(file["uri"] == uri and file["digest"] == digest for file in described):
        raise ValueError("The server's entry of this skill has changed since the list was loaded: reload the list")
    try:
        data = await found.read(uri)
    except ImportError as error:
        raise ValueError(str(error)) from error
    facts = {"uri": uri, "digest": digest_of(data), "size": len(data), "isVerified": not found.is_dynamic}
    try:
        return {**facts, "text": data.decode()}
    except UnicodeDecodeError:
        return {**facts, "mimeType": media_type_of(uri), "blob": b64encode(data).decode()}


def _describe(skill: ServerSkill) -> dict[str, Any]:
    return {
        "uri": skill.uri,
        "name": skill.name,
        "description": skill.description,
        "frontmatter": skill.frontmatter,
        "declined": skill.declined,
        "files": None if skill.is_dynamic else _files(skill),
    }


def _files(skill: ServerSkill) -> list[dict[str, Any]]:
    found = files_of(skill.entry, cast("str", root_of(skill.uri))) or {}
    return [{"path": path, "uri": file.uri, "digest": file.digest, "size": file.size} for path, file in found.items()]
