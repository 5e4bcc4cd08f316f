"""Widths of the panes, by pointer and keyboard; hidden ones; both remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.inspector.conftest import Dev, Watched, watching
from tests.inspector.scenarios.test_history import shoot_all
from tests.inspector.scenarios.test_page import go, press


@pytest.fixture
def fresh(browser: Any, dev: Dev) -> Iterator[Watched]:
    """A page of its own."""
    with watching(browser, dev.url) as watched:
        watched.page.wait_for_selector(".item")
        yield watched


def width(page: Any, selector: str) -> float:
    """The width of an element."""
    return page.locator(selector).locator("visible=true").first.evaluate("(each) => each.getBoundingClientRect().width")


def divider(page: Any, pane: str) -> Any:
    """The divider of a pane."""
    return page.locator(f'.divider[data-pane="{pane}"]').locator("visible=true").first


@pytest.mark.parametrize(("pane", "selector", "sign"), [("list", ".list-side", 1), ("messages", "#messages", -1)])
def test_a_divider_is_dragged_and_moved_with_keys(fresh: Watched, pane: str, selector: str, sign: int) -> None:
    """The width follows, within bounds, and survives a reload; a double click takes it back."""
    page = fresh.page
    before = width(page, selector)
    box = divider(page, pane).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 200
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + sign * 40, y, steps=4)
    page.mouse.up()
    assert width(page, selector) == pytest.approx(before + 40, abs=2)
    page.reload()
    page.wait_for_selector(".item")
    assert width(page, selector) == pytest.approx(before + 40, abs=2)
    divider(page, pane).focus()
    page.keyboard.press("ArrowRight" if sign > 0 else "ArrowLeft")
    assert width(page, selector) == pytest.approx(before + 56, abs=2)
    assert divider(page, pane).get_attribute("aria-valuenow") == str(round(width(page, selector)))
    page.keyboard.press("Home")
    assert width(page, selector) < before
    page.keyboard.press("End")
    assert width(page, selector) > before
    divider(page, pane).dblclick()
    assert width(page, selector) == pytest.approx(before, abs=2)


def test_panes_are_hidden_and_shown(fresh: Watched) -> None:
    """By a button and by Enter at the divider; in every section, after a reload too."""
    page = fresh.page
    press(page, "List")
    assert page.locator(".list-side:visible").count() == 0
    divider(page, "messages").focus()
    page.keyboard.press("Enter")
    assert page.locator("#messages:visible").count() == 0
    shoot_all(fresh, "panes-hidden")
    page.reload()
    page.locator(".detail h2").first.wait_for()
    go(page, "Prompts")
    assert page.locator(".list-side:visible").count() == 0
    assert page.get_by_role("button", name="List", exact=True).get_attribute("aria-pressed") == "false"
    press(page, "List")
    press(page, "Messages")
    assert page.locator(".list-side:visible").count() == 1
    assert page.locator("#messages:visible").count() == 1


def test_kept_widths_that_are_nonsense_are_ignored(fresh: Watched) -> None:
    """The storage of the browser may hold anything."""
    page = fresh.page
    for text in ("{", "[]", '{"list": {"width": "9;color:red"}}', '{"list": {"width": 1e9}, "messages": 5}'):
        page.evaluate("(text) => localStorage.setItem('ferrule-panes', text)", text)
        page.reload()
        page.wait_for_selector(".item")
        assert 150 <= width(page, ".list-side") <= 600
        assert page.locator("#messages:visible").count() == 1
