"""Pages of tools: the prefix that each server puts before the names in them."""

from __future__ import annotations

from ferrule.protocol.app_pages import with_tool_prefix


def test_each_server_that_a_page_passes_adds_its_prefix_in_front() -> None:
    """The script of the outer server runs first, and each script appends to what the one before has set."""
    inner = with_tool_prefix("<!doctype html><p>", "b_")
    outer = with_tool_prefix(inner, "a_")
    assert outer.startswith("<!doctype html><script>")
    assert outer.index('"a_"') < outer.index('"b_"') < outer.index("<p>")


def test_a_page_without_markup_gets_the_script_at_its_begin() -> None:
    """A page may be empty."""
    assert with_tool_prefix("", "a_").startswith("<script>")
