"""Reads the target of a client: a URL, a command, a file, an object or a configuration.

A target is a server in this process, a URL, a `StdioServer`, a command line, a script, or a configuration in the
common ``mcpServers`` form (a mapping, or the path of a JSON file). Nothing here connects.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeGuard, cast, runtime_checkable

from ferrule.client.addresses import has_scheme, is_bare_address
from ferrule.client.config_file import ConfigError, find_servers, is_entry, load_config, read_entry
from ferrule.client.config_settings import ServerSettings, ServerSettingsError, read_settings
from ferrule.client.targets import (
    GroupTarget,
    HttpTarget,
    InProcessTarget,
    PairTarget,
    StdioTarget,
    Target,
    UnixTarget,
)
from ferrule.transports.stdio.client import StdioServer
from ferrule.wire.json_types import is_mapping

__all__ = ["read_group", "read_target", "split_command"]

_CONFIGURATIONS: Final = (".json", ".jsonc")
_RUNNERS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": (sys.executable,),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
    ".ts": ("npx", "tsx"),
    ".sh": ("sh",),
}


@runtime_checkable
class StreamPair(Protocol):
    """Anything with two stream halves that lead to a server."""

    @property
    def read_stream(self) -> Any:
        """Receives the server's messages."""
        ...

    @property
    def write_stream(self) -> Any:
        """Sends messages to the server."""
        ...


@runtime_checkable
class WrapsServer(Protocol):
    """A server object around a kernel's server, such as `ferrule.MCPServer`, which this layer may not import."""

    @property
    def lowlevel(self) -> Any:
        """The kernel's `Server`."""
        ...


def read_target(target: Any) -> Target:
    """Return the target that a value describes.

    Raises:
        TypeError: no client can be made of this type.
        ValueError: it is of a known kind but malformed.
        OSError: a configuration file cannot be read.
    """
    if isinstance(target, InProcessTarget | PairTarget | HttpTarget | StdioTarget | UnixTarget | GroupTarget):
        return target
    if isinstance(target, StdioServer):
        return StdioTarget(target)
    if isinstance(target, str):
        return _from_text(target)
    if isinstance(target, Path):
        return _from_path(target)
    if is_mapping(target):
        return _from_mapping(target)
    if _is_sequence(target):
        parts = target
        if all(isinstance(part, str | Path) for part in parts):
            return _command([str(part) for part in parts])
    if isinstance(target, StreamPair) and target.read_stream is not None and target.write_stream is not None:
        return PairTarget(target.read_stream, target.write_stream)
    server = _kernel_server(target)
    if server is not None:
        return InProcessTarget(server, server.server_info.name)
    kind = type(cast("object", target)).__name__
    raise TypeError(
        f"A client cannot be made of {kind}; give it a server object, a URL, a StdioServer, a command "
        "line, the path of a script or configuration file, or a configuration"
    )


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _kernel_server(target: Any) -> Any:
    from ferrule.kernel.server import Server

    if isinstance(target, Server):
        return cast("Any", target)
    found = target.lowlevel if isinstance(target, WrapsServer) else None
    return cast("Any", found) if isinstance(found, Server) else None


def split_command(text: str, *, is_windows: bool = os.name == "nt") -> list[str]:
    """Return the words of a command line.

    On Windows a backslash is an ordinary character, and only double quotes group words.
    """
    if not is_windows:
        return shlex.split(text)
    words = shlex.shlex(text, posix=True, punctuation_chars=False)
    words.whitespace_split, words.commenters, words.escape, words.quotes = True, "", "", '"'
    return list(words)


def _from_text(text: str) -> Target:
    stripped = text.strip()
    if stripped.startswith("unix:"):
        path = stripped.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise ValueError(f"{stripped!r}: the address of a Unix socket is unix: and an absolute path")
        return UnixTarget(path)
    if has_scheme(stripped):
        return HttpTarget(stripped)
    if not stripped:
        raise ValueError("A target is not empty")
    if "\n" not in stripped and os.path.exists(stripped):
        return _from_path(Path(stripped))
    if is_bare_address(stripped):
        raise ValueError(f"{stripped.partition('?')[0]!r} is not a URL: write http:// or https:// before it")
    parts = split_command(stripped)
    if len(parts) == 1 and Path(parts[0]).suffix.lower() in (*_CONFIGURATIONS, *_RUNNERS):
        raise FileNotFoundError(f"There is no file {parts[0]!r} in {os.getcwd()}")
    return _command(parts)


def _from_path(path: Path) -> Target:
    suffix = path.suffix.lower()
    if suffix in _CONFIGURATIONS:
        return _from_mapping(load_config(path), source=str(path))
    if suffix in _RUNNERS:
        command, *first = _RUNNERS[suffix]
        return StdioTarget(StdioServer(command, (*first, str(path))))
    if path.exists() and not (path.is_file() and os.access(path, os.X_OK)):
        what = "is not executable" if path.is_file() else "is a folder"
        raise ValueError(
            f"{path} {what}: a server is a program, a script ({', '.join(_RUNNERS)}) or a configuration "
            f"({', '.join(_CONFIGURATIONS)})"
        )
    return StdioTarget(StdioServer(str(path.absolute())))


def _command(parts: Sequence[str]) -> Target:
    if not parts:
        raise ValueError("A command line is not empty")
    return StdioTarget(StdioServer(parts[0], tuple(parts[1:])))


def _from_mapping(config: Mapping[str, Any], source: str = "the configuration") -> Target:
    servers = find_servers(config, source)
    if servers is not None:
        return read_group(servers, source)
    if is_entry(config):
        return read_entry(config, source)
    raise ConfigError(f"{source} has neither 'mcpServers' nor a 'command' or 'url'{_meant(config)}")


def _meant(config: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    found = [key for key in config if get_close_matches(key.replace("_", ""), ("mcpServers", "mcpservers"), cutoff=0.8)]
    return f"; did you mean 'mcpServers' by {found[0]!r}?" if found else ""


def read_group(servers: Mapping[str, Any], source: str) -> GroupTarget:
    """Return the entries of a configuration as targets; for an invalid entry the error instead.

    Args:
        servers: by name.
        source: the configuration's name for errors.
    """
    found: dict[str, Any] = {}
    settings: dict[str, ServerSettings] = {}
    for name, entry in servers.items():
        found[name] = _entry(name, entry, source)
        if isinstance(found[name], Exception):
            continue
        try:
            said = read_settings(entry, f"{source}: {name}")
        except ServerSettingsError as error:
            found[name] = ConfigError(str(error))
        else:
            if said != ServerSettings():
                settings[name] = said
    return GroupTarget(found, settings=settings)


def _entry(name: str, entry: Any, source: str) -> Any:
    """Return the target of one entry, or the error that reading it raised: the other entries stay usable."""
    try:
        if isinstance(entry, str) and not has_scheme(entry.strip()):
            raise ConfigError(f"{source}: {name} is a text; it is an object with a 'command' or a 'url'")
        found = (
            read_target(entry)
            if not is_mapping(entry) and _is_target(entry)
            else read_entry(entry, f"{source}: {name}")
        )
        return replace(found, known_as=name) if not isinstance(found, GroupTarget) else found
    except (TypeError, ValueError, KeyError, OSError) as error:
        return error


def _is_target(entry: Any) -> bool:
    """Return whether an entry of a configuration made in Python is itself a target, or a URL."""
    return entry is not None and not isinstance(entry, bool | int | float | list)
