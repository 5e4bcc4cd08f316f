"""Pages of tools (`io.modelcontextprotocol/ui`) as servers and gateways see them: their type, and the names in them."""

from __future__ import annotations

from typing import Final

__all__ = ["PAGE_MIME_TYPE", "PAGE_URI_SCHEME", "with_tool_prefix"]

PAGE_MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The media type of pages."""
PAGE_URI_SCHEME: Final = "ui://"


def with_tool_prefix(html: str, prefix: str) -> str:
    """Return a page whose `view.call` puts a prefix before the names of tools (``window.mcpPrefix``).

    Args:
        html: the page; each server that it passes puts its prefix before those of the servers behind it.
        prefix: letters, digits, ``_``, ``-`` and ``.``.
    """
    end = html.index(">") + 1 if ">" in html else 0
    script = f'<script>window.mcpPrefix = (window.mcpPrefix || "") + "{prefix}";</script>'
    return f"{html[:end]}{script}{html[end:]}"
