"""``ferrule install``: a server into a host's configuration, or out of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click

from ferrule.cli.exits import EXIT_USAGE, Quit
from ferrule.cli.hosts.edits import FormatError
from ferrule.cli.hosts.formats import format_of
from ferrule.cli.hosts.installing import Change, InstallHistory, apply_change, plan_install, plan_removal, plan_undo
from ferrule.cli.hosts.places import HOSTS, Host
from ferrule.cli.output import print_text, say
from ferrule.cli.targets import ServerChoice, complete_target, python_command, read_choice

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule install claude-desktop server.py --env API_KEY
  ferrule install vscode https://tools.example/mcp --project --dry-run
  ferrule install codex server.py --print
  ferrule install cursor --undo
  ferrule install cursor --compat mcp-dice
  ferrule install --links 'uvx weather-mcp' --env WEATHER_API_KEY
"""


class _HostName(click.Choice[str]):
    """The name of a host; with ``--links``, which names none, whatever stands there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name.

        Raises:
            click.BadParameter: there is no such host.
        """
        return str(value) if ctx is not None and ctx.params.get("links") else super().convert(value, param, ctx)


@click.command("install", epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@click.argument("host", type=_HostName([*HOSTS, "json"]), metavar="HOST")
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--name", help="The server's name in the configuration.")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Another file; needed for json.")
@click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False),
    is_flag=False,
    flag_value=".",
    help="The configuration of a project folder (this one if none is named).",
)
@click.option(
    "--env",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable for the server; NAME alone copies the value of this shell.",
)
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="For a URL.")
@click.option("--dry-run", is_flag=True, help="Show the change and do not make it.")
@click.option("--print", "prints", is_flag=True, help="Print the entry in the host's form, and change no file.")
@click.option(
    "--links",
    is_flag=True,
    is_eager=True,
    help="Print links for a README (Cursor, VS Code, Goose, LM Studio); no HOST.",
)
@click.option(
    "--compat",
    metavar="PACKAGE",
    help="A published server of the official SDK 1.x, run by ferrule-compat; TARGET is its command.",
)
@click.option("--undo", is_flag=True, help="Undo the last change of this file (and --name).")
@click.option("--remove", is_flag=True, help="Remove the server --name.")
def command(
    host: str,
    target: str | None,
    name: str | None,
    file: Path | None,
    project: Path | None,
    env: tuple[str, ...],
    headers: tuple[str, ...],
    dry_run: bool,
    prints: bool,
    links: bool,
    compat: str | None,
    undo: bool,
    remove: bool,
) -> None:
    """Put the server TARGET into the configuration of HOST.

    HOST is claude-desktop, claude-code, cursor, vscode, windsurf, gemini-cli, codex, copilot-cli, zed, goose,
    lm-studio, antigravity, antigravity-cli, or json: any file with 'mcpServers'.

    Comments, order and unknown keys of the file stay as they are.

    --compat PACKAGE installs a published server that was written for the official SDK 1.x, started by uvx and
    ferrule-compat. TARGET is its command with arguments, if that is not the package's name alone.

    --links TARGET prints Markdown for the README of a server. The links hold the names of --env and of ${NAME} in
    --header, never values; a file stands for the command of its project (uvx NAME), with its declared settings.
    """
    if links:
        if target is not None:
            raise click.UsageError("--links takes the server alone: the links are for several hosts")
        _print_links(host, name, env, headers)
        return
    where, path = _configuration_of(host, file, project)
    try:
        if undo:
            _undo(path, name, dry_run)
            return
        if remove:
            if name is None:
                raise click.UsageError("--remove needs --name")
            _carry_out(plan_removal(path, where.key, name), dry_run, f"{name!r} is out of {path}")
            return
        if compat is not None:
            target = _compat_target(compat, target)
            name = name or package_name(compat)
        if target is None:
            raise click.UsageError("Name the server: a file, URL, command or configuration")
        choice = read_choice(target)
        entry = _entry_for(where, choice, name or choice.name, env, headers)
        if prints:
            print_text(format_of(path).set_entry("", where.key, name or choice.name, entry).rstrip("\n"))
            return
        change = plan_install(path, where.key, name or choice.name, entry)
        _carry_out(change, dry_run, f"{change.name!r} is in {path}. {where.restart}")
    except FormatError as error:
        raise Quit(EXIT_USAGE, f"{path} was left alone: {error}") from error


def _compat_target(package: str, target: str | None) -> str:
    from ferrule.cli.compatibility.compat_ import compat_command

    words = [package_name(package)] if target is None else shlex.split(target)
    return shlex.join(compat_command(package, words))


def package_name(requirement: str) -> str:
    """Return the name in a requirement such as ``weather-mcp[all]==1.2``."""
    return re.split(r"[\s\[<>=!~;@]", requirement.strip(), maxsplit=1)[0]


def _print_links(text: str, name: str | None, env: tuple[str, ...], headers: tuple[str, ...]) -> None:
    from ferrule.cli.hosts.links import readme_block
    from ferrule.cli.hosts.published import linked_server

    try:
        server = linked_server(read_choice(text), name, env, dict(_header(each) for each in headers))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    print_text(readme_block(server))


def _entry_for(
    where: Host, choice: ServerChoice, name: str, env: tuple[str, ...], headers: tuple[str, ...]
) -> dict[str, Any]:
    try:
        return where.entry(_plain_entry(choice, where, env, headers), name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _configuration_of(host: str, file: Path | None, project: Path | None) -> tuple[Host, Path]:
    if host == "json":
        if file is None:
            raise click.UsageError("json needs --file")
        return Host("json", str(file), lambda: file, restart=""), file
    where = HOSTS[host]
    if file is not None:
        return where, file
    try:
        return where, where.path(project)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _plain_entry(choice: ServerChoice, host: Host, env: tuple[str, ...], headers: tuple[str, ...]) -> dict[str, Any]:
    """Return the entry for a host, with absolute paths, because a host may start processes in any folder."""
    variables = _variables(env)
    if choice.from_config is not None:
        plain = dict(choice.from_config)
        if variables:
            plain["env"] = {**plain.get("env", {}), **variables}
        return plain
    target: Any = choice.target
    if choice.is_http and host.url_key is not None:
        plain = {"url": target.url}
        if headers:
            plain["headers"] = dict(_header(text) for text in headers)
        if variables:
            raise click.UsageError("A URL has no environment")
        return plain
    if choice.is_http:
        command = python_command("run", target.url, *(part for text in headers for part in ("--header", text)))
    elif choice.file is not None:
        attribute = "" if choice.attribute is None else f":{choice.attribute}"
        command = python_command("run", f"{choice.file.resolve()}{attribute}")
    else:
        command = [_absolute(target.server.command), *(_absolute_path(part) for part in target.server.args)]
    started: dict[str, Any] = {"command": command[0], "args": command[1:]}
    return {**started, "env": variables} if variables else started


def _absolute(program: str) -> str:
    """Return a program as an absolute path: hosts that are started from a menu have another PATH than this shell."""
    found = shutil.which(program)
    if found is None:
        say(f"{program!r} is not in PATH now; the host must find it")
        return program
    return os.path.abspath(found)


def _absolute_path(part: str) -> str:
    return os.path.abspath(part) if not part.startswith("-") and os.path.isfile(part) else part


def _variables(env: tuple[str, ...]) -> dict[str, str]:
    made: dict[str, str] = {}
    for text in env:
        name, sign, value = text.partition("=")
        if not name:
            raise click.UsageError(f"A variable is written NAME=VALUE, not {text!r}")
        if not sign:
            if name not in os.environ:
                raise click.UsageError(f"The variable {name} is not set here")
            value = os.environ[name]
        made[name] = value
    return made


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError(f"A header is written 'Name: value', not {text!r}")
    return name.strip(), value.strip()


def _undo(path: Path, name: str | None, dry_run: bool) -> None:
    journal = InstallHistory()
    record = journal.last(path, name)
    if record is None:
        raise Quit(EXIT_USAGE, f"no change of {path} is noted that could be undone")
    change = plan_undo(record, path)
    if dry_run:
        print_text(change.diff() or "nothing would change")
        return
    apply_change(change)
    journal.drop(record)
    is_whole = change.after == record.before
    say(f"{path} is as it was before {record.name!r}" if is_whole else f"{record.name!r} is undone")


def _carry_out(change: Change, dry_run: bool, words: str) -> None:
    if change.is_nothing:
        say(f"nothing to change: {change.path} has this entry already")
        return
    if dry_run:
        print_text(change.diff().rstrip("\n"))
        return
    journal = InstallHistory()
    made = journal.add(change)
    try:
        apply_change(change)
    except BaseException:
        journal.drop(made)
        raise
    say(words.strip())
