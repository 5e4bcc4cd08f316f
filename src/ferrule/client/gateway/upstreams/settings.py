"""How a gateway uses one server behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ferrule.client.config_settings import ServerSettings

__all__ = ["DEFAULT_SETTINGS", "SessionSharing", "UpstreamSettings", "settings_from"]

SessionSharing = Literal["auto", "own", "shared"]
"""Which clients share a session with a legacy server: see `UpstreamSettings.sessions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """The settings of one server behind a gateway.

    Attributes:
        timeout_s: seconds that one call may take; ``None``: no bound.
        max_concurrent: calls that run at the server at once; further ones wait. ``None``: no bound.
        reach_s: seconds that a call waits for a server that is not connected.
        list_s: seconds in which a list has to be answered; a server that needs longer counts as not connected until it
            responds again. No client waits for this.
        sessions: which clients share a session with a legacy server. ``"own"``: none. ``"shared"``: those of the same
            user with the same capabilities. ``"auto"``: as ``"shared"`` for a process, until it asks a question that
            cannot be assigned to one client; as ``"own"`` over HTTP.
        max_processes: processes of one legacy server at the same time; a call that needs a further one waits.
        idle_s: seconds without a request after which a shared process of a legacy server is ended; ``None``: never.
        prefix: what the names of its tools and prompts begin with, without the separator; ``""``: they stay as they
            are. ``None``: its name in the configuration.
        is_per_user: the server's lists depend on the user: they are shown to no other user and not written to a file.
        connect_timeout_s: seconds that one attempt to connect may take; ``None``: as for the others.
        tools: which tools are shown, and how; ``None``: all, as they are.
    """

    timeout_s: float | None = None
    max_concurrent: int | None = None
    reach_s: float = 5.0
    list_s: float = 10.0
    sessions: SessionSharing = "auto"
    max_processes: int = 8
    idle_s: float | None = 300.0
    prefix: str | None = None
    is_per_user: bool = False
    connect_timeout_s: float | None = None
    tools: ServerSettings | None = None

    def __post_init__(self) -> None:
        for name in ("timeout_s", "reach_s", "list_s", "idle_s", "connect_timeout_s"):
            value: float | None = getattr(self, name)  # one check for fields of the same kind
            if value is not None and value <= 0:
                raise ValueError(f"{name} is above 0, not {value:g}")
        for name in ("max_concurrent", "max_processes"):
            count: int | None = getattr(self, name)  # as above
            if count is not None and count < 1:
                raise ValueError(f"{name} is 1 or more, not {count}")


DEFAULT_SETTINGS: Final = UpstreamSettings()


def settings_from(said: ServerSettings) -> UpstreamSettings:
    """Return the settings that the entry of a configuration says."""
    return UpstreamSettings(
        timeout_s=said.timeout_s,
        max_concurrent=said.max_concurrent,
        connect_timeout_s=said.connect_timeout_s,
        tools=said if said.changes_tools else None,
    )
