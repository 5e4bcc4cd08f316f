"""ferrule.extensions.cards.comparison: what counts as a contradiction."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.extensions.cards.comparison import differences
from ferrule.types import Implementation
from ferrule.wire.codec import convert
from ferrule.wire.types.cards import ServerCard
from tests.extensions.cards.support import CARD

URL = "https://weather.example.com/mcp"
LIVE: dict[str, Any] = {"name": "Weather", "version": "1.2.0"}


def found(card: dict[str, Any] | None = None, live: dict[str, Any] | None = None, **options: Any) -> list[str]:
    return differences(
        convert({**CARD, **(card or {})}, ServerCard), Implementation(**{**LIVE, **(live or {})}), **options
    )


@pytest.mark.parametrize(
    ("card", "live", "options"),
    [
        ({}, {}, {}),
        ({}, {"name": "com.example/weather"}, {}),
        ({"title": "W"}, {}, {}),
        ({}, {"title": "W", "website_url": "https://w.example"}, {}),
        ({"description": "Weather of…"}, {"description": "Weather  of all\ncities"}, {}),
        ({}, {}, {"url": f"{URL}/"}),
        ({}, {}, {"url": URL, "versions": ["2026-07-28"]}),
        ({"remotes": None}, {}, {"url": "https://elsewhere.example"}),
    ],
)
def test_what_agrees(card: dict[str, Any], live: dict[str, Any], options: dict[str, Any]) -> None:
    """A statement that one side leaves out contradicts nothing, and a shortened text is the same text."""
    assert found(card, live, **options) == []


def test_each_contradiction_is_named() -> None:
    card = {"title": "W", "websiteUrl": "https://a.example", "description": "Other"}
    live = {"name": "climate", "version": "2", "title": "X", "website_url": "https://b.example", "description": "That"}
    sentences = found(card, live, url="https://elsewhere.example/mcp")
    for words in ("'climate'", "version is '1.2.0'", "title is 'W'", "website", "description", "other addresses"):
        assert sum(words in sentence for sentence in sentences) == 1, words
    assert len(sentences) == 6


def test_versions_are_compared_at_the_address_that_was_used() -> None:
    remotes = [
        {"type": "sse", "url": "https://old.example", "supportedProtocolVersions": ["2024-11-05"]},
        {"type": "streamable-http", "url": URL, "supportedProtocolVersions": ["2026-07-28", "2025-11-25"]},
    ]
    assert found({"remotes": remotes}, url=URL, versions=["2025-11-25", "2026-07-28"]) == []
    [sentence] = found({"remotes": remotes}, url=URL, versions=["2025-11-25"])
    assert sentence == "the card promises 2026-07-28, 2025-11-25, the server speaks 2025-11-25"
