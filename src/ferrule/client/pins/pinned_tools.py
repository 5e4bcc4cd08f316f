"""``Client(pins=…)``: tools whose definitions are no longer those that a person has looked at are refused.

A server, or an attacker who controls it, can change what a tool says to the model after it was approved. The file of
``ferrule snapshot`` has the digest of each definition; a client with it leaves out of its lists, and refuses to call,
each tool that differs or is not in the file.

The list is read once for each session before the first call, again after the server has announced a change, and
whenever the program lists the tools. A server that changes a definition and does not say so is noticed then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ferrule.client.errors import DefinitionChanged
from ferrule.protocol.digests import definition_digest, essential_definition
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_mapping
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.client.parts import ClientParts
    from ferrule.client.settings import Pins

__all__ = ["PinnedTools"]

logger = logging.getLogger("ferrule.client")

FORMAT: Final = 1


class PinnedTools:
    """The tools of a snapshot, and which tools of the server differ from them.

    Args:
        pins: the snapshot.
        parts: the parts of the client.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no snapshot.
    """

    def __init__(self, pins: Pins, parts: ClientParts) -> None:
        self._source = "the pins" if is_mapping(pins) else str(pins)
        self._pinned = _read(pins, self._source)
        self._parts = parts
        self._refused: dict[str, list[str]] = {}
        self._known: set[str] = set()
        self._session: Any = None
        parts.messages.on_tools_changed = self._forget

    def kept(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools that are as pinned; each other one is reported in the log."""
        made: list[Tool] = []
        for tool in tools:
            why = self._differences(tool)
            self._known.add(tool.name)
            if why is None:
                self._refused.pop(tool.name, None)
                made.append(tool)
                continue
            if self._refused.get(tool.name) != why:
                logger.warning("%s", DefinitionChanged(tool.name, self._parts.label(), self._source, why))
            self._refused[tool.name] = why
        return made

    async def admit(self, name: str) -> None:
        """Return if a tool may be called; list the tools first where that is due.

        Raises:
            DefinitionChanged: it is not as pinned, or not in the snapshot.
        """
        session = await self._parts.sessions.ensure()
        if self._session is not session:
            self._known.clear()
            self._refused.clear()
            self._session = session  # before the list is read: a change that is announced meanwhile asks for another
            self.kept(await self._parts.reader.all_tools())
        why = self._refused.get(name)
        if why is None and name not in self._pinned:
            why = []
        if why is not None:
            raise DefinitionChanged(name, self._parts.label(), self._source, why)

    def _forget(self) -> None:
        self._session = None

    def _differences(self, tool: Tool) -> list[str] | None:
        """Return the members that differ, none for a tool that is not pinned; ``None`` if it is as pinned."""
        pinned = self._pinned.get(tool.name)
        if pinned is None:
            return []
        found: dict[str, Any] = to_builtins(tool)
        digest, definition = pinned
        if definition_digest(found) == digest:
            return None
        old, new = essential_definition(definition), essential_definition(found)
        return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)) or ["digest"]


def _read(pins: Pins, source: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return name → digest and definition of the tools of a snapshot."""
    value: Any = pins if is_mapping(pins) else json.loads(Path(str(pins)).read_text(encoding="utf-8"))
    if not is_mapping(value) or value.get("ferruleSnapshot") != FORMAT:
        raise ValueError(f"{source} is no snapshot; `ferrule snapshot TARGET --to FILE` makes one")
    tools = value.get("tools")
    made: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, entry in tools.items() if is_mapping(tools) else ():
        digest = entry.get("digest") if is_mapping(entry) else None
        if not isinstance(digest, str):
            raise ValueError(f"{source} has no digest for the tool {name!r}")
        definition: Any = entry.get("definition")
        made[name] = digest, definition if is_mapping(definition) else {}
    return made
