"""Configurations of hosts: the one reader of their files and entries, for `Client` and for the command line.

Files may have comments, trailing commas and byte order marks, and hosts use three keys for a URL: all are accepted. An
unclear entry is refused with the names of file and key. Nothing is guessed: text is not split into arguments, and only
the command of an entry is run.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ferrule.client.config_settings import OTHER_KEYS, SETTING_KEYS
from ferrule.client.targets import HttpTarget, StdioTarget
from ferrule.protocol.jsonc import JsoncError, parse_jsonc
from ferrule.transports.stdio.client import StdioServer
from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["ConfigError", "DisabledServer", "expanded", "find_servers", "is_entry", "load_config", "read_entry"]

_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")
_INPUT = re.compile(r"\$\{input:(?P<name>[^}]*)\}")
_GROUPS: Final = ("mcpServers", "servers", "context_servers")
_URLS: Final = ("url", "serverUrl", "httpUrl")
_KEYS: Final = (
    "command",
    "args",
    "env",
    "cwd",
    *_URLS,
    "headers",
    "type",
    "transport",
    "disabled",
    "enabled",
)
"""The keys that say what the server is; `ferrule.client.config_settings` reads those about its use. A key that is
similar to one of either is refused as a spelling mistake."""
_HTTP_TYPES: Final = frozenset({"http", "sse", "streamable-http", "streamableHttp", "streamable_http"})


class ConfigError(ValueError):
    """A configuration is malformed; the message names the file and the key."""


class DisabledServer(ConfigError):
    """The configuration says that the server is not to be used."""


def load_config(path: Path) -> Mapping[str, Any]:
    """Return the document in a configuration file.

    Raises:
        ConfigError: it is not text, not JSON (comments and trailing commas are taken), or not an object.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        document = parse_jsonc(data.decode(encoding))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except JsoncError as error:
        raise ConfigError(f"{path}: {error}") from error
    if document is None:
        raise ConfigError(f"{path} is empty")
    if not is_mapping(document):
        raise ConfigError(f"{path} holds {_kind(document)}; a configuration is an object")
    return document


def find_servers(document: Mapping[str, Any], where: str, key: str | None = None) -> Mapping[str, Any] | None:
    """Return the entries in a configuration, by name; ``None`` where there is no member for them.

    Args:
        where: the configuration's name for errors.
        key: the member that holds them; ``None``: ``mcpServers``, ``servers``, ``context_servers`` (Zed), or
            ``mcp.servers``.

    Raises:
        ConfigError: the member is not an object.
    """
    for name in _GROUPS if key is None else (key,):
        if name in document:
            return _object(document[name], f"{where}: {name}")
    settings = document.get("mcp")
    if key is None and is_mapping(settings) and "servers" in settings:
        return _object(settings["servers"], f"{where}: mcp.servers")
    return None


def is_entry(document: Mapping[str, Any]) -> bool:
    """Return whether a configuration is the entry of one server."""
    return "command" in document or any(key in document for key in _URLS)


def read_entry(entry: Any, where: str) -> HttpTarget | StdioTarget:
    """Return the server that an entry describes.

    Args:
        where: its name for errors: file and keys.

    Raises:
        ConfigError: the entry is malformed or unclear.
        DisabledServer: it has ``"disabled": true`` or ``"enabled": false``.
    """
    said = _object(entry, where)
    _check_keys(said, where)
    if said.get("disabled") is True or said.get("enabled") is False:
        raise DisabledServer(f"{where} is disabled")
    kind = said.get("type", said.get("transport"))
    kind = kind.get("type") if is_mapping(kind) else kind
    if kind is not None and kind != "stdio" and kind not in _HTTP_TYPES:
        raise ConfigError(f"{where}.type is {kind!r}; 'stdio', 'http' and 'sse' are known")
    urls = [key for key in _URLS if said.get(key) is not None]
    if urls and said.get("command") is not None:
        raise ConfigError(f"{where} has a 'command' and a {urls[0]!r}: which of the two is it?")
    if urls:
        url = expanded(_text(said[urls[0]], f"{where}.{urls[0]}"), f"{where}.{urls[0]}")
        headers = _texts_by_name(said.get("headers"), f"{where}.headers")
        try:
            return HttpTarget(url.strip(), headers, is_sse=kind == "sse")
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{where}: {error}") from error
    if said.get("command") is None:
        raise ConfigError(f"{where}: an entry has a 'command' or a 'url'" if kind is None else _lacks(where, kind))
    return StdioTarget(_stdio(said, where))


def _lacks(where: str, kind: str) -> str:
    return f"{where} has no {'command' if kind == 'stdio' else 'url'!r}, which an entry of type {kind!r} has"


def _stdio(said: Mapping[str, Any], where: str) -> StdioServer:
    env = _texts_by_name(said.get("env"), f"{where}.env")
    command, arguments = said["command"], said.get("args")
    if arguments is not None and not is_list(arguments):
        hint = ': write each argument as a text of its own, ["a", "b"]' if isinstance(arguments, str) else ""
        raise ConfigError(f"{where}.args is {_kind(arguments)}; it is a list{hint}")
    parts = [command] if isinstance(command, str) else command
    if not is_list(parts) or not parts:
        raise ConfigError(f"{where}.command is {_kind(command)}; it is the name of a program")
    texts = [expanded(_text(part, f"{where}.command"), f"{where}.command") for part in parts]
    texts += [expanded(_plain(part, f"{where}.args[{at}]"), f"{where}.args") for at, part in enumerate(arguments or ())]
    program = os.path.expanduser(texts[0])
    if not program.strip():
        raise ConfigError(f"{where}.command is empty")
    if any(character.isspace() for character in program) and not _exists(program, env.get("PATH")):
        raise ConfigError(
            f"{where}.command is {program!r}, which is not a program; what follows its name belongs into 'args'"
        )
    cwd = said.get("cwd")
    if cwd is not None:
        cwd = os.path.expanduser(expanded(_text(cwd, f"{where}.cwd"), f"{where}.cwd"))
    return StdioServer(program, tuple(texts[1:]), env=env, cwd=cwd)


def _exists(program: str, path: str | None) -> bool:
    return os.path.exists(program) or shutil.which(program, path=path) is not None


def _check_keys(said: Mapping[str, Any], where: str) -> None:
    from difflib import get_close_matches  # not above: every client imports this module

    known_keys = (*_KEYS, *SETTING_KEYS)
    for key in said:
        if key in _KEYS or key in SETTING_KEYS or key in OTHER_KEYS:
            continue
        meant = get_close_matches(key, known_keys, n=1, cutoff=0.8)
        meant = meant or [known for known in known_keys if known.lower() == key.lower()]
        if meant and meant[0] not in said:
            raise ConfigError(f"{where} has the unknown key {key!r}; did you mean {meant[0]!r}?")


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not is_mapping(value):
        raise ConfigError(f"{where} is {_kind(value)}; it is an object")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where} is {_kind(value)}; it is a text")
    return value


def _plain(value: Any, where: str) -> str:
    """Return a text, number or boolean as text.

    Raises:
        ConfigError: it is another type.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else _text(value, where)


def _texts_by_name(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    found = _object(value, where)
    return {
        str(name): expanded(_plain(each, f"{where}.{name}"), f"{where}.{name}")
        for name, each in found.items()
        if each is not None
    }


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if is_list(value):
        return "a list"
    return "an object" if is_mapping(value) else "a number"


def expanded(text: str, where: str) -> str:
    """Return text with ``${NAME}``, ``${env:NAME}`` and ``${NAME:-default}`` replaced from the environment.

    Raises:
        ConfigError: a variable without a default is not set, or a host would ask its user for the value.
    """
    asked = _INPUT.search(text)
    if asked is not None:
        raise ConfigError(f"{where} asks the user for {asked['name']!r}; put '${{NAME}}' and set that variable")

    def value_of(found: re.Match[str]) -> str:
        value: str | None = os.environ.get(found["name"]) or found["default"]
        if value is None and found["name"] in os.environ:
            return ""
        if value is None:
            raise ConfigError(f"{where}: The environment variable {found['name']} is not set")
        return value

    return _VARIABLE.sub(value_of, text)
