"""ferrule.extensions.apps.view_script: what it costs a page; `test_in_a_browser` runs it."""

from __future__ import annotations

import re

from ferrule.extensions.apps.view_script import MAX_VIEW_BYTES, static_text, view_script


def test_the_script_of_views_is_small() -> None:
    """It is part of each page that a host keeps; the official class with all it needs has half a megabyte."""
    assert len(view_script().encode()) <= MAX_VIEW_BYTES == 6000


def test_the_script_can_be_inlined_and_needs_nothing() -> None:
    """Nothing in it ends a script element, loads something or has a comment on a line of its own."""
    script = view_script()
    assert "</" not in script
    assert "<!--" not in script
    assert not re.search(r"\bimport\b|\brequire\b|https?://|^//", script, re.MULTILINE)


def test_each_member_of_the_view_is_described_at_its_top() -> None:
    """The comment is the reference of the page's author."""
    source = static_text("view.js")
    head = source[: source.index("window.mcpView")]
    body = source[source.index("const view = {") : source.index("const ready = ")]
    members = set(re.findall(r"^    (?:async |get )?([a-z]\w+)[(:,]", body, re.MULTILINE)) - {"if", "const", "try"}
    assert {"on", "call", "data", "save", "state", "resize"} <= members
    assert {name for name in members if f"view.{name}" not in head} == set()
