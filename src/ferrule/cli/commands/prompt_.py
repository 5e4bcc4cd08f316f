"""``ferrule prompt``: the messages that a prompt becomes."""

from __future__ import annotations

from typing import Any

import click

from ferrule.cli.arguments import read_json_option, read_strings
from ferrule.cli.completion.names import complete_arguments, complete_prompt
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.content import print_blocks
from ferrule.cli.output import print_json, print_text

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule prompt server.py review language=python
"""


@click.command("prompt", epilog=_EXAMPLES)
@connection_options
@click.argument("name", shell_complete=complete_prompt)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=complete_arguments)
@click.option("--json", "given", metavar="JSON", help="The arguments as an object; @FILE, or - for stdin.")
def command(connection: ConnectionOptions, name: str, arguments: tuple[str, ...], given: str | None) -> None:
    """Fill in the prompt NAME of the server TARGET. Arguments of prompts are text."""
    connection.run(_prompt(connection, name, {**read_json_option(given), **read_strings(arguments)}))


async def _prompt(connection: ConnectionOptions, name: str, arguments: dict[str, Any]) -> None:
    async with connection.client() as client:
        result = await client.get_prompt(name, arguments or None)
    if connection.is_json:
        print_json(result)
        return
    for message in result.messages:
        print_text(f"{message.role}:")
        print_blocks([message.content], None)
