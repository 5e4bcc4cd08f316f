"""Snapshots: the definitions of a server in a file, with the digest of each, for comparisons and for ``pins=``.

The file is JSON with sorted members, so that the difference of two files can be read in a review.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ferrule.checks.picture import KINDS, ServerPicture
from ferrule.protocol.digests import DEFINITION_KEYS, definition_digest
from ferrule.wire.json_types import is_mapping

__all__ = ["FORMAT", "is_snapshot", "picture_of", "snapshot_of"]

FORMAT: Final = 1
"""The number of the format."""


def snapshot_of(picture: ServerPicture) -> dict[str, Any]:
    """Return a server as a snapshot."""
    made: dict[str, Any] = {
        "ferruleSnapshot": FORMAT,
        "server": {"name": picture.name, "version": picture.version},
        "protocolVersion": picture.protocol_version,
        "instructions": picture.instructions,
    }
    for kind in KINDS:
        key = DEFINITION_KEYS[kind]
        made[kind] = {
            str(each.get(key, "")): {"digest": definition_digest(each), "definition": dict(each)}
            for each in sorted(picture.definitions(kind), key=lambda each: str(each.get(key, "")))
        }
    return made


def is_snapshot(value: Any) -> bool:
    """Return whether a JSON value is a snapshot of any format."""
    return is_mapping(value) and "ferruleSnapshot" in value


def picture_of(snapshot: Mapping[str, Any]) -> ServerPicture:
    """Return the server of a snapshot.

    Raises:
        ValueError: the format is another one, or the snapshot is malformed.
    """
    if snapshot.get("ferruleSnapshot") != FORMAT:
        raise ValueError(f"The snapshot has the format {snapshot.get('ferruleSnapshot')!r}; {FORMAT} is known")
    server = snapshot.get("server")
    about: Mapping[str, Any] = server if is_mapping(server) else {}
    lists: dict[str, list[Mapping[str, Any]]] = {}
    for kind in KINDS:
        entries = snapshot.get(kind, {})
        if not is_mapping(entries):
            raise ValueError(f"{kind!r} of the snapshot is not an object")
        lists[kind] = [_definition(kind, name, entry) for name, entry in entries.items()]
    return ServerPicture(
        name=str(about.get("name", "")),
        version=str(about.get("version", "")),
        protocol_version=str(snapshot.get("protocolVersion", "")),
        instructions=str(snapshot.get("instructions", "")),
        tools=lists["tools"],
        resources=lists["resources"],
        templates=lists["templates"],
        prompts=lists["prompts"],
    )


def _definition(kind: str, name: str, entry: Any) -> Mapping[str, Any]:
    definition = entry.get("definition") if is_mapping(entry) else None
    if not is_mapping(definition) or str(definition.get(DEFINITION_KEYS[kind])) != name:
        raise ValueError(f"The snapshot has no definition of {kind}/{name}")
    return definition
