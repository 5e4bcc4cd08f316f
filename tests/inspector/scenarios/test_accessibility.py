"""Every state of the page against the rules of axe-core, in both themes and at two widths; and the keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import SHOTS, Dev, Watched, watching
from tests.inspector.scenarios.test_page import choose, expect, finished, go, press, result_tab

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def axe(page_peers: Path) -> str:
    """The rules as a script."""
    return (page_peers / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page_of(browser: Any, dev: Dev) -> Iterator[Watched]:
    """One page for all states."""
    with watching(browser, dev.url, viewport={"width": 1280, "height": 860}) as made:
        made.page.wait_for_selector(".item")
        yield made


def judge(watched: Watched, axe: str, state: str) -> None:
    """No violation in either theme at either width; a picture of each."""
    page = watched.page
    page.evaluate(axe)
    found: list[str] = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, state
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            result = page.evaluate("(rules) => axe.run(document, rules)", RULES)
            for each in result["violations"]:
                nodes = [f"{node['target']} {node['failureSummary']}" for node in each["nodes"][:3]]
                found.append(f"{width} {scheme} {each['id']}: {nodes}")
            watched.shoot(f"state-{state}-{scheme}-{width}")
    page.set_viewport_size({"width": 1280, "height": 860})
    page.emulate_media(color_scheme="light")
    assert found == []
    assert (SHOTS / f"state-{state}-dark-390.png").exists()


VIEWS = ("Tools", "Resources", "Prompts", "Tasks", "Live", "Two eras", "Server")


@pytest.mark.parametrize("view", VIEWS)
def test_each_view(page_of: Watched, axe: str, view: str) -> None:
    """As it is opened."""
    go(page_of.page, view)
    judge(page_of, axe, f"view-{view.lower().replace(' ', '-')}")


def test_forms_and_problems(page_of: Watched, axe: str) -> None:
    """Every kind of field, with complaints; and the editor with the schema's problems."""
    page = page_of.page
    go(page, "Tools")
    choose(page, "cut")
    press(page, "Call")
    page.locator(".problem:visible").first.wait_for()
    judge(page_of, axe, "form-problems")
    page.locator("#view-tools .call").get_by_label("JSON", exact=True).check()
    area = page.get_by_label("Arguments as JSON")
    area.fill('{\n  "metal": "gold",\n  "length_mm": 1e400,\n  "labels": [1]\n}')
    page.locator(".editor-problems li", has_text="metal").wait_for()
    judge(page_of, axe, "editor-problems")
    area.fill('{\n  "metal": "brass",\n  "length_mm": }')
    page.get_by_text("No JSON, line 3, column 16").wait_for()
    judge(page_of, axe, "editor-no-json")
    area.fill('{"metal": "brass", "length_mm": 9}')
    page.locator("#view-tools .call").get_by_label("JSON", exact=True).uncheck()
    choose(page, "deliver")
    page.locator("#view-tools .call").get_by_label("One of", exact=True).select_option(label="courier")
    judge(page_of, axe, "form-dates-and-union")


@pytest.mark.parametrize("tool", ["stock", "media", "fails", "hidden", "huge", "report", "ledger"])
def test_results(page_of: Watched, axe: str, tool: str) -> None:
    """In each of their tabs."""
    page = page_of.page
    go(page, "Tools")
    choose(page, tool)
    press(page, "Call")
    finished(page, "failed" if tool == "fails" else "done")
    names = page.locator("#view-tools .job-outcome .subtabs").first.locator("[role=tab]").all_inner_texts()
    for name in names:
        result_tab(page, name)
        judge(page_of, axe, f"result-{tool}-{name.lower()}")


def test_questions_and_settings(page_of: Watched, axe: str) -> None:
    """Dialogs: a form of the server, one that waits, a model's part, the settings."""
    page = page_of.page
    go(page, "Tools")
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("cane")
    press(page, "Call")
    page.get_by_role("dialog").wait_for()
    judge(page_of, axe, "question")
    page.get_by_role("dialog").get_by_role("button", name="Later").click()
    judge(page_of, axe, "question-later")
    page.locator(".banner.ask").get_by_role("button", name="Answer").click()
    page.get_by_role("dialog").get_by_role("button", name="Decline").click()
    finished(page)
    choose(page, "slogan")
    press(page, "Call")
    page.get_by_role("dialog").wait_for()
    judge(page_of, axe, "sampling")
    page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    press(page, "Settings")
    page.get_by_role("dialog").wait_for()
    judge(page_of, axe, "settings")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()


def test_a_filter_without_a_match(page_of: Watched, axe: str) -> None:
    """It says how many there are, and how to see them again."""
    page = page_of.page
    go(page, "Tools")
    page.get_by_label("Filter tools").fill("no such tool")
    expect(page.locator("#view-tools .list-head [role=status]")).to_contain_text("none of ")
    judge(page_of, axe, "filter-none")
    page.get_by_role("button", name="Clear the filter").click()
    assert page.get_by_label("Filter tools").input_value() == ""


def test_a_running_call_and_open_messages(page_of: Watched, axe: str) -> None:
    """With a bar of progress, and a message that is open."""
    page = page_of.page
    go(page, "Tools")
    choose(page, "polish")
    page.get_by_label("passes", exact=True).fill("4000")
    press(page, "Call")
    page.locator(".job-head progress:visible").wait_for()
    judge(page_of, axe, "running")
    press(page, "Cancel")
    page.locator(".outcome[data-state=cancelled]").first.wait_for()
    page.locator("#messages .message summary").last.click()
    page.locator("#messages .message[open] .json-tree").first.wait_for()
    judge(page_of, axe, "message-open")


def focused(page: Any) -> str:
    """The name or text of what has the focus."""
    return page.evaluate(
        "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
    )


def test_the_keyboard_is_enough(page_of: Watched) -> None:
    """From the filter to a table's second page and the theme, with visible focus at each stop."""
    page = page_of.page
    go(page, "Tools")
    page.locator("body").press("/")
    page.keyboard.type("report")
    page.keyboard.press("Enter")
    expect(page.locator("#view-tools .detail h2")).to_be_focused()
    page.keyboard.press("Control+Enter")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(focused(page))
        style = page.evaluate(
            "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))"
        )
        inside = page.evaluate("document.activeElement.matches('textarea.editor, .detail, .panel, #work, h2, body')")
        assert inside or (style[0] != "none" and style[1] != "0px"), focused(page)
    assert {"Call", "Plain text"} <= reached
    page.get_by_label("Filter tools").fill("")


def test_outcomes_are_announced(page_of: Watched) -> None:
    """In a live region that is there from the beginning."""
    page = page_of.page
    go(page, "Tools")
    choose(page, "add")
    page.locator("#view-tools").get_by_label("a", exact=True).fill("1")
    press(page, "Call")
    finished(page)
    expect(page.locator("#announce[role=status]")).to_contain_text("add: done")
