"""Tries a bundle before it is called good: unpacked into an empty folder, installed, started as a host does it.

Requirements are installed by `uv`, as hosts do it, or without it by pip into an environment of ``venv``. The server
gets the few variables that hosts pass on, and those of the manifest, filled in with placeholders or given values.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import anyio

from ferrule.cli.exits import EXIT_FAILED, EXIT_NO_CONNECTION, Quit
from ferrule.cli.hosts.toml_text import parse as parse_toml
from ferrule.cli.publishing.archives import unpack
from ferrule.cli.publishing.bundles import Bundle
from ferrule.wire.struct import Value

__all__ = ["StartedBundle", "filled_config", "host_command", "start_bundle"]

_INSTALL_S: Final = 900.0
_START_S: Final = 120.0
_SHOWN_LINES: Final = 20
_PLACE: Final = re.compile(r"\$\{([^}]*)\}")


class StartedBundle(Value, frozen=True, kw_only=True):
    """What a started bundle said.

    Attributes:
        name: the name of the server; empty if it says none.
        tools: the names of its tools.
        installer: ``uv`` or ``pip``.
    """

    name: str
    tools: tuple[str, ...]
    installer: str


def start_bundle(bundle: Bundle, given: Mapping[str, str], *, folder: Path | None = None) -> StartedBundle:
    """Unpack a bundle, install what it needs, start it, and ask it for its tools.

    Args:
        bundle: the bundle.
        given: values of its ``user_config``; the others get placeholders.
        folder: where to unpack it; ``None`` for a folder that is deleted afterwards.

    Raises:
        Quit: the environment could not be made, or the server did not start or answer.
    """
    with tempfile.TemporaryDirectory(prefix="ferrule-bundle-", ignore_cleanup_errors=True) as made:
        place = Path(made).resolve() / "bundle" if folder is None else folder
        values = filled_config(bundle.manifest, {**bundle.samples, **given}, Path(made).resolve())
        place.mkdir(exist_ok=True)
        unpack(bundle.archive(), place)
        installer = _install(place)
        command, environment = host_command(bundle.manifest, place, values)
        secret = [value for key, value in given.items() if value and _is_secret(bundle.manifest, key)]
        return asyncio.run(_ask(_runnable(command, place, installer), environment, place, installer, secret))


def filled_config(manifest: Mapping[str, Any], given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return a value for each member of ``user_config`` that a host would have.

    Args:
        manifest: the manifest.
        given: values that were given.
        folder: an empty folder, for files and folders that the server wants.
    """
    values: dict[str, str] = {}
    for key, option in manifest.get("user_config", {}).items():
        default = option.get("default")
        if key in given:
            values[key] = given[key]
        elif default is not None:
            values[key] = ("true" if default else "false") if isinstance(default, bool) else str(default)
        elif option.get("required"):
            values[key] = _placeholder(option, folder)
    return values


def host_command(
    manifest: Mapping[str, Any], folder: Path, values: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables with which a host starts a bundle; what has no value stays as it is.

    Args:
        manifest: the manifest.
        folder: where the bundle is.
        values: the values of ``user_config``.
    """
    start: dict[str, Any] = dict(manifest["server"]["mcp_config"])
    start |= start.get("platform_overrides", {}).get(sys.platform, {})
    home = Path.home()
    known = {f"user_config.{key}": value for key, value in values.items()}
    known |= {"__dirname": str(folder), "HOME": str(home), "pathSeparator": os.sep, "/": os.sep}
    known |= {name.upper(): str(home / name) for name in ("Desktop", "Documents", "Downloads")}

    def fill(text: str) -> str:
        return _PLACE.sub(lambda found: known.get(found[1], found[0]), text)

    command = [fill(start["command"]), *(fill(text) for text in start.get("args", ()))]
    return command, {name: fill(text) for name, text in start.get("env", {}).items()}


def _placeholder(option: Mapping[str, Any], folder: Path) -> str:
    kind = option["type"]
    if kind == "number":
        return f"{option.get('min', option.get('max', 1)):g}"
    if kind == "boolean":
        return "false"
    if kind == "directory":
        (folder / "chosen").mkdir(exist_ok=True)
        return str(folder / "chosen")
    if kind == "file":
        (folder / "chosen.txt").touch()
        return str(folder / "chosen.txt")
    return "placeholder"


def _is_secret(manifest: Mapping[str, Any], key: str) -> bool:
    return bool(manifest.get("user_config", {}).get(key, {}).get("sensitive"))


# -- the environment ---------------------------------------------------------------------------------------------------


def _install(folder: Path) -> str:
    """Make the environment in a folder and return what made it: ``uv`` or ``pip``."""
    uv = _uv()
    if uv is not None:
        _run([uv, "sync", "--no-dev", "--directory", str(folder)], folder)
        return "uv"
    project: Any = parse_toml((folder / "pyproject.toml").read_text(encoding="utf-8"))
    environment = folder / ".venv"
    wheels = [str(path) for path in sorted(folder.glob("wheels/*.whl"))]
    wanted = [str(folder)] if "build-system" in project else list(project["project"].get("dependencies", ()))
    options = ["--disable-pip-version-check", "--no-input", "--no-compile", "--quiet"]
    if find_spec("pip") is not None:  # faster than to install pip there first
        _run([sys.executable, "-m", "venv", "--without-pip", str(environment)], folder)
        pip = [sys.executable, "-m", "pip", "--python", _python_of(environment)]
    else:
        _run([sys.executable, "-m", "venv", str(environment)], folder)
        pip = [_python_of(environment), "-m", "pip"]
    if wheels or wanted:
        _run([*pip, "install", *options, *wheels, *wanted], folder)
    return "pip"


def _uv() -> str | None:
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def _python_of(environment: Path) -> str:
    return str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def _run(command: Sequence[str], folder: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    try:
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, encoding="utf-8", errors="replace",
            stdin=subprocess.DEVNULL, timeout=_INSTALL_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Quit(EXIT_FAILED, f"its environment was not made within {_INSTALL_S:.0f} s") from None
    except OSError as error:
        raise Quit(EXIT_FAILED, f"its environment could not be made: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()[-_SHOWN_LINES:]
        raise Quit(EXIT_FAILED, "\n  ".join(["its environment could not be made:", *lines]))


# -- the server --------------------------------------------------------------------------------------------------------


def _runnable(command: list[str], folder: Path, installer: str) -> list[str]:
    """Return the command with the full path of `uv`; without `uv`, of the Python in which the server is installed."""
    if command[0] != "uv":
        return command
    if installer == "uv":
        return [_uv() or "uv", *command[1:]]
    if command[1:2] != ["run"] or not command[-1].endswith(".py"):
        raise Quit(EXIT_FAILED, "to start this command uv is needed: pip install uv")
    return [_python_of(folder / ".venv"), command[-1]]


async def _ask(
    command: list[str], environment: Mapping[str, str], folder: Path, installer: str, secret: Sequence[str]
) -> StartedBundle:
    from ferrule.client.client import Client
    from ferrule.protocol.errors import FerruleError
    from ferrule.transports.stdio.client import StdioServer

    lines: deque[str] = deque(maxlen=_SHOWN_LINES)
    server = StdioServer(command[0], command[1:], env=environment, cwd=folder, stderr=lines.append)
    try:
        with anyio.fail_after(_START_S):
            # The handshake that desktop hosts use.
            async with Client(server, mode="legacy", restart=False) as client:
                name = "" if client.server_info is None else client.server_info.name
                tools = [] if client.server_capabilities.tools is None else await client.list_tools()
                return StartedBundle(name=name, tools=tuple(each.name for each in tools), installer=installer)
    except TimeoutError:
        why = f"it did not answer within {_START_S:.0f} s"
    except (FerruleError, OSError) as error:
        why = str(error).partition("\n")[0]
    message = "\n  ".join([f"the unpacked bundle does not work: {why}", *lines])
    for value in secret:
        message = message.replace(value, "…")
    raise Quit(EXIT_NO_CONNECTION, message)
