"""Loads the server object that ``server.py:app`` names."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.exits import EXIT_USAGE, Quit

if TYPE_CHECKING:
    from ferrule.app.settings import SettingField

__all__ = ["USUAL_NAMES", "load_app", "lowlevel_of", "mentions_ferrule", "settings_of"]

USUAL_NAMES = ("app", "mcp", "server")
_FERRULE = re.compile(r"^\s*(?:from|import)\s+ferrule\b", re.MULTILINE)


def mentions_ferrule(path: Path) -> bool:
    """Return whether a file imports Ferrule; one that does not is a server made with another library."""
    try:
        return _FERRULE.search(path.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def load_app(path: Path, attribute: str | None) -> Any:
    """Import a file and find its server: an `MCPServer`, a low-level `Server`, or a function that makes one.

    The file is imported under its own name, not as ``__main__``, so its ``app.run()`` under that condition does not
    run. What it prints meanwhile goes to stderr: stdout belongs to the protocol.

    Args:
        attribute: the server's name in the file; ``None`` for ``app``, ``mcp``, ``server``, or the only server.

    Raises:
        click.UsageError: ``attribute`` names no server.
        Quit: there is no server, or more than one; or the file fails while it is loaded, and the message has its own
            part of the traceback.
    """
    with contextlib.redirect_stdout(sys.stderr):
        try:
            module = _import_file(path)
            if attribute is not None:
                return _served(_named(module, path, attribute))
        except click.UsageError:
            raise
        except Exception as error:  # the author of the file needs its frames, not Ferrule's
            raise Quit(EXIT_USAGE, f"{_place_in(error, path)}{path} cannot be loaded: {_describe(error)}") from error
        for name in USUAL_NAMES:
            if _is_server(value := getattr(module, name, None)):  # the file of a user; a name may come from __getattr__
                return _served(value)
        found = {name: value for name, value in vars(module).items() if _is_server(value)}
    different = {id(value): value for value in found.values()}
    if len(different) == 1:
        return _served(next(iter(different.values())))
    if not found:
        raise Quit(EXIT_USAGE, f"{path} has no MCPServer at its top level; name what makes it: {path}:NAME")
    choices = ", ".join(f"{path}:{name}" for name in found)
    raise Quit(EXIT_USAGE, f"{path} has several servers; choose one: {choices}")


def _place_in(error: Exception, path: Path) -> str:
    """Return the traceback from the frame of the file on; without Ferrule's own frames if Ferrule raised the error."""
    import traceback

    from ferrule.wire.faults import FerruleError

    frames = traceback.extract_tb(error.__traceback__)
    own = next((at for at, frame in enumerate(frames) if Path(frame.filename) == path.resolve()), len(frames))
    shown = frames[own:]
    if isinstance(error, FerruleError):  # clients show the last lines of stderr only, which would be Ferrule's frames
        ours = Path(__file__).resolve().parents[1]
        shown = [frame for frame in shown if not Path(frame.filename).is_relative_to(ours)]
    return "".join(traceback.format_list(shown))


def _describe(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception_only(error)).strip()


def _named(module: ModuleType, path: Path, attribute: str) -> Any:
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):  # the path that the user wrote after the colon
            raise click.UsageError(f"{path} has no {attribute!r}")
        value = getattr(value, part)
    if not _is_server(value) and callable(value):
        value = value()
    if not _is_server(value):
        raise click.UsageError(f"{attribute!r} in {path} is a {type(value).__name__}, not a server")
    return value


def _is_server(value: Any) -> bool:
    from ferrule.app.server import MCPServer
    from ferrule.kernel.server import Server

    return isinstance(value, MCPServer | Server) or _is_gateway(value)


def _is_gateway(value: Any) -> bool:
    module = sys.modules.get("ferrule.client.gateway.gateway")  # the file has imported it if it has made one
    return module is not None and isinstance(value, module.Gateway)


def _served(value: Any) -> Any:
    """Return a server as it is, and of a gateway its server in front."""
    return value.server if _is_gateway(value) else value


def lowlevel_of(app: Any) -> Any:
    """Return the kernel's server of a server that `load_app` returned."""
    from ferrule.app.server import MCPServer

    found: Any = app
    return found.lowlevel if isinstance(app, MCPServer) else found


def settings_of(app: Any) -> tuple[SettingField, ...]:
    """Return the settings that a server of `load_app` declares; none for a low-level server."""
    from ferrule.app.server import MCPServer

    declared = app.declared_settings if isinstance(app, MCPServer) else None
    return () if declared is None else declared.fields


def _import_file(path: Path) -> ModuleType:
    """Import a file and return its module, inside its package if it belongs to one."""
    path = path.resolve()
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists() and root.parent != root:
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    name = ".".join(parts)
    if len(parts) > 1:
        return importlib.import_module(name)
    if name in sys.modules or not name.isidentifier() or importlib.util.find_spec(name) is None:
        name = f"_ferrule_run_{re.sub(r'[^0-9a-zA-Z_]', '_', path.stem)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
