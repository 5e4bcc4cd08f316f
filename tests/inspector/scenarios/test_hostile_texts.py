"""Hostile texts in every place that a server can fill: nothing runs or loads, and the page keeps its width."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import Dev, Watched, developing, watching
from tests.inspector.scenarios.test_page import expect, go
from tests.inspector.servers.hostile import TEXTS

SERVER = Path(__file__).parents[1] / "servers" / "hostile.py"
NARROW = {"width": 390, "height": 800}
VIEWS = ("Tools", "Resources", "Prompts")


@pytest.fixture(scope="module")
def hostile() -> Iterator[Dev]:
    """An inspector of the hostile server."""
    with developing(f"{sys.executable} {SERVER}") as running:
        yield running


@pytest.fixture(scope="module")
def narrow(browser: Any, hostile: Dev) -> Iterator[Watched]:
    """Its page at 390 pixels."""
    with watching(browser, hostile.url, viewport=NARROW) as made:
        made.page.wait_for_selector(".item")
        yield made


def unharmed(watched: Watched, where: str) -> None:
    """Nothing ran, nothing was made of markup, nothing is wider than the screen."""
    page = watched.page
    assert page.evaluate("window.pwned") is None, where
    assert page.evaluate("({}).polluted") is None, where
    assert page.locator("#work :is(script, iframe, object, embed, form form)").count() == 0, where
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], where
    attributes = (
        "[...document.querySelectorAll('*')].some((each) => [...each.attributes].some((a) => /^on/.test(a.name)))"
    )
    assert page.evaluate(attributes) is False, where
    assert [url for url in watched.requests if ":9/" in url] == [], where


@pytest.mark.parametrize("name", TEXTS)
def test_a_tool_and_its_result(narrow: Watched, name: str) -> None:
    """Its row, its form, its JSON, its results in each tab, and its definition."""
    page = narrow.page
    go(page, "Tools")
    page.locator(f'.item[data-key^="{name} "]').click()
    unharmed(narrow, "form")
    page.get_by_label("JSON", exact=True).locator("visible=true").check()
    page.locator("#view-tools textarea.editor").wait_for()
    unharmed(narrow, "editor")
    page.get_by_label("JSON", exact=True).locator("visible=true").uncheck()
    page.locator("#view-tools button.primary").click()
    page.locator("#view-tools .outcome:not([hidden]) .job-outcome .switcher").wait_for()
    for tab in page.locator("#view-tools .job-outcome [role=tab]").all():
        tab.click()
        unharmed(narrow, tab.inner_text())
    page.locator("#view-tools .schemas > summary").click()
    unharmed(narrow, "definition")
    if name in ("markup", "word", "turned"):
        narrow.shoot(f"hostile-{name}-390")


@pytest.mark.parametrize("view", VIEWS)
def test_each_list(narrow: Watched, view: str) -> None:
    """Names, titles and descriptions of every item, chosen one after another."""
    page = narrow.page
    go(page, view)
    panel = page.locator(".view:not([hidden])")
    keys = panel.locator(".items .item").evaluate_all("rows => rows.map((row) => row.dataset.key)")
    assert len(keys) >= len(TEXTS)
    for at in range(len(keys)):
        panel.locator(".items .item").nth(at).click()
        unharmed(narrow, f"{view} {at}")


def test_an_error(narrow: Watched) -> None:
    """Its message has all of the texts, its data too."""
    page = narrow.page
    go(page, "Tools")
    page.locator('.item[data-key="fails"]').click()
    page.locator("#view-tools button.primary").click()
    page.locator("#view-tools .outcome[data-state=failed] .job-outcome .switcher").wait_for()
    unharmed(narrow, "error")
    shown = page.locator("#view-tools .job-outcome").inner_text()
    assert "window.pwned = 1" in shown
    assert "U+202E" in shown
    for view in ("Server", "Messages", "Live", "Tasks"):
        go(page, view)
        unharmed(narrow, view)
    narrow.shoot("hostile-error-390")


def test_a_question(narrow: Watched) -> None:
    """Its message and its form, in a dialog that opens by itself; its answer reaches the server."""
    page = narrow.page
    go(page, "Tools")
    page.locator('.item[data-key="asks"]').click()
    page.locator("#view-tools button.primary").click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    unharmed(narrow, "question")
    assert "<script>window.pwned = 2</script>" in dialog.inner_text()
    assert dialog.locator("select").count() >= 2
    narrow.shoot("hostile-question-390")
    dialog.locator("select").first.select_option(index=1)
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text("An answer has text, numbers, truth values and lists of text")
    narrow.complaints.clear()  # the browser reports the status 400
    dialog.locator("textarea.mono").last.fill("")
    dialog.get_by_role("button", name="Send").click()
    page.locator("#view-tools .outcome[data-state=done] .job-outcome .switcher").wait_for()
    assert '"action": "accept"' in page.locator("#view-tools .job-outcome").inner_text()
