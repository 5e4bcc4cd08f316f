"""`ServerPicture`: what a server says about itself, as JSON, in one frozen value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ferrule.protocol.digests import DEFINITION_KEYS
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import Value

__all__ = ["KINDS", "ServerPicture"]

KINDS = tuple(DEFINITION_KEYS)
"""``tools``, ``resources``, ``templates``, ``prompts``."""

Definition = Mapping[str, Any]


class ServerPicture(Value, frozen=True, kw_only=True):
    """The identity and the lists of a server, each entry as it was received.

    Attributes:
        name: the name that the server gives itself; empty without one.
        version: its version; empty without one.
        protocol_version: the revision in which the lists were read; empty if unknown.
        instructions: its guidance for the model; empty without any.
        tools, resources, templates, prompts: the entries of the lists.
        pages: URI → content item (without its text) of the pages that tools name, or ``{"error": …}``; a page that was
            not read is absent.
    """

    name: str = ""
    version: str = ""
    protocol_version: str = ""
    instructions: str = ""
    tools: Sequence[Definition] = ()
    resources: Sequence[Definition] = ()
    templates: Sequence[Definition] = ()
    prompts: Sequence[Definition] = ()
    pages: Mapping[str, Definition] = {}

    def definitions(self, kind: str) -> Sequence[Definition]:
        """Return the entries of a kind of `KINDS`."""
        found: Sequence[Definition] = {
            "tools": self.tools,
            "resources": self.resources,
            "templates": self.templates,
            "prompts": self.prompts,
        }[kind]
        return found

    def named(self) -> Iterator[tuple[str, str, Definition]]:
        """Return kind, name and definition of every entry."""
        for kind, key in DEFINITION_KEYS.items():
            for each in self.definitions(kind):
                if is_mapping(each):
                    yield kind, str(each.get(key, "")), each
