"""The state of the connection to one server, as a value for programs, pages and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

__all__ = ["CAN_CONNECT", "ConnectionState", "ConnectionStatus"]

ConnectionState: TypeAlias = Literal[
    "idle", "connecting", "connected", "waiting", "circuit_open", "half_open", "failed", "closed"
]
"""``idle``: not started. ``connecting``: an attempt is in progress. ``connected``. ``waiting``: the last attempt has
failed, or the connection was lost, and the next attempt comes after a pause. ``circuit_open``: several attempts in a
row have failed, and calls fail at once. ``half_open``: one attempt is in progress that decides whether the circuit
closes. ``failed``: no attempt is made, because the entry of the server cannot be used. ``closed``: the program has
closed it."""

CAN_CONNECT: Final = frozenset({"idle", "connecting", "waiting", "half_open", "circuit_open"})
"""The states without a connection that may still end in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatus:
    """The state of the connection to one server at one moment.

    Attributes:
        server: the name of the server in the configuration.
        state: see `ConnectionState`.
        since: when it became so, in seconds since the epoch.
        error: the last reason why there is no connection; ``None`` while there is one, and before the first failure.
        failures: failed attempts and lost connections in a row.
        next_attempt_at: when the next attempt begins, in seconds since the epoch; ``None`` if none is planned.
        down_since: when the connection was lost, or the first attempt failed, in seconds since the epoch; ``None``
            while there is a connection, and before the first failure.
    """

    server: str
    state: ConnectionState
    since: float
    error: Exception | None = None
    failures: int = 0
    next_attempt_at: float | None = None
    down_since: float | None = None

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self.state == "connected"

    def describe(self, now: float) -> str:
        """Return the state as a sentence for people and models, without a full stop.

        Args:
            now: the present time, in seconds since the epoch.
        """
        if self.state == "connected":
            return f"{self.server!r} is connected since {_time(self.since)}"
        if self.down_since is None:
            return f"{self.server!r} is {_WORDS[self.state]} since {_time(self.since)}"
        text = f"{self.server!r} is down since {_time(self.down_since)}: {self.error}"
        if self.state in ("connecting", "half_open"):
            return f"{text}; trying again now"
        if self.next_attempt_at is None:
            return text
        return f"{text}; trying again in {max(0.0, self.next_attempt_at - now):.0f} s"


_WORDS: Final = {
    "idle": "not started",
    "connecting": "connecting",
    "waiting": "waiting",
    "circuit_open": "unavailable",
    "half_open": "connecting",
    "failed": "not usable",
    "closed": "closed",
}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")
