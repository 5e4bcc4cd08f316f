"""What an entry of a configuration says about the use of its server: time limits, and which tools are shown and how.

Hosts spell the same thing differently; every spelling in `read_settings` is read. An unknown key is named in
the log, once for each entry, and the entry is used.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["OTHER_KEYS", "SETTING_KEYS", "ServerSettings", "ServerSettingsError", "ToolSettings", "read_settings"]

logger = logging.getLogger("ferrule.client")

_INCLUDE: Final = ("includeTools", "enabledTools", "enabled_tools", "allowedTools")
_EXCLUDE: Final = ("excludeTools", "disabledTools", "disabled_tools")
_CALL_TIMES: Final = ("timeout", "tool_timeout_sec")
_START_TIMES: Final = ("connectTimeout", "startup_timeout_sec")
_LIMIT: Final = "maxConcurrent"
SETTING_KEYS: Final = (*_INCLUDE, *_EXCLUDE, *_CALL_TIMES, *_START_TIMES, _LIMIT, "tools", "auth")
"""The keys of an entry that `read_settings` reads."""
OTHER_KEYS: Final = frozenset(
    {
        *("alwaysAllow", "autoApprove", "trust", "tags", "name", "title", "description", "icon", "note", "comment"),
        *("gallery", "version", "dev", "source", "bundled", "registry", "watchPaths", "settings", "required"),
        *("command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers"),
        *("type", "transport", "disabled", "enabled"),
    }
)
"""Keys that need no warning: those of `ferrule.client.config_file`, and those that concern a host alone."""
_TOOL_KEYS: Final = frozenset({"name", "title", "description", "enabled", "disabled"})
_MOST_SECONDS: Final = 3600.0
"""The largest ``timeout`` that is a number of seconds; a larger one is in milliseconds."""
_MAX_NAME: Final = 128


class ServerSettingsError(ValueError):
    """A setting is malformed; the message names the key."""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """How one tool is shown; ``None`` leaves what its server says.

    Attributes:
        name: its name, without the prefix of the server.
        title, description: its texts.
        shown: whether it is listed and can be called.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    shown: bool = True


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How one server of a configuration is used.

    Attributes:
        timeout_s: seconds that one request may take; ``None``: as for the others.
        connect_timeout_s: seconds that connecting may take; ``None``: as for the others.
        max_concurrent: requests at the same time; ``None``: no limit.
        include: patterns of the tools to show (``*`` and ``?`` as in file names); ``None``: all.
        exclude: patterns of tools to leave out, of those that ``include`` shows.
        tools: the server's own name of a tool → how it is shown.
        auth: the value of ``auth`` as written; ``None`` without.
    """

    timeout_s: float | None = None
    connect_timeout_s: float | None = None
    max_concurrent: int | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    tools: Mapping[str, ToolSettings] = field(default_factory=dict[str, ToolSettings])
    auth: Any = None

    @property
    def changes_tools(self) -> bool:
        """Whether some tool is left out or shown differently."""
        return self.include is not None or bool(self.exclude or self.tools)

    def shows(self, name: str) -> bool:
        """Return whether a tool is shown, by the name that its server gives it."""
        if self.include is not None and not any(fnmatchcase(name, pattern) for pattern in self.include):
            return False
        override = self.tools.get(name)
        if override is not None and not override.shown:
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def own_name(self, shown: str) -> str | None:
        """Return the server's name of a tool that is shown under a name; ``None`` if there is no such tool to show."""
        for own, override in self.tools.items():
            if override.name == shown:
                return own if self.shows(own) else None
        renamed = self.tools.get(shown)
        is_taken = renamed is not None and renamed.name not in (None, shown)
        return None if is_taken or not self.shows(shown) else shown

    def shown_tool(self, tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a listed tool (its JSON object) as it is shown; ``None`` if it is left out."""
        name = tool.get("name")
        if not isinstance(name, str) or not self.shows(name):
            return None
        override = self.tools.get(name)
        if override is None:
            # A tool whose own name another one was given cannot be called any more.
            return None if self.own_name(name) != name else tool
        said = {"name": override.name, "title": override.title, "description": override.description}
        return {**tool, **{key: value for key, value in said.items() if value is not None}}


def read_settings(entry: Any, where: str) -> ServerSettings:
    """Return the settings in the entry of a server.

    ``timeout`` is a number of seconds, or of milliseconds above 3600 (as in Gemini CLI); ``includeTools`` and
    ``excludeTools`` (or ``disabledTools``) are lists of names; ``tools`` is such a list, or an object: name of a tool →
    ``{"name", "title", "description", "disabled"}``.

    Args:
        entry: the entry; one that is no object has no settings.
        where: its name for errors: file and keys.

    Raises:
        ServerSettingsError: a setting is malformed, or two tools have the same new name.
    """
    if not is_mapping(entry):
        return ServerSettings()
    unknown = sorted(str(key) for key in entry if key not in OTHER_KEYS and key not in SETTING_KEYS)
    if unknown:
        logger.warning("%s has keys that are not read: %s", where, ", ".join(repr(key) for key in unknown[:16]))
    listed: Any = entry.get("tools")
    include = _patterns(entry, _INCLUDE, where)
    if is_list(listed):
        include = (*(include or ()), *_names(listed, f"{where}.tools"))
        listed = None
    return ServerSettings(
        timeout_s=_seconds(entry, _CALL_TIMES, where),
        connect_timeout_s=_seconds(entry, _START_TIMES, where),
        max_concurrent=_limit(entry.get(_LIMIT), f"{where}.{_LIMIT}"),
        include=include,
        exclude=_patterns(entry, _EXCLUDE, where) or (),
        tools={} if listed is None else _tools(listed, f"{where}.tools"),
        auth=entry.get("auth"),
    )


def _seconds(entry: Mapping[str, Any], keys: tuple[str, ...], where: str) -> float | None:
    key = next((key for key in keys if entry.get(key) is not None), None)
    if key is None:
        return None
    value: Any = entry[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ServerSettingsError(f"{where}.{key} is {value!r}; it is a number of seconds above 0")
    return value / 1000 if value > _MOST_SECONDS and not key.endswith("_sec") else float(value)


def _limit(value: Any, where: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ServerSettingsError(f"{where} is {value!r}; it is a number of requests above 0")
    return value


def _patterns(entry: Mapping[str, Any], keys: tuple[str, ...], where: str) -> tuple[str, ...] | None:
    """Return the names under all spellings of a list; ``None`` if there is none of them."""
    given = [key for key in keys if entry.get(key) is not None]
    return tuple(name for key in given for name in _names(entry[key], f"{where}.{key}")) if given else None


def _names(value: Any, where: str) -> list[str]:
    if not is_list(value) or not all(isinstance(name, str) and name for name in value):
        raise ServerSettingsError(f"{where} is a list of the names of tools")
    return [str(name) for name in value]


def _tools(value: Any, where: str) -> dict[str, ToolSettings]:
    if not is_mapping(value):
        raise ServerSettingsError(f"{where} is a list of names, or an object with the names of tools")
    made = {str(name): _tool(each, f"{where}.{name}") for name, each in value.items()}
    taken: dict[str, str] = {}
    for own, override in made.items():
        if override.name is not None and taken.setdefault(override.name, own) != own:
            raise ServerSettingsError(
                f"{where}: {own!r} and {taken[override.name]!r} are both called {override.name!r}"
            )
    return made


def _tool(value: Any, where: str) -> ToolSettings:
    if not is_mapping(value):
        raise ServerSettingsError(f"{where} is an object with name, title, description or disabled")
    unknown = next((key for key in value if key not in _TOOL_KEYS), None)
    if unknown is not None:
        raise ServerSettingsError(f"{where} has the unknown key {unknown!r}; known are {', '.join(sorted(_TOOL_KEYS))}")
    texts: dict[str, Any] = {key: value.get(key) for key in ("name", "title", "description")}
    for key, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise ServerSettingsError(f"{where}.{key} is a text")
    name = texts["name"]
    if name is not None and not 0 < len(name) <= _MAX_NAME:
        raise ServerSettingsError(f"{where}.name has 1 to {_MAX_NAME} characters")
    return ToolSettings(**texts, shown=value.get("disabled") is not True and value.get("enabled") is not False)
