"""The last lists of a server, and what clients got without an answer of it."""

from __future__ import annotations

import pytest

from ferrule.client.gateway.pages import RawList
from ferrule.client.gateway.upstreams.known_lists import MAX_PARTIES, KnownLists
from ferrule.client.gateway.upstreams.list_cache import KnownServer

METHOD = "tools/list"


def listed(*names: str) -> RawList:
    """A list of tools."""
    return RawList([{"name": name} for name in names])


def test_a_client_gets_its_own_last_list_else_that_of_any_client() -> None:
    """Lists may differ between sessions."""
    lists = KnownLists(KnownServer(lists={METHOD: listed("old")}), is_per_user=False)
    assert lists.get("a", METHOD) == listed("old")
    lists.learn("a", METHOD, listed("one"))
    lists.learn("b", METHOD, listed("two"))
    assert (lists.get("a", METHOD), lists.get("b", METHOD)) == (listed("one"), listed("two"))
    assert lists.get("c", METHOD) == listed("two")
    assert lists.known.lists[METHOD] == listed("two")


def test_lists_of_one_user_are_shown_to_no_other() -> None:
    """Not even the names of tools."""
    lists = KnownLists(None, is_per_user=True)
    lists.learn("a", METHOD, listed("secret"))
    assert lists.get("a", METHOD) == listed("secret")
    assert lists.get("b", METHOD) is None
    assert lists.known.lists == {}


@pytest.mark.parametrize("shown", [None, listed("old")])
def test_a_client_that_was_shown_another_list_is_notified_once(shown: RawList | None) -> None:
    """``list_changed`` follows only where it is true."""
    lists = KnownLists(None, is_per_user=False)
    assert not lists.learn("a", METHOD, listed("new"))
    lists.note_shown("a", METHOD, shown)
    assert not lists.learn("b", METHOD, listed("new"))
    assert lists.learn("a", METHOD, listed("new"))
    assert not lists.learn("a", METHOD, listed("other"))
    lists.note_shown("a", METHOD, listed("other"))
    assert not lists.learn("a", METHOD, listed("other"))
    lists.note_shown("a", METHOD, None)
    assert not lists.learn("a", METHOD, RawList())


def test_clients_are_bounded() -> None:
    """Of a thousand clients the last ones have lists of their own."""
    lists = KnownLists(None, is_per_user=True)
    for number in range(1000):
        lists.learn(number, METHOD, listed("x"))
        lists.note_shown(number, METHOD, None)
    assert sum(lists.get(number, METHOD) is not None for number in range(1000)) == MAX_PARTIES
    assert lists.shown_without_answer() == {METHOD}
    assert lists.shown_without_answer() == set()
