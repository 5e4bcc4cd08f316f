"""Server cards: who a server is and how to reach it, for clients that have not connected yet (SEP-2127, experimental).

A server publishes its card with ``app.card()``; a client finds the servers of a site with `discover`.
"""

from __future__ import annotations

from ferrule.extensions.cards.cache import DocumentCache
from ferrule.extensions.cards.comparison import differences
from ferrule.extensions.cards.discovery import CardDiscoveryFailed, DiscoveredServer, discover, read_card
from ferrule.extensions.cards.publishing import CardDocuments
from ferrule.wire.types.cards import (
    AICatalog,
    CardHeader,
    CardInput,
    CardRemote,
    CardRepository,
    CatalogEntry,
    ServerCard,
)

__all__ = [
    "AICatalog",
    "CardDiscoveryFailed",
    "CardDocuments",
    "CardHeader",
    "CardInput",
    "CardRemote",
    "CardRepository",
    "CatalogEntry",
    "DiscoveredServer",
    "DocumentCache",
    "ServerCard",
    "differences",
    "discover",
    "read_card",
]
