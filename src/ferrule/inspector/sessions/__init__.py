"""Sessions of the inspector as recordings, in the form that ``ferrule trace`` writes."""

from __future__ import annotations

from ferrule.inspector.sessions.recording import MAX_SESSION_BYTES, write_session

__all__ = ["MAX_SESSION_BYTES", "write_session"]
