"""``ferrule card``: the card of a server, as clients read it before they connect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from ferrule.cli.exits import EXIT_FAILED, EXIT_OK, Quit
from ferrule.cli.output import print_json, say
from ferrule.cli.targets import complete_target, split_path
from ferrule.client.addresses import has_scheme

__all__ = ["command"]

_LOCAL_URL = "http://127.0.0.1:8000/mcp"
_EXAMPLES = """\b
Examples:
  ferrule card server.py --url https://weather.example.com/mcp
  ferrule card server.py --catalog > ai-catalog.json
  ferrule card https://weather.example.com/mcp
  ferrule card example.com
"""


@click.command("card", epilog=_EXAMPLES)
@click.argument("target", shell_complete=complete_target)
@click.option("--url", metavar="URL", help="URL of the endpoint, for a file (default: that of app.card(url=…)).")
@click.option("--catalog", is_flag=True, help="Print the catalog of the site instead, for a file.")
def command(target: str, url: str | None, catalog: bool) -> int:
    """Print the server card of TARGET: a Python file, the URL of an MCP endpoint, or a domain.

    For a file the card is made, without serving it. For a URL it is read from URL/server-card, and without one from the
    catalog of the site. For a domain all servers of its catalog are printed, with the address of each.
    """
    path, attribute = split_path(target)
    if path is not None and path.suffix == ".py":
        _print_of_file(path, attribute or None, url, catalog)
        return EXIT_OK
    if url is not None or catalog:
        raise click.UsageError("--url and --catalog are for a Python file")
    if "." not in target and ":" not in target and target != "localhost":
        raise click.UsageError(f"{target!r} is no Python file, URL or domain")
    return asyncio.run(_print_of_site(target))


def _print_of_file(path: Path, attribute: str | None, url: str | None, catalog: bool) -> None:
    from ferrule.cli.loading import load_app, lowlevel_of
    from ferrule.extensions.cards.publishing import CardDocuments
    from ferrule.transports.asgi.public_documents import PublicDocuments
    from ferrule.wire.codec import to_builtins
    from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

    server = lowlevel_of(load_app(path, attribute))
    documents: Any = server.attachments.get(PublicDocuments)
    if not isinstance(documents, CardDocuments):
        say("the server publishes no card yet; with app.card() it publishes this one")
        documents = CardDocuments(server)
    where = url or documents.fixed_url or _LOCAL_URL
    versions = [*reversed(server.modern_versions), *reversed(HANDSHAKE_PROTOCOL_VERSIONS)]
    made = documents.catalog(where) if catalog else documents.card(where, versions)
    print_json(to_builtins(made))


async def _print_of_site(target: str) -> int:
    from ferrule.auth.errors import AuthError
    from ferrule.extensions.cards.discovery import CardDiscoveryFailed, discover, read_card
    from ferrule.wire.codec import to_builtins

    try:
        found = await read_card(target) if has_scheme(target) else None
        if found is not None:
            print_json(to_builtins(found.card))
            return EXIT_OK
        servers = await discover(target)
    except (CardDiscoveryFailed, AuthError) as error:
        raise Quit(EXIT_FAILED, str(error)) from None
    rows: list[dict[str, Any]] = []
    for server in servers:
        try:
            address, problem = server.address(), server.problem
        except (CardDiscoveryFailed, AuthError) as error:
            address, problem = None, str(error)
        row = {"identifier": server.identifier, "address": address, "problem": problem, "card": server.card}
        rows.append({key: value for key, value in row.items() if value is not None})
    print_json(to_builtins(rows))
    return EXIT_OK if any("address" in row for row in rows) else EXIT_FAILED
