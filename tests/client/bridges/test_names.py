"""Names for models: allowed everywhere, the same whatever else there is, and never two for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.client.bridges.names import NAME_PATTERN, fitting_name, fitting_names


def test_a_name_that_fits_stays() -> None:
    """Most do."""
    assert fitting_name("docs_search-all") == "docs_search-all"
    assert fitting_name("x" * 64) == "x" * 64


def test_any_other_keeps_what_can_be_read() -> None:
    """Both ends: the server's name and what the tool does."""
    assert fitting_name("github.issues/create").startswith("github_issues_create_")
    long = fitting_name("server" * 20 + "_create_issue")
    assert long.startswith("server")
    assert "_create_issue_" in long
    assert fitting_name("1st").startswith("_1st_")


@given(st.lists(st.text(max_size=100), max_size=20))
def test_every_name_is_allowed_and_comes_back(names: list[str]) -> None:
    """For any text that a server may choose."""
    found = fitting_names(names)
    assert all(NAME_PATTERN.fullmatch(name) for name in found)
    assert sorted(found.values()) == sorted(set(names))


@given(st.lists(st.text(max_size=100), max_size=8), st.lists(st.text(max_size=100), max_size=8))
def test_a_name_does_not_depend_on_the_others(some: list[str], more: list[str]) -> None:
    """So that caches and stored conversations stay valid when a server comes or goes."""
    before = {own: name for name, own in fitting_names(some).items()}
    after = {own: name for name, own in fitting_names([*more, *some]).items()}
    assert all(after[own] == name for own, name in before.items())


def test_what_would_be_the_same_is_not() -> None:
    """A tool may be called what another's name becomes; one that is taken is never given."""
    taken = fitting_name("a.b")
    found = fitting_names(["a.b", taken])
    assert found[taken] == taken
    assert sorted(found.values()) == sorted(["a.b", taken])
    assert "search_tools" not in fitting_names(["search_tools"], reserved=["search_tools"])
