"""The ``ferrule`` command.

Nothing outside this package imports it, and each command is a module of its own that is loaded when it is called:
``ferrule --help`` knows their names and one line about each, and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status (see `ferrule.cli.exits`).

    Args:
        arguments: without the program's name; ``None`` takes this process's.
    """
    from ferrule.cli.exits import run_guarded
    from ferrule.cli.program import program

    return run_guarded(program, arguments)
