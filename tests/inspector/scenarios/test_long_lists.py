"""Lists, tables, texts and results of any length: a page at a time, and everything within reach of the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.inspector.conftest import Watched, developing, watching
from tests.inspector.scenarios.test_page import choose, expect, finished, go, press, result_tab
from tests.inspector.scenarios.test_search import WAREHOUSE


@pytest.fixture(scope="module")
def many(browser: Any) -> Iterator[Watched]:
    """A server with 1,205 tools."""
    with developing(WAREHOUSE) as dev, watching(browser, dev.url) as made:
        expect(made.page.locator("#view-tools .list-head [role=status]")).to_have_text("1,205")
        yield made


def rows(watched: Watched) -> int:
    """The rows that are there."""
    return watched.page.locator("#view-tools .item").count()


def test_a_long_list_has_the_rows_that_were_scrolled_to(many: Watched) -> None:
    """And no element for the others."""
    page = many.page
    assert rows(many) == 100
    assert page.locator("#view-tools .list-side *").count() < 1000
    page.locator("#view-tools .rest").scroll_into_view_if_needed()
    expect(page.locator("#view-tools .item")).to_have_count(300)


def test_the_filter_says_how_many_fit(many: Watched) -> None:
    """None, some, all; with several words, in any order; Escape shows all again."""
    page = many.page
    status = page.locator("#view-tools .list-head [role=status]")
    field = page.get_by_label("Filter tools")
    field.fill("no such thing")
    expect(status).to_have_text("none of 1,205")
    expect(page.locator("#view-tools .items")).to_contain_text("None of 1,205 tools fits “no such thing”.")
    field.fill("weigh")
    expect(status).to_contain_text("of 1,205")
    assert 0 < rows(many) < 100
    field.press("Escape")
    expect(status).to_have_text("1,205")
    assert rows(many) == 100


def test_the_arrow_keys_go_on_beyond_what_is_shown(many: Watched) -> None:
    """As if the whole list were there; End goes to its last row."""
    page = many.page
    page.get_by_label("Filter tools").fill("")
    page.locator("#view-tools .item").first.focus()
    at = "[...document.querySelectorAll('#view-tools .item')].indexOf(document.activeElement)"
    for _ in range(105):
        page.keyboard.press("ArrowDown")
    assert page.evaluate(at) == 105
    page.keyboard.press("End")
    expect(page.locator("#view-tools .item")).to_have_count(1205)
    assert page.evaluate(at) == 1204


def test_a_long_table_has_pages(watched: Watched) -> None:
    """100 rows at a time, with the columns in place; a long cell opens."""
    page = watched.page
    choose(page, "ledger")
    page.locator("#view-tools").get_by_label("rows", exact=True).fill("250")
    press(page, "Call")
    finished(page)
    table = page.locator("#view-tools .table-view")
    pages = table.locator(".pager [role=status]")
    expect(pages).to_have_text("1–100 of 250 rows")
    assert table.locator("tbody tr").count() == 100
    press(page, "All of it")
    assert table.locator("tbody pre").inner_text().count("long") == 100
    table.get_by_role("button", name="Last rows").click()
    expect(pages).to_have_text("201–250 of 250 rows")
    assert table.locator("tbody tr").count() == 50
    table.get_by_role("button", name="Next rows").press("Enter")
    expect(pages).to_have_text("201–250 of 250 rows")
    table.get_by_role("button", name="First rows").click()
    expect(pages).to_have_text("1–100 of 250 rows")
    watched.shoot("ledger")


def test_cells_do_not_break_words(watched: Watched) -> None:
    """A word of 42 characters stays in one line, also on a small screen; the table scrolls."""
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    choose(page, "ledger")
    press(page, "Call")
    finished(page)
    serial = page.locator("#view-tools tbody tr").nth(1).locator("td").nth(2).locator(".cell bdi")
    assert serial.evaluate("cell => cell.getClientRects().length") == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1360, "height": 840})


def test_many_members_of_json_are_shown_as_asked(watched: Watched) -> None:
    """100 of them, then 100 more, with the focus on the next button."""
    page = watched.page
    choose(page, "ledger")
    press(page, "Call")
    finished(page)
    result_tab(page, "Structured")
    tree = page.locator("#view-tools .job-outcome .json-tree")
    more = tree.get_by_role("button", name="Show 100 more of 150")
    more.click()
    expect(tree.get_by_role("button", name="Show 50 more of 50")).to_be_focused()


def test_titles_and_hints_are_shown(watched: Watched) -> None:
    """As the server states them; Markdown of a description as Markdown, or as it is."""
    page = watched.page
    row = page.locator('.item[data-key="report"]')
    assert "Monthly report" in row.inner_text()
    assert "destructive" in page.locator('.item[data-key="deliver"]').inner_text()
    choose(page, "report")
    head = page.locator("#view-tools .detail-head")
    assert head.locator(".chip").all_inner_texts()[:3] == ["read-only", "idempotent", "closed world"]
    assert head.locator(".detail-title").inner_text() == "Monthly report"
    description = page.locator("#view-tools .description")
    expect(description.locator("strong")).to_have_text("Markdown")
    description.get_by_role("button", name="Plain text").click()
    expect(description.locator("pre")).to_contain_text("**Markdown**")
    press(page, "Call")
    finished(page)
    assert page.locator("#view-tools .job-outcome .markdown").count() == 0
    page.locator("#view-tools .job-outcome").get_by_role("button", name="Plain text").click()
    assert page.locator("#view-tools .job-outcome .markdown table").count() == 1
    description.get_by_role("button", name="Plain text").click()


def test_a_union_and_a_moment_are_sent(watched: Watched) -> None:
    """The kind by its title, the moment with the offset of its zone, the price as it was typed."""
    page = watched.page
    choose(page, "deliver")
    form = page.locator("#view-tools .call")
    form.get_by_label("when", exact=True).fill("2026-07-28T10:00")
    form.get_by_label("Time zone of when").fill("Europe/Berlin")
    expect(form).to_contain_text("sent as 2026-07-28T10:00:00+02:00")
    form.get_by_label("One of", exact=True).select_option(label="courier")
    form.get_by_label("street", exact=True).fill("Main Street")
    form.get_by_label("price", exact=True).fill("2.50")
    watched.shoot("deliver")
    press(page, "Call")
    assert "2026-07-28T10:00:00+02:00" in finished(page)
    go(page, "Tools")
    page.locator("#messages .message summary").last.click()
    expect(page.locator("#messages .message[open] .json-number", has_text="2.50").first).to_be_visible()
