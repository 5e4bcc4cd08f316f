"""OpenAPI descriptions as TARGET: ``ferrule run openapi.json``, ``ferrule list openapi.yaml``.

The command line has to name the operations to expose and the base URL of the API; the description's own servers are
never used by default. The errors for both have options that can be copied.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from ferrule.cli.exits import EXIT_NO_CONNECTION, EXIT_USAGE, Quit

__all__ = [
    "DescriptionOptions",
    "absolute_server",
    "choice_options",
    "chosen_operations",
    "include_line",
    "is_description",
    "read_target_description",
    "serve_description",
    "tags_of",
    "usable_operations",
]

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_SUFFIXES = (".json", ".yaml", ".yml")
_MENTIONED = re.compile(rb"""(?:^|[{,\s"'])(?:openapi|swagger)["']?\s*:""")
_SHOWN_TAGS = 8


class DescriptionOptions:
    """The options of the command line for an API.

    Args:
        base_url: the base URL of the API.
        include, exclude: patterns of `ferrule.expose` for operations.
        headers: headers of each request.
        auth_env: the environment variable with the API's token or key.
    """

    __slots__ = ("auth_env", "base_url", "exclude", "headers", "include")

    def __init__(
        self,
        *,
        base_url: str | None = None,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        headers: Mapping[str, str] | None = None,
        auth_env: str | None = None,
    ) -> None:
        self.base_url = base_url
        self.include = list(include)
        self.exclude = list(exclude)
        self.headers = headers
        self.auth_env = auth_env

    @property
    def are_given(self) -> bool:
        """Whether an option is given that applies to a description only."""
        return bool(self.base_url or self.include or self.exclude or self.auth_env)


def choice_options(command: CommandT) -> CommandT:
    """Return a command with ``--include`` and ``--exclude``."""
    helps = {
        "exclude": "For an OpenAPI description: operations that are not exposed. Repeatable.",
        "include": "For an OpenAPI description: operations that are exposed: '*', tag:NAME, 'GET /path'. Repeatable.",
    }
    for name, text in helps.items():
        command = click.option(f"--{name}", name, multiple=True, metavar="PATTERN", help=text)(command)
    return command


def is_description(target: str, *, is_asked: bool = False) -> bool:
    """Return whether a target is an OpenAPI description: a file with its keys, or the URL of a JSON or YAML file.

    Args:
        target: the TARGET as typed.
        is_asked: whether options for a description were given: then any URL is one.
    """
    if target.startswith(("http://", "https://")):
        return is_asked or target.partition("?")[0].partition("#")[0].lower().endswith(_SUFFIXES)
    path = Path(target)
    if path.suffix.lower() not in _SUFFIXES or not path.is_file():
        return False
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return _MENTIONED.search(data) is not None and (path.suffix.lower() != ".json" or _says_so(data))


def _says_so(data: bytes) -> bool:
    """Return whether JSON, which may also be a host's configuration, is a description, even a malformed one."""
    from ferrule.wire.codec import decode
    from ferrule.wire.faults import DecodeError
    from ferrule.wire.json_types import is_object

    try:
        found = decode(data)
    except DecodeError:
        return b"mcpServers" not in data
    return is_object(found) and ("openapi" in found or "swagger" in found)


def read_target_description(target: str) -> Any:
    """Read a target and return its description.

    Raises:
        Quit: the description cannot be read.
    """
    from ferrule.expose import NotADescription, read_openapi

    try:
        return read_openapi(target)
    except (NotADescription, OSError, ImportError) as error:
        raise _unreadable(error) from error


def chosen_operations(description: Any, target: str, options: DescriptionOptions, command: str) -> list[Any]:
    """Return the operations that ``--include`` and ``--exclude`` name.

    Args:
        description: the description.
        target: the TARGET as typed, for messages.
        options: the options of the command line.
        command: the command with its target, for messages.

    Raises:
        click.UsageError: no ``--include`` was given, or a pattern matches nothing.
    """
    from ferrule.expose import NothingMatches
    from ferrule.expose.choice import choose_operations

    operations = description.operations
    if not options.include:
        tags = [f"--include {shlex.quote(f'tag:{tag}')}" for tag, _ in tags_of(operations).most_common(_SHOWN_TAGS)]
        lines = [
            f"Nothing of {target} is exposed by itself. Say which of its {len(operations)} operations:",
            f"  {command} --include {shlex.quote('*')}    all of them",
            *(f"  {command} {tag}" for tag in tags[:3]),
            f"`ferrule list {shlex.quote(target)}` shows them all.",
        ]
        raise click.UsageError("\n".join(lines))
    try:
        return choose_operations(operations, options.include, options.exclude)
    except NothingMatches as error:
        raise click.UsageError(f"{error}\n`ferrule list {shlex.quote(target)}` shows what there is.") from error


def usable_operations(operations: Iterable[Any]) -> tuple[list[Any], list[tuple[Any, str]]]:
    """Return the operations that can be tools, and the others, each with its reason."""
    from ferrule.expose.operations import UnusableOperation

    usable: list[Any] = []
    skipped: list[tuple[Any, str]] = []
    for operation in operations:
        try:
            operation.schemas()
            usable.append(operation)
        except UnusableOperation as error:
            skipped.append((operation, str(error)))
    return usable, skipped


def tags_of(operations: Iterable[Any]) -> Counter[str]:
    """Return how many operations have each tag."""
    return Counter(tag for operation in operations for tag in operation.tags)


def include_line(operations: Iterable[Any]) -> str:
    """Return ``include=`` for exactly these operations, as Python."""
    return f"include=[{', '.join(_quoted(operation.label) for operation in operations)}]"


def _quoted(text: str) -> str:
    from ferrule.wire.codec import encode_str

    return encode_str(text)


def absolute_server(description: Any) -> str | None:
    """Return the first absolute URL without variables that a description names as a server; ``None`` without."""
    for url in description.servers:
        given = str(url)
        try:
            parts = urlsplit(given)
        except ValueError:
            continue
        if parts.scheme in ("http", "https") and parts.hostname and not {"{", "?", "#"} & set(given):
            return given.rstrip("/")
    return None


def serve_description(target: str, options: DescriptionOptions) -> Any:
    """Return a server for a description.

    Raises:
        click.UsageError: the base URL or ``--include`` is missing, or a pattern matches nothing.
        Quit: the description cannot be read.
    """
    from ferrule.expose import NotADescription, from_openapi

    if not options.include or options.base_url is None:
        raise _what_is_missing(target, options)
    token = None
    if options.auth_env is not None:
        token = os.environ.get(options.auth_env)
        if not token:
            raise click.UsageError(f"The environment variable {options.auth_env} of --auth-env is not set")
    try:
        return from_openapi(
            target,
            base_url=options.base_url,
            auth=token,
            headers=options.headers,
            include=options.include,
            exclude=options.exclude,
        )
    except (NotADescription, OSError, ImportError) as error:
        raise _unreadable(error) from error
    except ValueError as error:  # a pattern that matches nothing, or an invalid base URL
        hint = "" if "base_url" in str(error) else f"\n`ferrule list {shlex.quote(target)}` shows what there is."
        raise click.UsageError(f"{str(error).replace('base_url', '--base-url')}{hint}") from error


def _what_is_missing(target: str, options: DescriptionOptions) -> click.UsageError:
    description = read_target_description(target)
    command = f"ferrule run {shlex.quote(target)} --base-url {options.base_url or 'URL'}"
    chosen_operations(description, target, options, command)
    named = absolute_server(description)
    hint = "" if named is None else f"; the description names {named}, which is never used without being asked for"
    return click.UsageError(f"Say where the API is: --base-url https://…{hint}")


def _unreadable(error: Exception) -> Quit:
    return Quit(EXIT_NO_CONNECTION if "cannot be fetched" in str(error) else EXIT_USAGE, str(error))
