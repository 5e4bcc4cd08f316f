"""Whose a name or URI is among several servers."""

from __future__ import annotations

import pytest

from ferrule.client.groups import names
from ferrule.client.groups.names import NameBook, UriBook


def test_a_name_that_two_servers_make_is_shown_once_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """``b_t`` of ``a`` is called like ``t`` of ``a_b``; the longer prefix wins, in whichever order they answer."""
    for order in (("a", "a_b"), ("a_b", "a")):
        caplog.clear()
        book = NameBook("tool", {"a": "a_", "a_b": "a_b_"})
        listed = {"a": ["b_t", "b_only", "t"], "a_b": ["t"]}
        for _ in range(2):
            shown = book.merge([(server, listed[server]) for server in order])
        assert shown == {("a", "b_only"): "a_b_only", ("a", "t"): "a_t", ("a_b", "t"): "a_b_t"}
        assert len(caplog.records) == 1
        assert "'b_t' of the server 'a' is left out" in caplog.text
        assert book.owner("a_b_t") == ("a_b", "t")
        assert book.owner("a_b_only") == ("a", "b_only")  # as listed, though the longer prefix fits


def test_a_name_that_was_never_listed_is_the_longest_prefixs_after_a_list() -> None:
    """Two servers may have it: only a list tells."""
    book = NameBook("tool", {"a": "a_", "a_b": "a_b_", "c": "c_"})
    assert (book.is_open("a_b_x"), book.is_open("a_x"), book.is_open("c_x")) == (True, False, False)
    assert book.owner("a_b_x") == ("a_b", "x")
    assert book.owner("nobody") is None


def test_a_server_that_does_not_answer_keeps_its_names() -> None:
    """Nobody takes its place while it is away."""
    book = NameBook("tool", {"a": "a_", "a_b": "a_b_"})
    book.merge([("a", []), ("a_b", ["t"])])
    assert book.merge([("a", ["b_t"])]) == {}
    assert book.merge([("a", ["b_t"]), ("a_b", [])]) == {("a", "b_t"): "a_b_t"}


def test_a_uri_belongs_to_the_first_server_for_as_long_as_that_has_it(caplog: pytest.LogCaptureFixture) -> None:
    """Then it is the other's."""
    book = UriBook("resource")
    both = [("a", ["x://1", "x://1"]), ("b", ["x://1", "x://2"])]
    assert book.merge(both, str) == [("a", "x://1"), ("b", "x://2")]
    assert "the server 'a' has it, too" in caplog.text
    assert book.merge([("a", []), ("b", ["x://1"])], str) == [("b", "x://1")]


def test_what_is_remembered_of_uris_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template makes any number of them, and a gateway runs for weeks."""
    monkeypatch.setattr(names, "MAX_OWNED", 3)
    book = UriBook("resource")
    for number in range(5):
        book.remember(f"x://{number}", "a")
    assert [book.owner(f"x://{number}") for number in range(5)] == [None, None, "a", "a", "a"]
