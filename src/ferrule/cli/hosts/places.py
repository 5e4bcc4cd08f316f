"""The hosts that the command line knows: where each keeps its servers, and how it spells one.

The places are as the hosts are commonly set up; they were not checked against every version of every host. A host that
is missing here is served by ``json``: any file with an ``mcpServers`` object.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ferrule.client.config_file import ConfigError, find_servers, is_entry, load_config

__all__ = ["HOSTS", "Host", "known_servers", "read_servers", "to_plain_entry"]


def _application_data(*parts: str) -> Path:
    """Where desktop programs of this platform keep their settings."""
    if sys.platform == "darwin":
        return Path.home().joinpath("Library", "Application Support", *parts)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming").joinpath(*parts)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").joinpath(*parts)


@dataclass(frozen=True, slots=True)
class Host:
    """One host.

    Attributes:
        name: on our command line.
        title: as people call it.
        user_file: its configuration for this user.
        project_file: its configuration for a project folder, relative to that; ``None``: it has none.
        key: the member that holds the servers.
        url_key: how an entry names a URL; ``None``: this host starts processes only.
        names_type: entries say ``"type": "stdio"`` or ``"http"``.
        restart: what the user must do for the host to see a change.
    """

    name: str
    title: str
    user_file: Callable[[], Path]
    project_file: str | None = None
    key: str = "mcpServers"
    url_key: str | None = "url"
    names_type: bool = False
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

    def entry(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Return a plain entry (``command``, ``args``, ``env``, or ``url``, ``headers``) as this host spells it.

        Raises:
            ValueError: it is a URL, and this host starts processes only.
        """
        if "url" not in plain:
            return {"type": "stdio", **plain} if self.names_type else dict(plain)
        if self.url_key is None:
            raise ValueError(f"{self.title} starts processes only")
        made = {(self.url_key if key == "url" else key): value for key, value in plain.items()}
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
    )
}
"""By name, in the order in which they are searched."""


def to_plain_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Any host's entry with ``url`` for a URL, as another host's is made of it."""
    made = dict(entry)
    for key in ("serverUrl", "httpUrl"):
        if key in made:
            made.setdefault("url", made.pop(key))
    return made


def read_servers(path: Path, key: str | None = None) -> dict[str, Any]:
    """Return the entries in a configuration file, by name, as they are; empty where there is no such file.

    Args:
        key: the member that holds them; ``None``: ``mcpServers`` or ``servers``.

    Raises:
        ConfigError: the file is malformed.
    """
    try:
        document = load_config(path)
    except FileNotFoundError:
        return {}
    found = find_servers(document, str(path), key)
    if found is not None:
        return dict(found)
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
