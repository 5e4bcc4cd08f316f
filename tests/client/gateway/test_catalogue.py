"""What a gateway keeps for its search is bounded, whatever the servers behind and the clients in front do."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

import pytest

from ferrule.client.gateway import catalogue
from ferrule.client.gateway.catalogue import Catalogue, CatalogueStore, KnownList
from ferrule.client.gateway.pages import MAX_KEPT_S, hints_of


def tools(count: int, words: str = "x") -> list[Any]:
    return [{"name": f"tool_{number}", "description": words, "inputSchema": {}} for number in range(count)]


def known(found: Catalogue, store: CatalogueStore, *, expires: float = 1e18) -> KnownList:
    ctx: Any = None
    return KnownList(catalogue=found, is_searched=True, ctx=ctx, generation=store.generation, expires=expires)


def test_tools_beyond_the_bounds_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ferrule")
    monkeypatch.setattr(catalogue, "MAX_TOOLS", 3)
    made = Catalogue(tools(5))
    assert (len(made), made.count, "tool_2" in made, "tool_3" in made) == (3, 5, True, False)
    assert made.ranked("tool") == ["tool_0", "tool_1", "tool_2"]
    monkeypatch.setattr(catalogue, "MAX_LIST_BYTES", 2 * made.size // 3)
    assert len(Catalogue(tools(5))) == 2
    assert "2 tools of 5 are left out" in caplog.text


def test_the_first_of_a_name_counts_and_malformed_members_do_not() -> None:
    made = Catalogue([*tools(1), {"name": "tool_0", "description": "second"}, {"name": 7}, "x", None])
    assert (made.count, made.summary("tool_0")) == (1, {"name": "tool_0", "description": "x"})


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "a", "inputSchema": []},
        {"name": "a", "inputSchema": {"properties": [1], "required": 3}},
        {"name": "a", "inputSchema": {"properties": {"p": 1}, "required": "p"}, "description": {"x": 1}, "title": 2},
    ],
)
def test_a_definition_of_any_shape_is_searched(odd: dict[str, Any]) -> None:
    made = Catalogue([odd, {"name": "weigh", "inputSchema": {}}])
    assert made.ranked("weigh") == ["weigh"]
    assert made.summary("a")["name"] == "a"


def test_clients_with_the_same_list_share_it() -> None:
    store = CatalogueStore()
    for party in range(10):
        store.keep(party, known(Catalogue(tools(100)), store))
    assert store.kept_bytes == Catalogue(tools(100)).size
    first, second = store.get(0, fresh=True), store.get(9, fresh=True)
    assert first is not None
    assert second is not None
    assert first.catalogue is second.catalogue


def test_the_oldest_list_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CatalogueStore()
    for party in range(catalogue.MAX_PARTIES + 5):
        store.keep(party, known(Catalogue(tools(2, f"{party}")), store))
    assert len(store) == catalogue.MAX_PARTIES
    assert store.get(4, fresh=False) is None
    monkeypatch.setattr(catalogue, "MAX_KEPT_BYTES", 3 * Catalogue(tools(2, "10")).size)
    store.keep("last", known(Catalogue(tools(2, "xx")), store))
    assert store.kept_bytes <= catalogue.MAX_KEPT_BYTES
    assert store.get("last", fresh=False) is not None
    assert len(store) == 3
    store.forget("last")
    assert len(store) == 2
    store.clear()
    assert (len(store), store.kept_bytes) == (0, 0)


def test_a_change_and_time_make_a_list_old() -> None:
    store = CatalogueStore()
    store.keep("a", known(Catalogue(tools(2)), store, expires=monotonic() - 1))
    assert store.get("a", fresh=True) is None
    assert store.get("a", fresh=False) is not None
    store.generation += 1
    assert store.get("a", fresh=False) is None


def test_a_hint_of_the_server_is_in_seconds() -> None:
    assert hints_of({"ttlMs": 1500}) == 1.5
    assert hints_of({"ttlMs": 0}) == 0
    assert hints_of({"ttlMs": 10**400}) == MAX_KEPT_S  # which is too long for a float
    assert hints_of({"ttlMs": -1}) is hints_of({"ttlMs": "x"}) is hints_of({}) is None
