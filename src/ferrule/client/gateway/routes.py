"""Which server behind a gateway has a name or a URI, and how the lists of all become one.

A tool ``search`` of the server ``docs`` is called ``docs_search``; resources keep their URIs. The last lists decide;
an item that would have another one's name or URI is left out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule.client.gateway.pages import LISTS, RawList, once_each
from ferrule.client.groups.names import NameBook, UriBook
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.uri_template import UriTemplate, first_match, normal_uri

if TYPE_CHECKING:
    from ferrule.client.config_settings import ServerSettings
    from ferrule.client.gateway.upstreams.upstream import Upstream

__all__ = ["MAX_NAME", "MAX_SKILL_FILES", "GatewayRoutes", "prefix_for"]

logger = logging.getLogger("ferrule.client.gateway")

MAX_NAME: Final = 64
"""Characters of the name of a tool or prompt, which model APIs allow; a longer one is cut and ends with a hash."""
MAX_SKILL_FILES: Final = 513
"""URIs of one skill whose server is remembered: what the specification allows, and its own."""


def prefix_for(label: str, taken: set[str]) -> str:
    """Return the prefix of a server's names, without the separator; no other server has it.

    Args:
        label: the name of the server in the configuration.
        taken: the prefixes of the others.
    """
    # Model APIs refuse anything else in a tool's name.
    prefix = wanted = re.sub(r"[^A-Za-z0-9_-]+", "_", label) or "server"
    while prefix in taken:
        prefix += "x"
    if prefix != wanted:
        logger.warning("Names of the server %r begin with %r: another one has %r", label, prefix, wanted)
    return prefix


class GatewayRoutes:
    """The names and URIs of the servers behind a gateway.

    Args:
        upstreams: the servers by name; the mapping may change, then call `reset`.

    Attributes:
        version: another number after each change of what has which name.
    """

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams
        self._templates: list[tuple[UriTemplate | None, str, Upstream]] = []
        self._names: dict[str, NameBook] = {}
        self._uris: dict[str, UriBook] = {}
        self.version = 0
        self.reset()

    def reset(self) -> None:
        """Take the prefixes of the servers anew, and forget their lists."""
        self.version += 1
        prefixes = {label: upstream.lead for label, upstream in self._upstreams.items()}
        self._names = {
            "tools": NameBook("tool", prefixes, limit=MAX_NAME),
            "prompts": NameBook("prompt", prefixes, limit=MAX_NAME),
        }
        self._uris = {
            "resources": UriBook("resource"),
            "resourceTemplates": UriBook("template"),
            "skills": UriBook("skill"),
            "tasks": UriBook("task"),
        }
        self._templates = []
        self._listed: frozenset[str] = frozenset()
        self._spellings: dict[str, dict[str, str]] = {}

    # -- lists ------------------------------------------------------------------------------------------------------

    def merge(self, method: str, lists: Iterable[tuple[Upstream, RawList]]) -> RawList:
        """Return the lists of several servers as one, and remember which server has what."""
        key, name = LISTS[method]
        found = [(upstream, _shown_items(upstream.settings.tools, key, name, made)) for upstream, made in lists]
        rest = _shortest_hint([made.rest for _, made in found])
        if key in self._names:
            items = self._named(key, found)
            if key == "tools":
                self._listed = frozenset(item["name"] for item in items)
            return RawList(items, rest)
        kept = self._uris[key].merge([(up.name, made.items) for up, made in found], lambda item: str(item[name]))
        if key == "skills":
            kept = [(server, item) for server, item in kept if self._claims(server, item)]
        if key in ("resources", "skills"):
            uris = [str(item[name]) for _, item in reversed(kept)]
            self._spellings[key] = {normal: uri for uri in uris if (normal := normal_uri(uri)) != uri}
        if key == "resourceTemplates":
            self._templates = [(_compiled(item[name]), item[name], self._upstreams[server]) for server, item in kept]
        return RawList([item for _, item in kept], rest)

    def _named(self, key: str, found: list[tuple[Upstream, RawList]]) -> list[Any]:
        own_names = [(upstream.name, [item["name"] for item in made.items]) for upstream, made in found]
        shown = self._names[key].merge(own_names)
        self.version += 1
        items: list[Any] = []
        for upstream, made in found:
            named = [(own, shown.get((upstream.name, own["name"]))) for own in once_each(made.items, "name")]
            items += [{**own, "name": called} for own, called in named if called is not None]
        return items

    def _claims(self, server: str, skill: Mapping[str, Any]) -> bool:
        """Return whether the files of a skill are its server's own, and remember that they are.

        A skill must not lead a read to another server. One whose files another server has is left out.
        """
        book = self._uris["resources"]
        files: Any = skill.get("resources")
        described = [file for file in files if is_mapping(file)] if is_list(files) else []
        uris = [str(skill.get("uri")), *(str(file.get("uri")) for file in described)]
        foreign = next((uri for uri in uris if book.owner(uri) not in (None, server)), None)
        if foreign is not None:
            logger.warning(
                "The skill %r of the server %r is left out: the server %r has %r",
                uris[0],
                server,
                book.owner(foreign),
                foreign,
            )
            return False
        for uri in uris[:MAX_SKILL_FILES]:
            book.remember(uri, server)
        return True

    # -- owners -----------------------------------------------------------------------------------------------------

    def is_open(self, kind: str, name: str) -> bool:
        """Return whether a list has to be read to find the server of a name.

        Args:
            kind: ``"tools"`` or ``"prompts"``.
            name: the name as clients see it.
        """
        return self._names[kind].is_open(name)

    def is_listed(self, tool: str) -> bool:
        """Return whether the last list of tools has a name."""
        return tool in self._listed

    def of_name(self, kind: str, name: str) -> tuple[Upstream, str] | None:
        """Return the server of a name, and the name there; ``None`` if there is none, or it is hidden."""
        found = self._names[kind].owner(name)
        upstream = None if found is None else self._upstreams.get(found[0])
        if found is None or upstream is None:
            return None
        tools = upstream.settings.tools
        own = found[1] if tools is None or kind != "tools" else tools.own_name(found[1])
        return None if own is None else (upstream, own)

    def spelled(self, uri: str) -> str:
        """Return a URI as a server has listed it, however it is spelled; in the normal form if none has listed it.

        Middleware judges this form, and it is what the server gets.
        """
        if self._uris["resources"].owner(uri) is not None or self._uris["skills"].owner(uri) is not None:
            return uri
        normal = normal_uri(uri)
        return next((found[normal] for found in self._spellings.values() if normal in found), normal)

    def of_uri(self, uri: str) -> Upstream | None:
        """Return the server of a URI by the last lists, or by a template; ``None`` if it is unknown."""
        uri = self.spelled(uri)
        name = self._uris["resources"].owner(uri) or self._uris["skills"].owner(uri)
        owner = self._upstreams.get(name) if name is not None else None
        if owner is None:
            found = first_match([template for template, _, _ in self._templates if template], uri)
            if found is not None:
                owner = next(upstream for template, _, upstream in self._templates if template is found[0])
        return owner

    def of_template(self, text: Any) -> Upstream | None:
        """Return the server that listed a template; ``None`` if none did."""
        return next((upstream for _, listed, upstream in self._templates if listed == text), None)

    def template_of(self, uri: str) -> str | None:
        """Return the listed template that matches a URI; ``None`` if none does."""
        found = first_match([template for template, _, _ in self._templates if template], self.spelled(uri))
        if found is None:
            return None
        return next(text for template, text, _ in self._templates if template is found[0])

    def of_task(self, task_id: str) -> Upstream | None:
        """Return the server that made a task; ``None`` if it is unknown."""
        name = self._uris["tasks"].owner(task_id)
        return None if name is None else self._upstreams.get(name)

    def remember_task(self, task_id: str, upstream: Upstream) -> None:
        """Remember which server made a task."""
        self._uris["tasks"].remember(task_id, upstream.name)

    def remember(self, uri: str, upstream: Upstream) -> None:
        """Remember that a server has a resource."""
        self._uris["resources"].remember(uri, upstream.name)


def _shown_items(settings: ServerSettings | None, key: str, name: str, made: RawList) -> RawList:
    """Return a list without items that have no name, and without tools that the configuration hides."""
    items = [item for item in made.items if is_mapping(item) and isinstance(item.get(name), str)]
    if settings is not None and key == "tools":
        items = [shown for item in items if (shown := settings.shown_tool(item)) is not None]
    return RawList(items, made.rest)


def _shortest_hint(rests: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the cache hint of a list made of several: nothing where one of them has none."""
    hints = [rest.get("ttlMs") for rest in rests]
    known = [hint for hint in hints if isinstance(hint, int)]
    return {"ttlMs": min(known)} if known and len(known) == len(hints) else {}


def _compiled(template: str) -> UriTemplate | None:
    """Return a template in compiled form; ``None`` if it is malformed: its URIs are tried at each server."""
    try:
        return UriTemplate(template)
    except ValueError:
        return None
