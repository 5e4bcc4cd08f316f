"""The table of commands, and the group that loads one of them when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

from ferrule import __version__

__all__ = ["COMMANDS", "load_command", "program"]

COMMANDS: Final[dict[str, str]] = {
    "run": "Serve a file, or bridge a URL or command, over stdio or HTTP.",
    "gateway": "Serve all servers of a configuration at one address.",
    "dev": "Open the inspector page: look at a server and call it in the browser.",
    "worker": "Run the tasks of a file's server, without any transport.",
    "compat": "Run a server of the official SDK 1.x, unchanged (ferrule-compat).",
    "list": "List tools, resources, templates and prompts of a server.",
    "call": "Call a tool.",
    "read": "Read a resource.",
    "prompt": "Fill in a prompt.",
    "listen": "Show changes, log messages and notifications as they come.",
    "tasks": "Look at, answer and cancel tasks.",
    "check": "Judge names, descriptions, schemas, hidden text and cost, without a model.",
    "snapshot": "Write the definitions of a server into a file, with digests.",
    "diff": "Show what changed between two versions of a server.",
    "inspect": "The full picture: capabilities, schemas, names, token cost.",
    "doctor": "Find out what works, what fails and why.",
    "audit": "Check the hash chains of audit files.",
    "card": "Print the card of a server, or the servers of a domain.",
    "bundle": "Make a file that desktop hosts install (.mcpb), and try it.",
    "publish": "Make and judge server.json for the MCP registry; nothing is uploaded.",
    "install": "Put a server into a host's configuration, or take it out.",
    "new": "Make a project with a server and its tests.",
    "trace": "Record what a host and a server say; replay it as a test.",
    "completion": "Print the completion script of a shell.",
}
"""Name and help of each command, in the order of ``--help``."""

_FOLDERS: Final = {
    **dict.fromkeys(("bundle", "card", "publish"), "publishing"),
    **dict.fromkeys(("check", "diff", "snapshot"), "checking"),
    "audit": "auditing",
    "compat": "compatibility",
    "gateway": "gateway",
}
"""Command → the folder of its module; the others are in ``commands``."""


def load_command(name: str) -> click.Command:
    """Import the module of a command of the table, ``<name>_`` in its folder, and return the command."""
    module: Any = import_module(f"ferrule.cli.{_FOLDERS.get(name, 'commands')}.{name}_")
    found: click.Command = module.command
    return found


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return the command; ``None`` for an unknown name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; the error for an unknown name suggests a similar one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the matching commands of the table and options, so that no module is imported."""
        from click.shell_completion import CompletionItem

        found: list[Any] = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, so that no module is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_EPILOG = """\b
TARGET is a file (server.py or server.py:app), a URL, a command line in quotes, a configuration
(mcp.json or mcp.json:NAME), or HOST:NAME for a server of an installed host (cursor:weather).

\b
Exit status: 0 done, 1 the tool failed or a problem was found, 2 wrong usage, 3 no connection,
4 the server answered with an error, 5 timed out, 6 a question was not answered, 130 interrupted.
"""


@click.command(
    cls=LazyGroup,
    name="ferrule",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="ferrule")
def program() -> None:
    """Serve, call and examine MCP servers, in both eras of the protocol."""
