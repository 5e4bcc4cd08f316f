"""``ferrule compat``: a server of the official SDK 1.x, run by the distribution ``ferrule-compat``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Final

import click

from ferrule.cli.exits import EXIT_USAGE, Quit

__all__ = ["RUNNER", "command", "compat_command"]

RUNNER: Final = "ferrule_compat"
"""The package of the other distribution, by name: nothing here imports it."""

_EXAMPLES = """\b
Examples:
  ferrule compat mcp-dice
  ferrule compat -m my_server
  ferrule compat server.py
  uvx --from mcp-dice --with ferrule-compat ferrule-compat mcp-dice
"""


def compat_command(package: str, command: list[str]) -> list[str]:
    """Return the command line that starts a published server by ``uvx``, in an environment of its own.

    Args:
        package: what to install, as uvx takes it, such as ``mcp-server-sqlite==2025.4.25``.
        command: the console script with its arguments.
    """
    return ["uvx", "--from", package, "--with", "ferrule-compat", "ferrule-compat", *command]


@click.command(
    "compat",
    epilog=_EXAMPLES,
    context_settings={"max_content_width": 100, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(command: tuple[str, ...]) -> int:
    """Run a server that was written for the official SDK 1.x (mcp.server.fastmcp, mcp.server), unchanged.

    COMMAND is a console script of this environment, the name of a package that has one, -m MODULE, or a Python file,
    with its arguments. It needs the package ferrule-compat beside the server, and serves both eras of the protocol.
    """
    if find_spec(RUNNER) is None:
        raise Quit(
            EXIT_USAGE,
            "ferrule compat needs the package ferrule-compat in the environment of the server: "
            "pip install ferrule-compat, or without installing "
            "uvx --from PACKAGE --with ferrule-compat ferrule-compat COMMAND",
        )
    line = [sys.executable, "-m", RUNNER, *command]
    if sys.platform == "win32":
        return subprocess.run(line, check=False).returncode
    # In place of this process: the server needs nothing of this command line.
    return os.execv(sys.executable, line)
