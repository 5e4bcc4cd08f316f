"""``ferrule-compat``: starts a program of the environment in this process, with the names of ``mcp`` 1.x in it.

The names exist in this process only: a Python process that the server starts has them if it is started through
``ferrule-compat`` too.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, NoReturn

from ferrule_compat import __version__
from ferrule_compat.names import install

__all__ = ["main", "script_named"]

_USAGE = """\
usage: ferrule-compat COMMAND [ARGUMENTS]...
       ferrule-compat -m MODULE [ARGUMENTS]...
       ferrule-compat FILE.py [ARGUMENTS]...

Run a server that was written for the official MCP SDK 1.x (mcp.server.fastmcp, mcp.server) on Ferrule, unchanged.
COMMAND is a console script of this environment, or a package that has one.

  uvx --from PACKAGE --with ferrule-compat ferrule-compat COMMAND
"""
# As the old SDK's own `mcp run`.
_SERVER_NAMES = ("mcp", "server", "app")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 2 for a wrong usage, else the program's own."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        _say(_USAGE.rstrip())
        return 0 if given else 2
    if given[0] in ("-V", "--version"):
        sys.stdout.write(f"ferrule-compat {__version__}\n")
        return 0
    if given[0] == "-m":
        if len(given) < 2:
            _refuse("-m needs the name of a module")
        install()
        sys.argv = [given[1], *given[2:]]
        sys.path.insert(0, os.getcwd())
        return _run_as_main(lambda: runpy.run_module(given[1], run_name="__main__", alter_sys=True))
    if given[0].startswith("-"):
        _refuse(f"There is no option {given[0]}")
    if given[0].endswith(".py") or os.path.sep in given[0]:
        if not os.path.isfile(given[0]):
            _refuse(f"There is no file {given[0]}")
        install()
        sys.argv = given
        sys.path.insert(0, os.path.dirname(os.path.abspath(given[0])))
        return _run_as_main(lambda: runpy.run_path(given[0], run_name="__main__"))
    script = script_named(given[0])
    install()
    sys.argv = given
    return _status(script.load()())


def script_named(name: str) -> EntryPoint:
    """Return a console script of the environment, by its name or that of a package with one script.

    Raises:
        SystemExit: there is none, with what there is.
    """
    scripts = {each.name: each for each in entry_points(group="console_scripts")}
    if name in scripts:
        return scripts[name]
    try:
        own = [each for each in distribution(name).entry_points if each.group == "console_scripts"]
    except (PackageNotFoundError, ValueError):
        own = []
    if len(own) == 1:
        return own[0]
    if own:
        _refuse(f"{name} has several commands: {', '.join(sorted(each.name for each in own))}")
    from difflib import get_close_matches

    near = get_close_matches(name, scripts, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else " Install the server's package beside ferrule-compat."
    return _refuse(f"This environment ({sys.prefix}) has no command {name!r}.{hint}")


def _run_as_main(run: Any) -> int:
    """Run a file or module, and the server in it, if it only defines one."""
    from ferrule_compat import lowlevel

    served: list[Any] = []
    original = lowlevel.Server.application

    def noted(server: Any, options: Any = None) -> Any:
        served.append(server)
        return original(server, options)

    lowlevel.Server.application = noted  # type: ignore[method-assign]
    try:
        names = run()
    finally:
        lowlevel.Server.application = original  # type: ignore[method-assign]
    found = next((names[name] for name in _SERVER_NAMES if hasattr(names.get(name), "run_stdio_async")), None)
    if not served and found is not None:
        found.run()
    return 0


def _status(result: Any) -> int:
    if result is None or isinstance(result, bool):
        return 0
    if isinstance(result, int):
        return result
    _say(str(result))
    return 1


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _refuse(text: str) -> NoReturn:
    _say(f"ferrule-compat: {text}")
    raise SystemExit(2)


if __name__ == "__main__":
    sys.exit(main())
