"""Skills on the page: listed, opened and read; a file that is not as described is a failure; markup is text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.inspector.conftest import Watched, developing, watching
from tests.inspector.scenarios.test_page import choose, expect, finished, go, press
from tests.inspector.scenarios.test_page_safety import unnamed

EXAMPLE = Path(__file__).parents[3] / "examples" / "skills.py"
FORGER = Path(__file__).parents[1] / "servers" / "forger.py"


def test_the_skills_of_the_example_are_listed_and_read(browser: Any) -> None:
    """With frontmatter, the files with digest and size, and the verified text."""
    with developing(EXAMPLE) as dev, watching(browser, dev.url) as watched:
        page = watched.page
        expect(page.locator("#tab-skills")).to_have_text("Skills 3")
        go(page, "Skills")
        choose(page, "skill://monthly-report/SKILL.md")
        row = page.locator('.item[data-key="skill://monthly-report/SKILL.md"]')
        expect(row).to_contain_text("Write the monthly weather report")
        expect(row.locator(".chip")).to_contain_text("3 files, ")
        side = page.locator("#view-skills .detail")
        expect(side).to_contain_text('reviewed: "2026-11-01"')
        expect(side.locator("tbody tr")).to_have_count(3)
        expect(side.locator("tbody tr").first).to_contain_text("sha256:")
        assert unnamed(page) == []
        press(page, "Read templates/report.md")
        assert "Verified" in finished(page)
        page.locator("#view-skills .job-outcome").get_by_role("button", name="Plain text").click()
        text = finished(page)
        assert (EXAMPLE.parent / "data/skills/monthly-report/templates/report.md").read_text().splitlines()[0] in text
        watched.shoot("skills")
        choose(page, "skill://office/duty-roster/SKILL.md")
        press(page, "Read SKILL.md")
        assert "Not verified" in finished(page)


def test_a_forged_file_is_a_failure_and_markup_is_text(browser: Any) -> None:
    with developing(FORGER) as dev, watching(browser, dev.url) as watched:
        page = watched.page
        go(page, "Skills")
        choose(page, "skill://forged/SKILL.md")
        press(page, "Read changed.md")
        assert "another digest than by the entry" in finished(page, "failed")
        expect(page.locator("#view-skills .job-outcome .flag.bad")).to_have_count(1)
        press(page, "Read <b>.md")
        assert "<img src=x onerror='window.pwned = 1'>U+202Eturned" in finished(page)
        assert page.locator("#view-skills :is(img, b, script)").count() == 0
        assert page.evaluate("window.pwned") is None


def test_a_server_without_skills_has_no_such_tab(watched: Watched) -> None:
    """And it is not asked for them."""
    page = watched.page
    page.locator("#tab-prompts").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-tasks")).to_be_focused()
    expect(page.locator("#tab-skills")).to_be_hidden()
    press(page, "Reconnect")
    expect(page.locator("#messages")).to_contain_text("prompts/list")
    expect(page.locator("#messages")).not_to_contain_text("skills/")
