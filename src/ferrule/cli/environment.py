"""``--env`` and ``--env-file``: variables for a server that is started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ferrule.wire.patterns import pattern

__all__ = ["environment_options", "read_environment"]

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def environment_options(command: Any, user: str = "the server that is started") -> Any:
    """Add ``--env`` and ``--env-file`` to a command (``env``, ``env_files``, for `read_environment`).

    Args:
        command: the function.
        user: who gets the variables, for the help.
    """
    for option in (
        click.option("--env-file", "env_files", multiple=True, metavar="FILE",
                     type=click.Path(path_type=Path, dir_okay=False), help="A file with such variables."),
        click.option("--env", multiple=True, metavar="NAME[=VALUE]",
                     help=f"A variable for {user}; without a value, that of this shell."),
    ):  # fmt: skip
        command = option(command)
    return command


def read_environment(pairs: Sequence[str], files: Sequence[Path]) -> dict[str, str]:
    """Return variables: those of the files in their order, then those of the command line.

    Args:
        pairs: ``NAME=VALUE``, or ``NAME`` for the value that it has in this process.
        files: files with lines ``NAME=VALUE``; ``export``, quotes and comments are allowed.

    Raises:
        click.UsageError: a file cannot be read, a line or a pair is malformed, or a variable is not set here.
    """
    made: dict[str, str] = {}
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--env-file {path}: {error}") from error
        for number, line in enumerate(lines, 1):
            text = line.strip().removeprefix("export ").strip()
            if text and not text.startswith("#"):
                name, sign, value = text.partition("=")
                if not sign or not _NAME.fullmatch(name.strip()):
                    raise click.UsageError(f"{path}:{number}: a line is NAME=VALUE")
                made[name.strip()] = _unquoted(value.strip())
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not _NAME.fullmatch(name):
            raise click.UsageError(f"--env is NAME=VALUE, or NAME of a variable that is set here, not {pair!r}")
        if not sign and name not in os.environ:
            raise click.UsageError(f"--env {name}: the variable is not set here")
        made[name] = value if sign else os.environ[name]
    return made


def _unquoted(value: str) -> str:
    """Return a value without its quotes; without quotes, without a comment after it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        inner = value[1:-1]
        return inner.replace("\\n", "\n").replace('\\"', '"') if value[0] == '"' else inner
    return value.partition(" #")[0].rstrip()
