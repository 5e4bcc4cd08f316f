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
    """Two servers may have it, so a list has to be read."""
    book = NameBook("tool", {"a": "a_", "a_b": "a_b_", "c": "c_"})
    assert (book.is_open("a_b_x"), book.is_open("a_x"), book.is_open("c_x")) == (True, False, False)
    assert book.owner("a_b_x") == ("a_b", "x")
    assert book.owner("nobody") is None


def test_a_server_that_does_not_answer_keeps_its_names() -> None:
    """No other server takes them while it is unreachable."""
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


def test_prefixes_only_where_they_are_needed() -> None:
    """The first in the configuration has the short name, and keeps it; the long name is understood in any case."""
    book = NameBook("tool", {"a": "a_", "b": "b_"}, prefix="when needed")
    assert book.merge([("b", ["find", "only"]), ("a", ["find"])]) == {
        ("a", "find"): "find",
        ("b", "find"): "b_find",
        ("b", "only"): "only",
    }
    assert book.owner("find") == book.owner("a_find") == ("a", "find")
    assert book.owner("b_find") == ("b", "find")
    assert book.owner("b_only") == ("b", "only")
    assert (book.is_open("new"), book.is_open("find"), book.is_open("a_new")) == (True, False, False)


def test_a_name_does_not_change_when_another_server_comes_or_goes() -> None:
    """The server that was listed first under a name keeps it, also while it is away or does not list it."""
    book = NameBook("tool", {"a": "a_", "b": "b_"}, prefix="when needed")
    assert book.merge([("b", ["find"])]) == {("b", "find"): "find"}
    assert book.merge([("a", ["find"]), ("b", ["find"])]) == {("a", "find"): "a_find", ("b", "find"): "find"}
    assert book.merge([("a", ["find"]), ("b", [])]) == {("a", "find"): "a_find"}
    assert book.merge([("b", ["find"])]) == {("b", "find"): "find"}
    book.set_prefixes({"a": "a_"})
    assert book.owner("find") is None
    assert book.merge([("a", ["find", "more"])]) == {("a", "find"): "a_find", ("a", "more"): "more"}


def test_a_short_name_is_never_also_the_long_name_of_another(caplog: pytest.LogCaptureFixture) -> None:
    """``a_t`` of ``b`` is shown, so ``t`` of ``a`` has its short name only; if that is taken, it is left out."""
    book = NameBook("tool", {"b": "b_", "a": "a_"}, prefix="when needed")
    shown = book.merge([("a", ["t"]), ("b", ["a_t", "t"])])
    assert shown == {("b", "a_t"): "a_t", ("b", "t"): "t"}
    assert book.owner("a_t") == ("b", "a_t")
    assert "'t' of the server 'a' is left out: 'a_t' is what 'a_t' of the server 'b' is called" in caplog.text


def test_names_that_no_server_lists_any_more_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may list others each time."""
    monkeypatch.setattr(names, "MAX_OWNED", 3)
    book = NameBook("tool", {"a": "a_"}, prefix="when needed")
    for number in range(9):
        assert book.merge([("a", [f"t{number}"])]) == {("a", f"t{number}"): f"t{number}"}
    assert [book.owner(f"t{number}") is not None for number in range(9)] == [False] * 6 + [True] * 3


@pytest.mark.parametrize("prefix", ["always", "when needed"])
def test_a_long_name_is_cut_and_leads_back(prefix: names.PrefixMode) -> None:
    """The same in every process, and different for names that begin alike."""
    book = NameBook("tool", {"a-server": "a-server_"}, prefix=prefix, limit=64)
    own = [f"{'x' * 70}{number}" for number in range(20)]
    shown = book.merge([("a-server", own)])
    assert len(set(shown.values())) == 20
    assert {len(name) for name in shown.values()} == {64}
    assert [book.owner(name) for name in shown.values()] == [("a-server", each) for each in own]
    again = NameBook("tool", {"a-server": "a-server_"}, prefix=prefix, limit=64)
    name = next(iter(shown.values()))
    assert again.is_open(name)
    assert again.merge([("a-server", own)]) == shown


def test_other_servers_keep_their_names_when_one_goes() -> None:
    """And one with another entry loses its own."""
    book = NameBook("tool", {"a": "a_", "b": "b_"})
    book.merge([("a", ["t"]), ("b", ["t"])])
    book.set_prefixes({"b": "b_", "c": "c_"}, fresh=["c"])
    assert (book.owner("a_t"), book.owner("b_t")) == (None, ("b", "t"))


def test_uris_of_removed_servers_have_no_owner() -> None:
    """Another server may have them."""
    book = UriBook("resource")
    book.merge([("a", ["x://1"]), ("b", ["x://2"])], str)
    book.keep(["b"])
    assert (book.owner("x://1"), book.owner("x://2")) == (None, "b")
