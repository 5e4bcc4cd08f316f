"""The supported hosts: the files with their configurations.

The paths are those of common installations; they were not checked for every version of every host. For other hosts use
``json``: any file with an ``mcpServers`` object. `ferrule.cli.hosts.entries` has the forms of entries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ferrule.cli.hosts.entries import codex_entry, common_entry, copilot_entry, goose_entry
from ferrule.cli.hosts.formats import format_of
from ferrule.client.config_file import ConfigError, find_servers, is_entry, load_config
from ferrule.wire.json_types import is_mapping

__all__ = ["HOSTS", "Host", "known_servers", "read_servers"]


def _application_data(*parts: str) -> Path:
    """Return the folder in which desktop programs of this platform keep their settings."""
    if sys.platform == "darwin":
        return Path.home().joinpath("Library", "Application Support", *parts)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming").joinpath(*parts)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").joinpath(*parts)


def _folder(variable: str, name: str) -> Path:
    """Return the folder that a variable names, else one in the home of this user."""
    given = os.environ.get(variable)
    return Path(given) if given else Path.home() / name


def _zed_folder() -> Path:
    if sys.platform == "darwin":  # not where other programs of this platform have their settings
        return Path.home() / ".config" / "zed"
    return _application_data("Zed" if sys.platform == "win32" else "zed")


def _goose_folder() -> Path:
    if sys.platform == "win32":
        return _application_data("Block", "goose", "config")
    return Path.home() / ".config" / "goose"


@dataclass(frozen=True, slots=True)
class Host:
    """One host.

    Attributes:
        name: its name on the command line.
        title: its name for people.
        user_file: the configuration of this user.
        project_file: the configuration of a project, relative to the project's folder; ``None`` without.
        key: the member of the configuration with the servers.
        url_key: the key of an entry for a URL; ``None`` if the host only starts processes.
        names_type: whether entries have ``"type": "stdio"`` or ``"http"``.
        write: ``(plain entry, name)`` returns an entry of a form of its own; ``None`` for the common form.
        restart: the instruction for users to make the host read a change.
    """

    name: str
    title: str
    user_file: Callable[[], Path]
    project_file: str | None = None
    key: str = "mcpServers"
    url_key: str | None = "url"
    names_type: bool = False
    write: Callable[[Mapping[str, Any], str], dict[str, Any]] | None = None
    restart: str = "Restart it to see the server."

    def path(self, project: Path | None = None) -> Path:
        """Return the file to read or change.

        Raises:
            ValueError: this host has no configuration in projects.
        """
        if project is None:
            return self.user_file()
        if self.project_file is None:
            raise ValueError(f"{self.title} has no configuration per project")
        return project / self.project_file

    def entry(self, plain: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return a plain entry (``command``, ``args``, ``env``, or ``url``, ``headers``) in the form of this host.

        Args:
            plain: the entry.
            name: the name of the server.

        Raises:
            ValueError: this host cannot have such an entry.
        """
        if "url" in plain and self.url_key is None:
            raise ValueError(f"{self.title} starts processes only")
        if self.write is not None:
            return self.write(plain, name)
        if "url" not in plain:
            return {"type": "stdio", **plain} if self.names_type else dict(plain)
        made = {(self.url_key or "url" if key == "url" else key): value for key, value in plain.items()}
        return {"type": "http", **made} if self.names_type else made


HOSTS: Final[dict[str, Host]] = {
    host.name: host
    for host in (
        Host(
            "claude-desktop",
            "Claude Desktop",
            lambda: _application_data("Claude", "claude_desktop_config.json"),
            url_key=None,
            restart="Quit Claude Desktop completely and start it again.",
        ),
        Host(
            "claude-code",
            "Claude Code",
            lambda: Path.home() / ".claude.json",
            ".mcp.json",
            names_type=True,
            restart="New sessions of Claude Code see it; /mcp shows its state.",
        ),
        Host(
            "cursor",
            "Cursor",
            lambda: Path.home() / ".cursor" / "mcp.json",
            ".cursor/mcp.json",
            restart="Cursor asks to enable it, or see Settings, MCP.",
        ),
        Host(
            "vscode",
            "VS Code",
            lambda: _application_data("Code", "User", "mcp.json"),
            ".vscode/mcp.json",
            key="servers",
            names_type=True,
            restart="VS Code shows a Start link above the entry; MCP: List Servers shows its state.",
        ),
        Host(
            "windsurf",
            "Windsurf",
            lambda: Path.home() / ".codeium" / "windsurf" / "mcp_config.json",
            url_key="serverUrl",
            restart="Press refresh in Windsurf's MCP settings.",
        ),
        Host(
            "gemini-cli",
            "Gemini CLI",
            lambda: Path.home() / ".gemini" / "settings.json",
            ".gemini/settings.json",
            url_key="httpUrl",
            restart="New sessions of Gemini CLI see it; /mcp shows its state.",
        ),
        Host(
            "codex",
            "Codex",
            lambda: _folder("CODEX_HOME", ".codex") / "config.toml",
            ".codex/config.toml",
            key="mcp_servers",
            write=codex_entry,
            restart="New sessions of Codex see it; /mcp shows its state. A project has to be trusted.",
        ),
        Host(
            "copilot-cli",
            "GitHub Copilot CLI",
            lambda: _folder("COPILOT_HOME", ".copilot") / "mcp-config.json",
            ".github/mcp.json",
            write=copilot_entry,
            restart="New sessions of Copilot see it; /mcp show lists it.",
        ),
        Host(
            "zed",
            "Zed",
            lambda: _zed_folder() / "settings.json",
            ".zed/settings.json",
            key="context_servers",
            restart="Zed starts it at once; the settings of its agent show its state.",
        ),
        Host(
            "goose",
            "Goose",
            lambda: _goose_folder() / "config.yaml",
            key="extensions",
            write=goose_entry,
            restart="New sessions of Goose see it.",
        ),
        Host(
            "lm-studio",
            "LM Studio",
            lambda: Path.home() / ".lmstudio" / "mcp.json",
            restart="Switch it on in the Program tab of LM Studio.",
        ),
        Host(
            "antigravity",
            "Antigravity",
            lambda: Path.home() / ".gemini" / "antigravity" / "mcp_config.json",
            url_key="serverUrl",
            restart="Press Refresh in Antigravity, Manage MCP Servers.",
        ),
        Host(
            "antigravity-cli",
            "Antigravity CLI",
            lambda: Path.home() / ".gemini" / "config" / "mcp_config.json",
            ".agents/mcp_config.json",
            url_key="serverUrl",
            restart="New sessions of Antigravity CLI see it.",
        ),
    )
}
"""The hosts by name, in the order in which they are searched."""


_OTHER_FORMATS: Final = frozenset({".toml", ".yaml", ".yml"})


def _load_other(path: Path) -> Mapping[str, Any]:
    """Return the document in a TOML or YAML file.

    Raises:
        ConfigError: it is malformed, or not an object.
        OSError: it cannot be read.
    """
    try:
        document = format_of(path).parse(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    if not is_mapping(document):
        raise ConfigError(f"{path} is empty or no object; a configuration is an object")
    return document


def read_servers(path: Path, key: str | None = None) -> dict[str, Any]:
    """Return the entries in a configuration file, by name, in the common form; empty where there is no such file.

    Args:
        key: the member that holds them; ``None``: ``mcpServers`` or ``servers``.

    Raises:
        ConfigError: the file is malformed.
    """
    try:
        document = load_config(path) if path.suffix.lower() not in _OTHER_FORMATS else _load_other(path)
    except FileNotFoundError:
        return {}
    found = find_servers(document, str(path), key)
    if found is not None:
        # An entry that is null stays, so that a command that names it says so.
        read = {name: common_entry(entry) for name, entry in found.items()}
        return {name: entry for name, entry in read.items() if entry is not None or found[name] is None}
    return {path.stem: dict(document)} if key is None and is_entry(document) else {}


def known_servers() -> dict[str, dict[str, Any]]:
    """Return host name → server name → entry, of every host of this user that has any; unreadable files are skipped."""
    found: dict[str, dict[str, Any]] = {}
    for name, host in HOSTS.items():
        try:
            servers = read_servers(host.path(), host.key)
        except (ConfigError, OSError):
            continue
        if servers:
            found[name] = servers
    return found
