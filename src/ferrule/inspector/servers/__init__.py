"""The servers of one inspector: one, or all of a configuration."""

from __future__ import annotations

from ferrule.inspector.servers.server_set import ServerSet

__all__ = ["ServerSet"]
