"""``ferrule read``: the contents of a resource."""

from __future__ import annotations

from pathlib import Path

import click

from ferrule.cli.completion.names import complete_uri
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.content import print_contents
from ferrule.cli.output import print_json

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule read server.py memo://today
  ferrule read cursor:files file:///notes.txt --save out
"""


@click.command("read", epilog=_EXAMPLES)
@connection_options
@click.argument("uri", shell_complete=complete_uri)
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option("--save", type=click.Path(path_type=Path, file_okay=False), help="Save binary contents in this folder.")
def command(connection: ConnectionOptions, uri: str, as_json: bool, save: Path | None) -> None:
    """Read the resource URI of the server TARGET."""
    connection.run(_read(connection, uri, as_json or connection.is_json, save))


async def _read(connection: ConnectionOptions, uri: str, as_json: bool, save: Path | None) -> None:
    progress = connection.progress()
    async with connection.client() as client:
        try:
            result = await client.read_resource(uri, on_progress=progress.report)
        finally:
            progress.clear()
    if as_json:
        print_json(result)
    else:
        print_contents(result.contents, save)
