"""Reading a whole list of a server behind, page by page, as it came."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["ANNOUNCED_S", "LISTS", "MAX_KEPT_S", "MAX_PAGES", "RawList", "all_pages", "hints_of", "once_each"]

logger = logging.getLogger("ferrule.client.gateway")

LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "skills/list": ("skills", "uri"),
}
"""Method of a list → the member of its result with the items, and the field with an item's name."""
MAX_PAGES: Final = 1000
"""Pages of one list that are read."""
ANNOUNCED_S: Final = 60.0
"""Seconds that a list without ``ttlMs`` is reused, if its server announces changes."""
MAX_KEPT_S: Final = 300.0
"""Maximum number of seconds that a list is reused, for any ``ttlMs``."""


@dataclass(slots=True)
class RawList:
    """A list with its members as they came.

    Attributes:
        items: the members.
        rest: what the first page has beside its members and the cursor: cache hints, ``_meta`` and the like.
    """

    items: list[Any] = field(default_factory=list[Any])
    rest: dict[str, Any] = field(default_factory=dict[str, Any])


async def all_pages(
    ask: Callable[[dict[str, Any]], Awaitable[Any]],
    params: Mapping[str, Any],
    *,
    method: str,
    key: str,
    name: str,
    label: str,
) -> RawList:
    """Return every page of a list as one.

    Args:
        ask: returns the raw page for params.
        params: the params of the request for the list; its cursor is left out.
        method: the method, for the log.
        key: the member of a page that has the items.
        name: the field that names an item.
        label: what to call the server in the log.
    """
    made = RawList()
    seen: set[str] = set()
    sent = {each: value for each, value in params.items() if each != "cursor"}
    for number in range(MAX_PAGES):
        page: Any = await ask(sent)
        if not is_mapping(page):
            return made
        if number == 0:
            made.rest = {each: value for each, value in page.items() if each not in (key, "nextCursor")}
        found: Any = page.get(key)
        made.items += found if is_list(found) else []
        cursor: Any = page.get("nextCursor")
        if cursor is None:
            return made
        if not isinstance(cursor, str) or cursor in seen:
            logger.warning("%s of the server %r gives the cursor %.80r again", method, label, cursor)
            made.items = once_each(made.items, name)
            return made
        seen.add(cursor)
        sent = {**sent, "cursor": cursor}
    logger.warning("%s of the server %r has more than %d pages; the rest is left out", method, label, MAX_PAGES)
    return made


def once_each(items: Iterable[Any], name: str) -> list[Any]:
    """Return the first item of each name, in order."""
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(item[name], item)
    return list(found.values())


def hints_of(rest: Mapping[str, Any]) -> float | None:
    """Return the seconds that a server allows its list to be reused, at most `MAX_KEPT_S`.

    ``None``: the server does not say."""
    ttl_ms: Any = rest.get("ttlMs")
    # An integer of a server may be too long for a division.
    return min(ttl_ms, MAX_KEPT_S * 1000) / 1000 if isinstance(ttl_ms, int | float) and ttl_ms >= 0 else None
