"""The calls of a tool: listed, shown, run again, edited, pinned, compared, saved as a test; and a call that failed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import WORKSHOP, Dev, Watched, developing, watching
from tests.inspector.scenarios.test_page import CONTRAST, choose, expect, finished, go, press

SIZES = {"wide": (1280, 860), "narrow": (390, 844)}


def shoot_all(watched: Watched, name: str) -> None:
    """Keep pictures in both themes and both widths; every text is readable, and nothing is cut off."""
    page = watched.page
    before = page.viewport_size
    for label, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == [], (label, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, label
            watched.shoot(f"{name}-{scheme}-{label}")
    page.emulate_media(color_scheme=None)
    page.set_viewport_size(before)


@pytest.fixture
def own(browser: Any, tmp_path: Path) -> Iterator[Watched]:
    """A page of an inspector of its own, without calls."""
    with developing(WORKSHOP.name, cwd=WORKSHOP.parent) as running, watching(browser, running.url) as watched:
        watched.page.wait_for_selector(".item")
        yield watched


def call_add(page: Any, a: int) -> None:
    """Call the tool `add`."""
    page.get_by_label("a", exact=True).fill(str(a))
    press(page, "Call")
    expect(page.locator("#view-tools .job-outcome")).to_contain_text(str(a + 2))


def row(page: Any, at: int) -> Any:
    """A call of the history."""
    return page.locator("#view-tools .history-row").nth(at)


def act(page: Any, at: int, name: str) -> None:
    """Press a button of a call."""
    row(page, at).get_by_role("button", name=name).first.click()


def test_calls_are_listed_and_used_again(own: Watched) -> None:
    """The newest first; another tool has its own."""
    page = own.page
    choose(page, "add")
    assert page.locator("#view-tools .history:visible").count() == 0
    for a in (1, 20, 300):
        call_add(page, a)
    page.locator("#view-tools .history > summary").click()
    assert [text.split("\n")[0] for text in page.locator("#view-tools .history-arguments").all_inner_texts()] == [
        '{"a":300,"b":2}', '{"a":20,"b":2}', '{"a":1,"b":2}',
    ]  # fmt: skip
    act(page, 2, "Show")
    expect(page.locator("#view-tools .job-outcome")).to_contain_text("3")
    act(page, 1, "Edit")
    expect(page.get_by_label("a", exact=True)).to_have_value("20")
    assert page.evaluate("document.activeElement.id") == page.get_by_label("a", exact=True).get_attribute("id")
    act(page, 2, "Run again")
    expect(page.locator("#view-tools .history-row")).to_have_count(4)
    expect(page.locator("#view-tools .history-arguments").first).to_have_text('{"a":1,"b":2}')
    act(page, 3, "Pin")
    expect(row(page, 0)).to_contain_text("pinned")
    expect(row(page, 0).locator(".history-arguments")).to_have_text('{"a":1,"b":2}')
    page.reload()
    expect(row(page, 0)).to_contain_text("pinned")
    choose(page, "stock")
    assert page.locator("#view-tools .history:visible").count() == 0


def test_two_calls_are_compared(own: Watched) -> None:
    """Line by line, what is equal left out; the older one first."""
    page = own.page
    choose(page, "cut")
    page.get_by_label("metal", exact=True).select_option(label="bronze")
    page.get_by_label("length_mm", exact=True).fill("5")
    press(page, "Call")
    finished(page)
    page.get_by_label("length_mm", exact=True).fill("6")
    page.get_by_label("note", exact=True).fill("new")
    press(page, "Call")
    expect(page.locator("#view-tools .history .count")).to_have_text(" 2")
    finished(page)
    page.locator("#view-tools .history > summary").click()
    act(page, 0, "Compare")
    page.get_by_text("Choose a second call").wait_for()
    act(page, 1, "Compare")
    difference = page.get_by_role("region", name="Arguments")
    difference.locator(".diff-removed").first.wait_for()
    lines = [text.replace("\n", "") for text in difference.locator("li").all_inner_texts()]
    assert [line for line in lines if line[0] in "+-"] == ['-  "length_mm": 5', '+  "length_mm": 6', '+  "note": "new"']
    assert '"length_mm": 6' in page.get_by_role("region", name="Outcome").last.inner_text()
    page.locator("#view-tools .detail").evaluate("(each) => each.scrollTo(0, 100000)")
    shoot_all(own, "history")
    press(page, "Close the comparison")
    assert page.locator(".diff:visible").count() == 0


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ([], [], ""),
        (["a"], ["a"], " a"),
        (["a", "b", "c"], ["a", "x", "c"], " a-b+x c"),
        (["a", "b"], ["b", "a"], "-a b+a"),
        ([], ["a", "b"], "+a+b"),
        (["x", "y", "a", "z"], ["a", "q"], "-x-y a-z+q"),
    ],
)
def test_the_difference_of_lists(watched: Watched, before: list[str], after: list[str], wanted: str) -> None:
    """The shortest one."""
    found = watched.page.evaluate(
        "([a, b]) => import('/diff.js').then((diff) => diff.compareLines(a, b).lines.flat().join(''))", [before, after]
    )
    assert found == wanted


def test_values_too_large_to_compare_are_cut(watched: Watched) -> None:
    """Neither time nor memory grows with the product of two results."""
    found = watched.page.evaluate(
        """() => import('/diff.js').then((diff) => {
          const many = (sign) => Array.from({ length: 200000 }, (_, at) => `${sign} ${at}`);
          const { isCut, lines } = diff.compareLines(many("a"), many("b"));
          return [isCut, lines.length];
        })"""
    )
    assert found == [True, 3000]


def run_pytest(path: Path) -> str:
    """What pytest prints about a file, in its folder."""
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(path.parent), "--import-mode", "importlib"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, path.name],
        cwd=path.parent, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(path.parent)},
    )  # fmt: skip
    return done.stdout


def test_a_call_is_saved_as_a_test_that_runs(own: Watched, tmp_path: Path) -> None:
    """The file that the browser saves passes beside the server, and fails if the server is another one."""
    page = own.page
    choose(page, "add")
    call_add(page, 40)
    page.locator("#view-tools .history > summary").click()
    act(page, 0, "Save as test")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as test_add.py").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    (tmp_path / "workshop.py").write_text(WORKSHOP.read_text(encoding="utf-8"), encoding="utf-8")
    done = run_pytest(path)
    assert "1 passed" in done, done
    changed = WORKSHOP.read_text(encoding="utf-8").replace("return a + b", "return a * b")
    (tmp_path / "workshop.py").write_text(changed, encoding="utf-8")
    assert "1 failed" in run_pytest(path)


def test_hostile_arguments_in_the_history(own: Watched) -> None:
    """Text is text, and what hides text is seen."""
    page = own.page
    choose(page, "fails")
    page.get_by_label("why", exact=True).fill("<b>x</b>\u202etxt")
    press(page, "Call")
    finished(page, "failed")
    page.locator("#view-tools .history > summary").click()
    assert "<b>x</b>U+202Etxt" in row(page, 0).inner_text().replace("\n", "")


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_crash_shows_its_traceback_and_the_wire_does_not(own: Watched) -> None:
    """The developer's own frame first, with a link for an editor; after a reload too; no message has it."""
    page = own.page
    choose(page, "fails")
    page.get_by_label("why", exact=True).fill("the saw broke")
    press(page, "Call")
    finished(page, "failed")
    head = page.locator("#view-tools .job-head")
    assert "Failed" in head.inner_text()
    bad = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bad')")
    color = page.locator("#view-tools .job-head .state").evaluate("(each) => getComputedStyle(each).color")
    assert color == f"rgb({int(bad[1:3], 16)}, {int(bad[3:5], 16)}, {int(bad[5:7], 16)})"
    crash = page.locator("#view-tools .crash")
    crash.wait_for()
    assert "RuntimeError: the saw broke" in crash.inner_text()
    line = next(
        number
        for number, text in enumerate(WORKSHOP.read_text(encoding="utf-8").splitlines(), 1)
        if "raise RuntimeError(why)" in text
    )
    first = crash.locator(".frame").first
    assert f"workshop.py:{line}" in first.inner_text()
    assert "raise RuntimeError(why)" in first.inner_text()
    assert first.get_by_role("link").get_attribute("href") == f"vscode://file{WORKSHOP}:{line}".replace(
        "file/", "file/"
    )
    crash.get_by_label("Editor that opens files").select_option("pycharm")
    assert first.get_by_role("link").get_attribute("href").startswith("pycharm://open?file=%2F")
    crash.get_by_label("Editor that opens files").select_option("vscode")
    shoot_all(own, "crash")
    page.get_by_role("tab", name="Raw", exact=True).first.click()
    assert "saw" not in page.locator("#view-tools .job-outcome").inner_text()
    page.reload()
    crash.wait_for()
    go(page, "Server")
    page.get_by_label("Method").fill("nothing/at-all")
    press(page, "Send")
    page.locator("#view-server .outcome[data-state=failed]").wait_for()
    assert "Failed" in page.locator("#view-server .job-head").inner_text()


def test_a_traceback_is_no_part_of_any_message(dev: Dev) -> None:
    """The job has it; none of the messages that were kept does."""
    import time

    job = dev.job("crashing", "call", tool="fails", arguments={"why": "only for the developer"})
    assert job["is_error"]
    until = time.monotonic() + 30
    while (crash := dev.call("job", job="crashing")["crash"]) is None:
        assert time.monotonic() < until
    assert crash["heading"] == "Tool 'fails' failed"
    assert crash["exceptions"][0]["message"] == "only for the developer"
    kept = [dev.call("message", number=number)["message"] for number in range(job["first"] + 1, job["last"] + 1)]
    answers = [message for message in kept if "result" in message]
    assert any(message["result"].get("isError") for message in answers)
    assert "only for the developer" not in str(answers)
