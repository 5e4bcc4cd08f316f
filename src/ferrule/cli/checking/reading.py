"""Reads a `ServerPicture` from a server or from a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule.checks.changes.snapshots import is_snapshot, picture_of
from ferrule.checks.picture import ServerPicture
from ferrule.checks.rules.pages import page_uri
from ferrule.cli.completion.known import remember
from ferrule.client.config_file import load_config

if TYPE_CHECKING:
    from ferrule.cli.connect import ConnectionOptions
    from ferrule.client.client import Client

__all__ = ["read_picture", "read_snapshot"]

MAX_PAGES = 50
"""Pages of tools that are read to be judged."""


def read_snapshot(text: str) -> ServerPicture | None:
    """Return the server of a snapshot file; ``None`` if the text names no file with a snapshot.

    Raises:
        click.UsageError: it is a snapshot that cannot be used.
    """
    path = Path(text)
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    try:
        value = load_config(path)  # a configuration, which may have comments, is no snapshot
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    try:
        return picture_of(value) if is_snapshot(value) else None
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from error


async def read_picture(connection: ConnectionOptions, *, pages: bool = False) -> ServerPicture:
    """Return what a server says about itself; TARGET may be a snapshot.

    Args:
        connection: the server.
        pages: read the pages of tools too (MCP Apps).
    """
    stored = read_snapshot(connection.target)
    if stored is not None:
        return stored
    from ferrule.cli.commands.list_ import read_lists
    from ferrule.wire.codec import to_builtins

    extensions = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}} if pages else None
    async with connection.client(extensions=extensions) as client:
        found = await read_lists(client, ("tools", "resources", "templates", "prompts"))
        remember(connection.target, found)
        lists: dict[str, Any] = {kind: to_builtins(items) for kind, items in found.items()}
        info = client.server_info
        return ServerPicture(
            name="" if info is None else info.name,
            version="" if info is None else info.version,
            protocol_version=client.protocol_version,
            instructions=client.instructions or "",
            pages=await _pages(client, lists["tools"]) if pages else {},
            **lists,
        )


async def _pages(client: Client, tools: list[dict[str, Any]]) -> dict[str, Any]:
    from ferrule.protocol.errors import FerruleError
    from ferrule.wire.codec import to_builtins

    uris = list(dict.fromkeys(uri for tool in tools if (uri := page_uri(tool)) is not None))
    made: dict[str, Any] = {}
    for uri in uris[:MAX_PAGES]:
        try:
            contents = to_builtins((await client.read_resource(uri)).contents)
        except FerruleError as error:
            made[uri] = {"error": str(error).partition("\n")[0]}
            continue
        if contents:
            made[uri] = {key: value for key, value in contents[0].items() if key not in ("text", "blob")}
        else:
            made[uri] = {"error": "it is empty"}
    return made
