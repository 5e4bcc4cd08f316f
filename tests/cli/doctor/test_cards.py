"""ferrule.cli.doctor.cards: the card of a server beside the server."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.cli.doctor.cards import examine_card
from ferrule.cli.doctor.findings import Finding, Report
from ferrule.client.targets import HttpTarget
from tests.extensions.cards.support import CARD, Web, catalog, entry

pytestmark = pytest.mark.anyio

URL = "http://localhost:8000/mcp"
OWN = {"remotes": [{"type": "streamable-http", "url": URL, "supportedProtocolVersions": ["2026-07-28"]}]}


CATALOG = "http://localhost:8000/.well-known/ai-catalog.json"
OWN_CATALOG = catalog(entry(f"{URL}/server-card"))


async def examine(
    monkeypatch: pytest.MonkeyPatch, page: Any, index: Any = OWN_CATALOG, url: str = URL
) -> list[Finding]:
    """The findings for a server named weather 1.2.0 with this page in place of its card, and this catalog."""
    from ferrule.client import client

    app = MCPServer("weather", version="1.2.0")
    real = client.Client
    monkeypatch.setattr(client, "Client", lambda _, **options: real(app))
    report = Report(lambda _: None)
    await examine_card(report, HttpTarget(url), {}, Web({f"{URL}/server-card": page, CATALOG: index}), ["2026-07-28"])
    return report.findings


async def test_a_card_that_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await examine(monkeypatch, {**CARD, **OWN})
    assert [(each.code, each.level) for each in found] == [("card", "ok"), ("catalog", "ok")]


@pytest.mark.parametrize(
    ("index", "code", "level"),
    [
        (catalog(entry(data={**CARD, **OWN})), "catalog", "ok"),
        (catalog(entry(f"{URL}/server-card", data=CARD)), "catalog-entry", "warn"),
        (catalog(), "not-in-catalog", "warn"),
        (catalog(entry("https://[bad", "other")), "not-in-catalog", "warn"),
        ((404, {}, b""), "no-catalog", "note"),
        (b"[]", "no-catalog", "note"),
    ],
)
async def test_the_catalog_of_the_site(monkeypatch: pytest.MonkeyPatch, index: Any, code: str, level: str) -> None:
    """A card that no catalog names is found by those only who know the server already."""
    found = await examine(monkeypatch, {**CARD, **OWN}, index)
    assert [(each.code, each.level) for each in found] == [("card", "ok"), (code, level)]


async def test_a_url_with_a_query_has_the_same_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog names the place of the card, which is without the query."""
    found = await examine(monkeypatch, {**CARD, "remotes": []}, url=f"{URL}?tenant=acme")
    assert [(each.code, each.level) for each in found] == [("card", "ok"), ("catalog", "ok")]


async def test_a_card_that_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that trusts it connects to the wrong thing; the differences are data for programs."""
    found, _ = await examine(monkeypatch, {**CARD, "version": "1.0", "name": "com.example/maps"})
    assert (found.code, found.level) == ("card-differs", "warn")
    assert len(found.facts["differences"]) == 3
    assert "its version is '1.0' in the card, '1.2.0' in the server" in found.says


async def test_no_card_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most servers have none."""
    assert await examine(monkeypatch, (404, {}, b"")) == []
    assert await examine(monkeypatch, (401, {}, b"{}")) == []


@pytest.mark.parametrize("page", [{"name": 7}, (302, {"location": "http://10.0.0.1/"}, b"")])
async def test_a_card_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, page: Any) -> None:
    [found] = await examine(monkeypatch, page)
    assert (found.code, found.level) == ("card-unreadable", "warn")
