"""Reads the TARGET of a command line.

In this order: a URL; a file that exists (``server.py``, ``server.py:app``, ``mcp.json``, ``mcp.json:NAME``, any other
program); ``HOST:NAME`` of a host's configuration; a bare name that exactly one host has; a command line.

A typed command runs with the whole environment of the user, as in a shell. A server of a configuration runs as a host
runs it: with a short list of variables and those of the entry.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ferrule.client.addresses import has_scheme, is_bare_address

if TYPE_CHECKING:
    from ferrule.client.config_settings import ServerSettings
    from ferrule.client.targets import GroupTarget, HttpTarget, StdioTarget
    from ferrule.search.definitions import ToolSearchMode

__all__ = [
    "ServerChoice",
    "complete_target",
    "configured_search",
    "is_recording",
    "python_command",
    "read_choice",
    "read_group",
    "read_search",
    "server_names",
    "split_path",
    "with_server",
    "with_variables",
]


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """The server that a TARGET names.

    Attributes:
        text: the TARGET as typed.
        target: the target for a `Client`.
        file, attribute: the Python file to load in this process, and the server's name in it; ``None`` for other
            servers.
        name: its name for a configuration.
        from_config: the entry of a configuration that it comes from; ``None`` for others.
        settings: what that entry says about its use; ``None`` without.
    """

    text: str
    target: HttpTarget | StdioTarget
    name: str
    file: Path | None = None
    attribute: str | None = None
    from_config: Mapping[str, Any] | None = None
    settings: ServerSettings | None = None

    @property
    def is_http(self) -> bool:
        """Whether the server is reached by a URL."""
        from ferrule.client.targets import HttpTarget

        return isinstance(self.target, HttpTarget)


def python_command(*arguments: str) -> list[str]:
    """Return the command that runs Ferrule's command line in this interpreter."""
    return [sys.executable, "-m", "ferrule", *arguments]


def read_choice(text: str) -> ServerChoice:
    """Return the server that a TARGET names: a URL, a file, ``HOST:NAME``, a name in a configuration, or a command.

    Raises:
        click.UsageError: there is no such server, or several match.
    """
    text = text.strip()
    if not text:
        raise click.UsageError("TARGET is empty")
    if has_scheme(text):
        return _url(text)
    path, attribute = split_path(text)
    if path is not None:
        return _file(text, path, attribute)
    from_host = _from_hosts(text)
    if from_host is not None:
        return from_host
    if is_bare_address(text):
        raise click.UsageError(f"{text.partition('?')[0]!r} is not a URL: write http:// or https:// before it")
    from ferrule.client.config import split_command

    parts = split_command(text)
    if len(parts) == 1 and text.endswith((".py", ".json", ".js", ".ts")):
        raise click.UsageError(f"There is no file {text!r} in {Path.cwd()}")
    return _command(text, parts[0], tuple(parts[1:]))


def _url(text: str) -> ServerChoice:
    from urllib.parse import urlsplit

    from ferrule.client.targets import HttpTarget

    try:
        target = HttpTarget(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return ServerChoice(text, target, (urlsplit(text).hostname or "").split(".")[0])


def split_path(text: str, is_there: Callable[[Path], bool] = Path.is_file) -> tuple[Path | None, str | None]:
    """Return the existing file that a text names, and what stands after the last colon; ``None`` for each without.

    Args:
        text: ``server.py``, ``server.py:app``, ``C:\\server.py:app``: a drive letter is no file.
        is_there: the test for existence; `Path.exists` accepts folders, too.
    """
    if is_there(Path(text)):
        return Path(text), None
    head = text
    while (at := head.rfind(":")) > 1:  # the name of a server may have colons, too
        head = text[:at]
        if is_there(Path(head)):
            return Path(head), text[at + 1 :]
    return None, None


def _file(text: str, path: Path, attribute: str | None) -> ServerChoice:
    from ferrule.cli.loading import mentions_ferrule
    from ferrule.client.config import read_target

    suffix = path.suffix.lower()
    from ferrule.cli.openapi.descriptions import is_description

    if is_description(str(path)):
        line = f"ferrule run {path} --base-url URL --include PATTERN"
        raise click.UsageError(
            f"{path} is an OpenAPI description. `ferrule list {path}` shows what is in it, `{line}` serves it, and "
            "every other command takes that line in quotes as TARGET"
        )
    if suffix in (".json", ".jsonc"):
        from ferrule.cli.hosts.places import read_servers

        try:
            servers = read_servers(path)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        return _from_entries(text, str(path), servers, attribute)
    if suffix == ".jsonl" and attribute is None:
        command, *arguments = python_command("run", str(path))
        return replace(_command(text, command, tuple(arguments)), name=path.stem)
    if suffix == ".py" and (attribute is not None or mentions_ferrule(path)):
        spelled = str(path) if attribute is None else f"{path}:{attribute}"
        command, *arguments = python_command("run", spelled)
        return replace(_command(text, command, tuple(arguments)), name=path.stem, file=path, attribute=attribute)
    if attribute is not None:
        raise click.UsageError(f"{path} is not a Python file: what is {attribute!r} in it?")
    try:
        target: Any = read_target(path)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    server = target.server
    return replace(_command(text, server.command, tuple(server.args)), name=path.stem)


def is_recording(text: str) -> bool:
    """Return whether a TARGET is the file of a recording."""
    path = Path(text.strip())
    return path.suffix.lower() == ".jsonl" and path.is_file()


def _command(text: str, command: str, arguments: tuple[str, ...]) -> ServerChoice:
    from ferrule.client.targets import StdioTarget
    from ferrule.transports.stdio.client import StdioServer

    name = Path(arguments[-1] if arguments and not arguments[-1].startswith("-") else command).stem
    return ServerChoice(text, StdioTarget(StdioServer(command, arguments, inherit_env=True)), name)


def with_variables(target: Any, variables: Mapping[str, str]) -> Any:
    """Return the target with further variables for its process.

    Raises:
        click.UsageError: it is a URL, and there are variables.
    """
    from ferrule.client.targets import StdioTarget

    if not variables:
        return target
    if not isinstance(target, StdioTarget):
        raise click.UsageError("--env and --env-file are for a server that is started, not for a URL")
    env = {**(target.server.env or {}), **variables}
    return replace(target, server=replace(target.server, env=env))


def server_names(text: str) -> list[str]:
    """Return the names of the servers in the configuration that a text names, without a server; empty for any other.

    A configuration that cannot be read has none.
    """
    found = _configuration(text)
    if found is None:
        return []
    from ferrule.cli.hosts.places import read_servers

    try:
        return list(read_servers(found[1], found[2]))
    except (ValueError, OSError):
        return []


def with_server(text: str, name: str | None) -> str:
    """Return TARGET with the server of its configuration that ``--server`` names; unchanged without a name.

    Raises:
        click.UsageError: TARGET is no configuration, or has no such server.
    """
    if name is None:
        return text
    if _configuration(text) is None:
        raise click.UsageError(f"--server is for a configuration with several servers, which {text!r} is not")
    names = server_names(text)
    if names and name not in names:
        raise click.UsageError(f"{text} has no server {name!r}; it has {', '.join(names)}")
    return f"{text.strip().removesuffix(':')}:{name}"


def _configuration(text: str) -> tuple[str, Path, str | None] | None:
    """Return name, file and member of the configuration that a text names without a server; ``None`` for any other."""
    text = text.strip()
    path, attribute = split_path(text)
    if path is not None:
        is_one = path.suffix.lower() in (".json", ".jsonc") and attribute is None
        return (path.stem, path, None) if is_one else None
    if not text.endswith(":"):
        return None
    from ferrule.cli.hosts.places import HOSTS

    host = HOSTS.get(text.removesuffix(":"))
    return None if host is None else (host.name, host.path(), host.key)


def _from_hosts(text: str) -> ServerChoice | None:
    from ferrule.cli.hosts.places import HOSTS, known_servers, read_servers

    host_name, colon, server = text.partition(":")
    if colon and host_name in HOSTS:
        host = HOSTS[host_name]
        try:
            servers = read_servers(host.path(), host.key)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        return _from_entries(text, f"{host.title} ({host.path()})", servers, server or None)
    if any(character.isspace() or character in "/\\" for character in text) or shutil.which(text):
        return None
    found = [(host, servers[text]) for host, servers in known_servers().items() if text in servers]
    if not found:
        return None
    if len({str(entry) for _, entry in found}) > 1:
        raise click.UsageError(
            f"Several hosts have a server {text!r}; write one of {', '.join(f'{h}:{text}' for h, _ in found)}"
        )
    return _from_entries(text, found[0][0], {text: found[0][1]}, text)


def read_group(text: str) -> tuple[str, GroupTarget] | None:
    """Return the name and the servers of a configuration with several servers, of which none is chosen.

    The target of a malformed entry is the exception. ``None`` if the text is not such a configuration.

    Raises:
        click.UsageError: the configuration cannot be read.
    """
    from ferrule.cli.hosts.places import read_servers
    from ferrule.client.config import read_group as read_targets

    found = _configuration(text)
    if found is None:
        return None
    name, where, key = found
    try:
        servers = read_servers(where, key)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    if len(servers) < 2:
        return None
    return name, read_targets(servers, str(where))


def configured_search(text: str) -> ToolSearchMode:
    """Return ``"toolSearch"`` of a configuration file, which stands beside its servers; ``False`` without.

    Raises:
        click.UsageError: it is no mode of a search.
    """
    from ferrule.client.config_file import load_config

    path, _ = split_path(text.strip())
    if path is None or path.suffix.lower() not in (".json", ".jsonc"):
        return False
    return read_search(load_config(path).get("toolSearch", False), f"{path}: toolSearch")


def read_search(given: Any, source: str) -> ToolSearchMode:
    """Return the mode of a search that a person wrote.

    Args:
        given: ``on``, ``off``, ``auto``, a number above 0, or a truth value.
        source: what to call the place in errors.

    Raises:
        click.UsageError: it is no mode.
    """
    from ferrule.search.definitions import most_listed

    mode: Any = given
    if given in ("on", "off"):
        mode = given == "on"
    elif isinstance(given, str) and given.isascii() and given.isdigit():
        mode = int(given)
    try:
        most_listed(mode)
    except ValueError as error:
        raise click.UsageError(f"{source} is on, off, auto or a number of tools above 0, not {given!r}") from error
    return cast("ToolSearchMode", mode)


def _from_entries(text: str, where: str, servers: Mapping[str, Any], name: str | None) -> ServerChoice:
    from ferrule.cli.hosts.entries import to_plain_entry
    from ferrule.client.config import read_group as read_targets

    if not servers:
        raise click.UsageError(f"{where} has no servers")
    if name is None and len(servers) > 1:
        raise click.UsageError(
            f"{where} has several servers: {', '.join(servers)}. Choose one with --server NAME or {text}:NAME"
            if not text.endswith(":")
            else f"{where} has several servers: {', '.join(servers)}. Choose one: {text}NAME"
        )
    name = next(iter(servers)) if name is None else name
    if name not in servers:
        raise click.UsageError(f"{where} has no server {name!r}; it has {', '.join(servers)}")
    found = read_targets({name: servers[name]}, where)
    target = found.servers[name]
    if isinstance(target, Exception):
        raise click.UsageError(str(target))
    said = found.settings.get(name)
    return ServerChoice(text, target, name, from_config=to_plain_entry(servers[name]), settings=said)


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Return the items for shell completion: matching servers of a configuration or of hosts if any, else files."""
    from click.shell_completion import CompletionItem

    file, colon, start = incomplete.partition(":")
    if colon and file.lower().endswith((".json", ".jsonc")):
        return [CompletionItem(f"{file}:{name}") for name in server_names(file) if name.startswith(start)]
    found: list[Any] = []
    if incomplete:
        from ferrule.cli.hosts.places import known_servers

        names = [f"{host}:{name}" for host, servers in known_servers().items() for name in servers]
        found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    # Not both: the completion scripts ignore names when files are requested.
    return found or [CompletionItem(incomplete, type="file")]
