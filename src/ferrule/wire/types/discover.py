"""``server/discover`` (2026-07-28): the revisions and capabilities of a server, without state of a connection."""

from ferrule.wire.types.base import CacheableResult
from ferrule.wire.types.capabilities import ServerCapabilities

__all__ = ["DiscoverResult"]


class DiscoverResult(CacheableResult):
    """The server's revisions and capabilities, and instructions for the model. Its identity is in ``_meta``."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None
