"""The ``ferrule`` command.

Nothing outside this package imports it, and each command is a module of its own that is loaded when it is called:
``ferrule --help`` prints only the table of names and one-line descriptions in `ferrule.cli.program`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status (see `ferrule.cli.exits`).

    Args:
        arguments: the arguments without the program's name; ``None`` for those of this process.
    """
    from ferrule.transports.stdio.descriptors import open_missing_standard_fds

    open_missing_standard_fds()  # before a file or a socket gets their numbers
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed when the interpreter started
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if "_FERRULE_COMPLETE" in os.environ:  # Tab was pressed: the scripts of `ferrule completion` set it
        from ferrule.cli.completion.shells import register

        register()
    from ferrule.cli.exits import run_guarded
    from ferrule.cli.program import program

    return run_guarded(program, arguments)
