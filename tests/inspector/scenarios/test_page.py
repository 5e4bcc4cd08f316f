"""The inspector page as its users meet it: in a real browser, over a server process, from the list to the task."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.inspector.conftest import Dev, Watched, watching

Page = Any


def expect(found: Any) -> Any:
    """playwright's, where it is installed."""
    from playwright.sync_api import expect

    return expect(found)


CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")


def choose(page: Page, tool: str) -> None:
    """A tool of the list."""
    page.locator(f'.list-side .item[data-key="{tool}"]').locator("visible=true").click()


def press(page: Page, name: str) -> None:
    """A visible button."""
    page.get_by_role("button", name=name, exact=True).locator("visible=true").first.click()


def finished(page: Page, state: str = "done") -> str:
    """The outcome on show, once it is there."""
    page.locator(f".view:not([hidden]) .outcome[data-state={state}] .job-outcome .switcher").first.wait_for()
    return page.locator(".view:not([hidden]) .outcome:not([hidden]) .job-outcome").first.inner_text()


def go(page: Page, view: str) -> None:
    """A view by its tab."""
    page.get_by_role("tab", name=re.compile(f"^{view}")).first.click()


def result_tab(page: Page, name: str) -> None:
    """Another look at the outcome."""
    page.locator(".view:not([hidden])").get_by_role("tab", name=name, exact=True).first.click()


def test_the_token_leaves_the_address(watched: Watched) -> None:
    """It must not be in the history, in a copied link or in a screenshot; a reload still works."""
    assert "token" not in watched.page.url
    assert watched.page.evaluate("sessionStorage.getItem('ferrule-token')")
    assert watched.page.evaluate("document.cookie") == ""
    watched.page.reload()
    watched.page.wait_for_selector(".item")


def test_without_the_token_the_page_says_what_to_do(browser: Any, dev: Dev) -> None:
    """A user opens the URL without its token."""
    with watching(browser, dev.url.partition("?")[0]) as bare:
        bare.page.get_by_role("heading", name="This page needs its token").wait_for()
    with watching(browser, dev.url.partition("?")[0] + "?token=wrong-wrong-wrong-wrong") as wrong:
        wrong.page.get_by_role("heading", name="This page needs its token").wait_for()
        wrong.complaints = [line for line in wrong.complaints if "401" not in line]  # the browser's own line


def test_a_form_of_every_kind_is_filled_in_and_called(watched: Watched) -> None:
    """Choices, numbers, lists, nested objects, truth values and optional text reach the server with their types."""
    page = watched.page
    assert "2026-07-28" in page.locator("#connection").inner_text()
    choose(page, "cut")
    press(page, "Call")
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    page.get_by_label("metal", exact=True).select_option(label="bronze")
    page.get_by_label("length_mm", exact=True).fill("5000")
    press(page, "Call")
    assert "At most 2000." in page.locator(".problem:visible").inner_text()
    page.get_by_label("length_mm", exact=True).fill("120.5")
    press(page, "Add item to labels")
    page.keyboard.type("one")
    press(page, "Add item to labels")
    page.keyboard.type("two")
    page.get_by_label("finish", exact=True).check()
    page.get_by_label("kind", exact=True).select_option(label="polished")
    page.get_by_label("coats", exact=True).fill("3")
    page.get_by_label("deburr", exact=True).uncheck()
    press(page, "Call")
    finished(page)
    result_tab(page, "Raw")
    shown = page.locator("#view-tools .job-outcome .json-tree").inner_text()
    assert '"metal":"bronze","length_mm":120.5' in shown
    assert '"labels":["one","two"]' in shown
    assert '"finish":{"kind":"polished","coats":3}' in shown
    assert '"deburr":false' in shown
    result_tab(page, "Messages")
    assert "tools/call" in page.locator("#view-tools .job-outcome .messages").inner_text()
    watched.shoot("form")


def test_the_arguments_can_be_written_as_json(watched: Watched) -> None:
    """For what no form shows; it begins with what the form holds."""
    page = watched.page
    choose(page, "add")
    page.get_by_label("a", exact=True).fill("40")
    page.locator(".call").get_by_label("JSON").check()
    area = page.get_by_label("Arguments as JSON")
    assert '"a": 40' in area.input_value()
    area.fill("{")
    press(page, "Call")
    assert "No JSON" in page.locator(".problem:visible").inner_text()
    area.fill('{"a": 40, "b": 2}')
    press(page, "Call")
    assert "42" in finished(page)


def test_rows_of_one_shape_are_a_table(watched: Watched) -> None:
    """With numbers to the right."""
    page = watched.page
    choose(page, "stock")
    press(page, "Call")
    finished(page)
    assert page.locator("#view-tools .job-outcome th").all_inner_texts() == ["metal", "length_mm", "price_eur"]
    assert page.locator("#view-tools .job-outcome tbody tr").count() == 4
    watched.shoot("table")


def test_pictures_sounds_and_links_are_shown(watched: Watched) -> None:
    """A picture that the browser has decoded, a player, a link that is read with one press."""
    page = watched.page
    choose(page, "media")
    press(page, "Call")
    finished(page)
    assert (
        page.locator("#view-tools .media img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 96
    )
    assert page.locator("#view-tools .media audio").count() == 1
    watched.shoot("media")
    press(page, "Read")
    assert "brass:" in finished(page)


def test_a_failure_of_a_tool_is_shown(watched: Watched) -> None:
    """The page shows the server's masked message."""
    page = watched.page
    choose(page, "fails")
    press(page, "Call")
    assert "The tool says that it failed." in finished(page, "failed")


def test_a_question_is_answered(watched: Watched) -> None:
    """The form of an elicitation, in the middle of a call; a required field is asked for again."""
    page = watched.page
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("cane")
    press(page, "Call")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    assert "How shall the cane be?" in dialog.inner_text()
    dialog.get_by_role("button", name="Send").click()
    assert "This is required." in dialog.inner_text()
    dialog.get_by_label("size", exact=True).select_option(label="M")
    dialog.get_by_label("engrave").check()
    dialog.get_by_label("name", exact=True).fill("Ada")
    watched.shoot("question")
    dialog.get_by_role("button", name="Send").click()
    assert "Ordered: cane, size M, engraved: True, for 'Ada'." in finished(page)


def test_a_question_can_wait_and_be_declined(watched: Watched) -> None:
    """A question that is put off remains visible; a declined one is answered as declined."""
    page = watched.page
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("box")
    press(page, "Call")
    page.get_by_role("dialog").get_by_role("button", name="Later").click()
    page.locator(".banner.ask").get_by_role("button", name="Answer").click()
    page.get_by_role("dialog").get_by_role("button", name="Decline").click()
    assert "Nothing ordered: decline." in finished(page)


def test_a_model_is_played(watched: Watched) -> None:
    """Sampling: what the server sends to the model, and an answer in its place."""
    page = watched.page
    choose(page, "slogan")
    press(page, "Call")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("The model's answer").fill("Brass lasts.")
    assert "Write a slogan for a workshop." in dialog.inner_text()
    dialog.get_by_role("button", name="Answer").click()
    assert "The model says: Brass lasts." in finished(page)


def test_roots_are_edited(watched: Watched) -> None:
    """The next call gets the new roots."""
    page = watched.page
    press(page, "Settings")
    page.get_by_label("Roots").fill("file:///tmp/workshop drawings")
    watched.shoot("settings")
    press(page, "Apply")
    page.get_by_role("dialog").wait_for(state="detached")
    choose(page, "folders")
    press(page, "Call")
    assert "file:///tmp/workshop" in finished(page)


def test_progress_is_seen_and_a_call_cancelled(watched: Watched) -> None:
    """The bar moves while the tool works, and the log is written beside it."""
    page = watched.page
    choose(page, "polish")
    page.get_by_label("passes", exact=True).fill("4")
    press(page, "Call")
    page.locator(".job-head progress:visible").wait_for()
    assert "polished in 4 passes" in finished(page)
    page.get_by_label("passes", exact=True).fill("4000")
    press(page, "Call")
    page.get_by_text(re.compile("2 of 4000")).wait_for()
    press(page, "Cancel")
    page.locator(".outcome[data-state=cancelled]").wait_for()
    go(page, "Live")
    page.locator(".log", has_text="pass 4 of 4 done").wait_for()
    page.locator(".log", has_text="polished").wait_for()
    watched.shoot("live")


def test_the_level_of_the_log_is_chosen(watched: Watched) -> None:
    """Messages below the level are not sent."""
    page = watched.page
    go(page, "Live")
    page.get_by_label("Level").select_option("error")
    before = page.locator(".log li").count()
    go(page, "Tools")
    choose(page, "polish")
    page.get_by_label("passes", exact=True).fill("1")
    press(page, "Call")
    finished(page)
    go(page, "Live")
    assert page.locator(".log li.log-info").count() <= before
    page.get_by_label("Level").select_option("info")


def test_a_resource_is_read_and_watched(watched: Watched) -> None:
    """A subscription reports each change, and the visible resource is read again."""
    page = watched.page
    go(page, "Resources")
    choose(page, "workshop://stock")
    page.locator("#view-resources .detail").get_by_role("button", name="Read").click()
    before = finished(page)
    press(page, "Watch")
    page.get_by_role("button", name="Watching").wait_for()
    page.locator("#view-resources").get_by_text("open", exact=True).wait_for()
    go(page, "Live")
    page.get_by_label("tools/list").check()
    page.locator(".live .state", has_text="open").nth(1).wait_for()
    tools = page.locator("#tab-tools .count").inner_text()
    go(page, "Tools")
    choose(page, "restock")
    press(page, "Call")
    finished(page)
    expect(page.locator("#tab-tools .count")).not_to_have_text(tools)
    go(page, "Resources")
    page.get_by_text("changed 1 time").wait_for()
    expect(page.locator("#view-resources .detail .job-outcome")).not_to_have_text(before, use_inner_text=True)
    go(page, "Live")
    assert "workshop://stock" in page.get_by_role("log", name="Changes").inner_text()
    watched.shoot("subscription")
    page.get_by_label("tools/list").uncheck()
    page.get_by_role("button", name="End the subscription to resource workshop://stock").click()
    page.locator(".live .plain li").first.wait_for(state="detached")


def test_a_template_and_a_prompt_complete_what_is_typed(watched: Watched) -> None:
    """Suggestions come from the server, and are taken with the keyboard."""
    page = watched.page
    go(page, "Resources")
    choose(page, "workshop://metals/{metal}")
    page.get_by_label("metal", exact=True).fill("br")
    options = page.get_by_role("listbox").get_by_role("option")
    options.first.wait_for()
    assert options.all_inner_texts() == ["brass", "bronze"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.get_by_label("URI", exact=True).last.input_value() == "workshop://metals/bronze"
    page.locator("#view-resources .detail").get_by_role("button", name="Read").click()
    page.locator("#view-resources .detail .outcome[data-state=done]").wait_for()
    go(page, "Prompts")
    press(page, "Fill in")
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    page.get_by_label("metal", exact=True).last.fill("st")
    page.get_by_role("option", name="steel").click()
    press(page, "Fill in")
    assert "ferrule(s) of steel" in finished(page)
    watched.shoot("prompt")


def test_a_task_is_watched_asked_and_cancelled(watched: Watched) -> None:
    """Its status changes on the page, its question is answered there, and another one is stopped."""
    page = watched.page
    choose(page, "press")
    page.get_by_label("sheets", exact=True).fill("3")
    page.get_by_label("ask", exact=True).check()
    press(page, "Call as task")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("size", exact=True).select_option(label="S")
    dialog.get_by_role("button", name="Send").click()
    go(page, "Tasks")
    task = page.locator(".task").first
    task.get_by_text(re.compile("sheet . of 3")).wait_for()
    watched.shoot("task")
    task.locator(".state.done").wait_for()
    task.get_by_role("button", name="Show result").click()
    assert "3" in task.locator(".switcher").inner_text()
    go(page, "Tools")
    page.get_by_label("sheets", exact=True).fill("5000")
    page.get_by_label("ask", exact=True).uncheck()
    press(page, "Call as task")
    go(page, "Tasks")
    page.locator(".task").nth(1).wait_for()
    page.locator(".task").first.get_by_role("button", name="Cancel").click()
    page.locator(".task").first.get_by_text(re.compile("cancelled")).first.wait_for()


def test_one_call_in_both_eras(watched: Watched) -> None:
    """Each with its own messages; a question comes from either side."""
    page = watched.page
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("rack")
    press(page, "In both eras")
    for _ in range(2):
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("size", exact=True).select_option(label="L")
        handle = dialog.element_handle()
        dialog.get_by_role("button", name="Send").click()
        handle.wait_for_element_state("hidden")
    page.locator(".compare").wait_for()
    legacy, modern = page.locator(".era-column").all_inner_texts()
    assert "2025-11-25" in legacy
    assert "2026-07-28" in modern
    assert "initialize" in legacy
    assert "elicitation/create" in legacy
    assert "server/discover" in modern
    assert "initialize" not in modern
    for column in (legacy, modern):
        assert "Ordered: rack, size L" in column
    watched.shoot("eras", full_page=True)


def test_the_handshake_era_does_all_of_it_too(watched: Watched) -> None:
    """A question, a subscription and a task over a connection of 2025-11-25, chosen in the settings."""
    page = watched.page
    press(page, "Settings")
    page.get_by_label("Era", exact=True).select_option("legacy")
    press(page, "Apply")
    expect(page.locator("#connection")).to_contain_text("2025-11-25 legacy")
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("bell")
    press(page, "Call")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("size", exact=True).select_option(label="L")
    dialog.get_by_role("button", name="Send").click()
    assert "Ordered: bell, size L" in finished(page)
    go(page, "Resources")
    choose(page, "workshop://stock")
    press(page, "Watch")
    page.get_by_role("button", name="Watching").wait_for()
    go(page, "Tools")
    choose(page, "press")
    page.get_by_label("sheets", exact=True).fill("2")
    press(page, "Call as task")
    assert "2" in finished(page)
    go(page, "Tasks")
    page.locator(".task").first.locator(".state.done").wait_for()
    go(page, "Tools")
    choose(page, "restock")
    press(page, "Call")
    finished(page)
    go(page, "Resources")
    page.get_by_text(re.compile("changed . time")).wait_for()
    page.get_by_role("button", name="Watching").click()
    watched.shoot("legacy")
    press(page, "Settings")
    page.get_by_label("Era", exact=True).select_option("auto")
    press(page, "Apply")
    expect(page.locator("#connection")).to_contain_text("2026-07-28 modern")


def test_any_request_can_be_sent_and_every_message_opened(watched: Watched) -> None:
    """For experts: a method by its name, and the bytes of its answer."""
    page = watched.page
    go(page, "Server")
    assert "Measure twice, cut once." in page.locator("#view-server").inner_text()
    page.get_by_label("Method").fill("tools/nothing")
    press(page, "Send")
    page.locator("#view-server .outcome[data-state=failed]").wait_for()
    assert "-32601" in page.locator("#view-server .job-outcome").inner_text()
    page.get_by_label("Filter the messages").fill("nothing")
    page.locator("#messages .message summary").last.click()
    page.locator("#messages .json-tree", has_text="-32601").wait_for()
    page.get_by_label("Filter the messages").fill("")
    watched.shoot("server")


def test_both_themes_are_readable_and_fit_a_small_screen(browser: Any, dev: Dev) -> None:
    """Every text has enough contrast (WCAG 2.2, 1.4.3), and nothing is cut off at 360 pixels."""
    with watching(browser, dev.url) as watched:
        page = watched.page
        page.wait_for_selector(".item")
        choose(page, "cut")
        page.get_by_label("metal", exact=True).select_option(label="brass")
        page.get_by_label("length_mm", exact=True).fill("9")
        press(page, "Call")
        finished(page)
        for width in (1360, 360):
            page.set_viewport_size({"width": width, "height": 800})
            for view in ("Tools", "Resources", "Prompts", "Tasks", "Live", "Two eras", "Server", "Messages")[
                : 7 + (width < 999)
            ]:
                go(page, view)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, view
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    assert page.evaluate(CONTRAST) == [], (view, scheme)
                    if view in ("Tools", "Live", "Messages"):
                        watched.shoot(f"{scheme}-{width}-{view.lower()}")


def test_the_theme_can_be_chosen(browser: Any, dev: Dev) -> None:
    """And is remembered."""
    with watching(browser, dev.url, color_scheme="light") as watched:
        page = watched.page
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.get_by_role("button", name="Colour theme").click()
        page.get_by_role("button", name="Colour theme").click()
        dark = page.evaluate(ground)
        assert light != dark
        page.reload()
        page.get_by_role("button", name="Colour theme: dark").wait_for()
        assert page.evaluate(ground) == dark
