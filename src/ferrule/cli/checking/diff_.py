"""``ferrule diff``: what changed between two versions of a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ferrule.checks.changes.differences import CATEGORIES, Difference, differences
from ferrule.checks.picture import ServerPicture
from ferrule.cli.checking.reading import read_picture
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK
from ferrule.cli.output import print_json, print_text

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  ferrule diff tools.json server.py
  ferrule diff old.json new.json -o json
  ferrule diff "uvx mcp-server-time==1.0" "uvx mcp-server-time" --fail-on compatible
"""


@click.command("diff", epilog=_EXAMPLES)
@connection_options
@click.argument("new", metavar="NEW")
@click.option(
    "--fail-on",
    type=click.Choice([*CATEGORIES, "never"]),
    default="breaking",
    show_default=True,
    help="From which kind of change on the exit status is 1.",
)
def command(connection: ConnectionOptions, new: str, fail_on: str) -> int:
    """Show what changed from TARGET to NEW; each is a snapshot or a server.

    breaking: a program or a model that knows the old definitions may fail. compatible: it goes on. wording: only what
    people and models read.
    """

    async def read() -> tuple[ServerPicture, ServerPicture]:
        return await read_picture(connection), await read_picture(replace(connection, target=new))

    found = differences(*connection.run(read()))
    if connection.is_json:
        print_json(_as_json(found))
    else:
        _print(found)
    fails = () if fail_on == "never" else CATEGORIES[: CATEGORIES.index(fail_on) + 1]
    return EXIT_FAILED if any(each.category in fails for each in found) else EXIT_OK


def _as_json(found: list[Difference]) -> dict[str, Any]:
    return {
        "changes": [
            {
                "category": each.category,
                "kind": each.kind,
                "name": each.name,
                "path": each.path,
                "message": each.message,
            }
            for each in found
        ],
        "counts": {category: sum(each.category == category for each in found) for category in CATEGORIES},
    }


def _print(found: list[Difference]) -> None:
    for category in CATEGORIES:
        chosen = [each for each in found if each.category == category]
        if chosen:
            print_text(f"{category} ({len(chosen)})")
        for each in chosen:
            named = f"{each.kind}/{each.name}" if each.name else each.kind
            print_text(f"  {named}{f'#{each.path}' if each.path else ''}: {each.message}")
    if not found:
        print_text("no difference")
