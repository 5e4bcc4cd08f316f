"""The rules about pages of tools (MCP Apps): the page is there, is a page, and has a policy that hosts understand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern

__all__ = ["check_pages", "page_uri"]

MIME_TYPE: Final = "text/html;profile=mcp-app"
_LISTS: Final = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
_ORIGIN = pattern(r"(https?|wss?)://(\*\.)?([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])(:([0-9]{1,5}|\*))?/?")


def page_uri(tool: Mapping[str, Any]) -> str | None:
    """Return the URI of the page that a tool names, also by the old flat key; ``None`` without one."""
    meta = tool.get("_meta")
    if not is_mapping(meta):
        return None
    ui = meta.get("ui")
    uri = ui.get("resourceUri") if is_mapping(ui) else meta.get("ui/resourceUri")
    return uri if isinstance(uri, str) else None


def check_pages(picture: ServerPicture) -> Iterator[RuleFinding]:
    """Return the findings about pages: F70 to F72. A page that was not read is not judged."""
    listed = {str(each.get("uri")): each for each in picture.resources}
    for kind, name, definition in picture.named():
        if kind != "tools" or (uri := page_uri(definition)) is None:
            continue
        meta: Any = definition.get("_meta")
        ui = meta.get("ui")
        if is_mapping(ui) and "csp" in ui:
            yield RuleFinding(
                "F72", kind, name, "/_meta/ui/csp", "has the policy of the page; it belongs to the resource"
            )
        page = picture.pages.get(uri)
        if page is None:
            continue
        if "error" in page:
            yield RuleFinding("F70", kind, name, "/_meta/ui/resourceUri", f"names {uri!r}: {page['error']}")
            continue
        if str(page.get("mimeType", "")).replace(" ", "").lower() != MIME_TYPE:
            yield RuleFinding("F71", kind, name, "", f"its page {uri!r} is of the type {page.get('mimeType')!r}")
        for entry in (page, listed.get(uri, {})):
            yield from (RuleFinding("F72", kind, name, "", f"its page {uri!r}: {words}") for words in _policy(entry))


def _policy(entry: Mapping[str, Any]) -> Iterator[str]:
    meta = entry.get("_meta")
    ui = meta.get("ui") if is_mapping(meta) else None
    csp = ui.get("csp") if is_mapping(ui) else None
    if csp is None:
        return
    if not is_mapping(csp):
        yield "csp is not an object"
        return
    for key, origins in csp.items():
        if key not in _LISTS:
            yield f"csp has no list {key!r}"
        elif not is_list(origins):
            yield f"{key} is not a list"
        else:
            bad = [each for each in origins if not (isinstance(each, str) and _ORIGIN.fullmatch(each))]
            if bad:
                yield f"{key}: {str(bad[0])[:100]!r} is not an origin such as https://cdn.example.com"
