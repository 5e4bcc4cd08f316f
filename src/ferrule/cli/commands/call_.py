"""``ferrule call``: one tool, its progress, its questions, its result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.arguments import read_arguments, read_json_option
from ferrule.cli.completion.names import complete_arguments, complete_tool
from ferrule.cli.configured.finding import find_tool, server_with_tool, similar_names
from ferrule.cli.configured.servers import has_several
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.content import print_blocks
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK
from ferrule.cli.output import print_json, print_json_line, print_text, say, terminal_safe

if TYPE_CHECKING:
    from ferrule.client.client import Client
    from ferrule.wire.types import Tool

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule call server.py add a=2 b=40
  ferrule call server.py search words=brass words=steel 'options:={"limit": 3}'
  ferrule call server.py add --json '{"a": 2, "b": 40}'
  ferrule call mcp.json --server notes add text=milk
  ferrule call https://tools.example/mcp report --token TOKEN --save out
"""


@click.command("call", epilog=_EXAMPLES)
@connection_options
@click.argument("tool", shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=complete_arguments)
@click.option("--json", "given", metavar="JSON", help="The arguments as an object; @FILE, or - for stdin.")
@click.option("--task", "as_task", is_flag=True, help="Start the call as a task, print the task's id, and do not wait.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, file_okay=False),
    help="Save images, audio and other binary content in this folder.",
)
def command(
    connection: ConnectionOptions,
    tool: str,
    arguments: tuple[str, ...],
    given: str | None,
    as_task: bool,
    save: Path | None,
) -> int:
    """Call TOOL of the server TARGET.

    An argument is NAME=VALUE, converted to the type in the tool's schema; NAME:=JSON is read as JSON, NAME=@FILE from a
    file. For a list, repeat the name. --json has all arguments in one object, to which pairs add.

    A tool behind a search (see ferrule list) is called by its own name, too. Of a configuration with several servers,
    the one that has the tool is called; --server names one.
    """
    values = read_json_option(given)
    if has_several(connection.target):
        connection = connection.run(server_with_tool(connection, tool))
    return connection.run(_call(connection, tool, arguments, values, as_task, save))


async def _call(
    connection: ConnectionOptions,
    tool: str,
    pairs: Sequence[str],
    given: dict[str, Any],
    as_task: bool,
    save: Path | None,
) -> int:
    progress = connection.progress()
    async with connection.client(**(connection.asking_later() if as_task else {})) as client:
        schema = None
        if pairs:
            schema = (await _definition(connection, client, tool)).input_schema
        arguments = {**given, **read_arguments(pairs, schema)}
        if as_task:
            handle = await client.start_tool(tool, arguments)
            if handle.task_id is not None:
                _print_task(connection, handle.task_id)
                return EXIT_OK
            say("the server made no task of it, and answers at once")
            result = await handle.result()
            return _print_result(connection, tool, result, save)
        try:
            result = await client.call_tool(tool, arguments, on_progress=progress.report)
        finally:
            progress.clear()
    return _print_result(connection, tool, result, save)


async def _definition(connection: ConnectionOptions, client: Client, name: str) -> Tool:
    """Return a tool of the server's list, or behind the search that is listed in its place.

    Raises:
        click.UsageError: there is none.
    """
    found, names = await find_tool(connection, client, name)
    if found is not None:
        return found
    raise click.UsageError(terminal_safe(f"The server has no tool {name!r}; {similar_names(name, names)}"))


def _print_task(connection: ConnectionOptions, task_id: str) -> None:
    if connection.is_json:
        print_json_line({"taskId": task_id})
    else:
        print_text(task_id)
        say(f"wait for it with: ferrule tasks {shlex.quote(connection.target)} wait {task_id}")


def _print_result(connection: ConnectionOptions, tool: str, result: Any, save: Path | None) -> int:
    if connection.is_json:
        print_json(result.result)
    else:
        print_blocks(result.content, save)
        if not result.content and result.has_structured_content:
            print_json(result.structured_content)
        if not result.content and not result.has_structured_content:
            say("the result is empty")
    if result.is_error:
        connection.show_last_words()
        say(f"the tool {tool!r} failed")
        return EXIT_FAILED
    return EXIT_OK
