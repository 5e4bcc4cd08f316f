"""``ferrule snapshot``: the definitions of a server in a file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ferrule.checks.changes.snapshots import snapshot_of
from ferrule.cli.checking.reading import read_picture
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.exits import EXIT_OK, EXIT_USAGE, Quit
from ferrule.cli.files import replace_file
from ferrule.cli.output import print_text, say

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  ferrule snapshot server.py --to tools.json
  ferrule diff tools.json server.py
"""


@click.command("snapshot", epilog=_EXAMPLES)
@connection_options
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="The file; stdout without it.")
def command(connection: ConnectionOptions, to: Path | None) -> int:
    """Write the definitions of the server TARGET with their digests, for `ferrule diff` and Client(pins=…).

    The lists differ in some revisions (--mode): take the one in which the server is used.
    """
    snapshot = snapshot_of(connection.run(read_picture(connection)))
    text = json.dumps(snapshot, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    if to is None:
        print_text(text.rstrip("\n"))
        return EXIT_OK
    try:
        replace_file(to, text.encode("utf-8", "backslashreplace"), 0o644)
    except OSError as error:
        raise Quit(EXIT_USAGE, f"cannot write {to}: {error}") from error
    say(f"{to}: {sum(len(snapshot[kind]) for kind in ('tools', 'resources', 'templates', 'prompts'))} definitions")
    return EXIT_OK
