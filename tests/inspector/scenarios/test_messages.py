"""The message log: one line for a request and its answer, what belongs to it inside, polling folded away."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.inspector.conftest import Watched
from tests.inspector.scenarios.test_history import own, shoot_all
from tests.inspector.scenarios.test_page import choose, expect, finished, go, press

__all__ = ["own"]

LINES = "#messages .panel-scroll > .messages > li > .message > summary"


def lines(page: Any) -> list[str]:
    """What the lines of the panel say, without times and sizes."""
    return [re.sub(r"\s+", " ", text) for text in page.locator(f"{LINES} .what").all_inner_texts()]


def test_a_request_and_its_answer_are_one_line(own: Watched) -> None:
    """Opened in view: both messages; the progress of the call is folded inside it."""
    page = own.page
    choose(page, "polish")
    page.get_by_label("passes", exact=True).fill("3")
    press(page, "Clear the messages")
    press(page, "Call")
    finished(page)
    assert lines(page) == ["tools/call polish"]
    line = page.locator(LINES)
    assert line.locator(".arrow").inner_text() == "⇄"
    assert re.search(r"\d+ ms", line.locator(".took").inner_text())
    line.click()
    body = page.locator("#messages .message-body").first
    expect(body.locator("h4")).to_have_text(["Request", "Answer"])
    expect(body.locator(".json-tree")).to_have_count(2)
    expect(body.locator(".json-tree").last).to_contain_text("polished in 3 passes")
    folded = body.locator(".message-folded > summary")
    assert re.fullmatch(r"\d+ notifications", folded.inner_text())
    folded.click()
    page.locator("#messages .message-folded .message", has_text="notifications/progress").first.wait_for()
    shoot_all(own, "messages")


def test_a_failed_answer_is_seen_in_its_line(own: Watched) -> None:
    """A result with `isError` and an error of the protocol, in red; and a filter finds them."""
    page = own.page
    choose(page, "fails")
    press(page, "Call")
    finished(page, "failed")
    go(page, "Server")
    page.get_by_label("Method").fill("no/such")
    press(page, "Send")
    page.locator("#view-server .outcome[data-state=failed]").wait_for()
    page.get_by_label("Filter the messages").fill("failed")
    assert lines(page) == ["tools/call fails", "no/such"]
    assert page.locator(f"{LINES} .chip.error").all_inner_texts() == ["failed", "failed"]
    page.get_by_label("Filter the messages").fill("zebra")
    page.get_by_text(re.compile(r"none of \d+")).wait_for()


def test_a_question_is_inside_its_call(own: Watched) -> None:
    """In the handshake era it is a request of the server, with an answer of its own."""
    page = own.page
    press(page, "Settings")
    page.get_by_label("Era", exact=True).select_option("legacy")
    press(page, "Apply")
    expect(page.locator("#connection")).to_contain_text("legacy")
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("cane")
    press(page, "Clear the messages")
    press(page, "Call")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("size", exact=True).select_option(label="M")
    dialog.get_by_role("button", name="Send").click()
    finished(page)
    assert lines(page) == ["tools/call order"]
    inner = page.locator("#messages .message-inner .message")
    assert "elicitation/create" in inner.inner_text()
    assert inner.locator(".arrow").inner_text() == "⇄"


def test_polling_is_folded_away(own: Watched) -> None:
    """Pings and listening are counted and shown on demand; states of a task are inside the call that made it."""
    page = own.page
    choose(page, "press")
    page.get_by_label("sheets", exact=True).fill("3")
    press(page, "Clear the messages")
    press(page, "Call as task")
    assert "3" in finished(page)
    assert lines(page)[0] == "tools/call press"
    assert "tasks/get" not in lines(page)
    go(page, "Server")
    for _ in range(2):
        press(page, "Ping")
        page.get_by_text("It answers.").wait_for()
    go(page, "Live")
    page.get_by_label("tools/list").check()
    page.locator(".live .state", has_text="open").first.wait_for()
    polling = page.get_by_role("button", name=re.compile("^Polling"))
    polling.wait_for()
    hidden = {"ping", "subscriptions/listen"}
    assert hidden.isdisjoint(lines(page))
    polling.click()
    assert "subscriptions/listen" in lines(page)
    polling.click()
    assert hidden.isdisjoint(lines(page))


def test_a_large_message_is_loaded_on_demand(own: Watched) -> None:
    """A result of several megabytes does not block the page."""
    page = own.page
    choose(page, "huge")
    page.get_by_label("megabytes", exact=True).fill("3")
    press(page, "Clear the messages")
    press(page, "Call")
    finished(page)
    page.locator(LINES).click()
    page.locator("#messages").get_by_text("are not shown at once").wait_for()
    page.locator("#messages").get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#messages .message-body .json-tree")).to_have_count(2)


def test_the_arrow_keys_skip_what_is_folded(own: Watched) -> None:
    """And Enter opens a line."""
    page = own.page
    choose(page, "polish")
    page.get_by_label("passes", exact=True).fill("1")
    press(page, "Clear the messages")
    for count in (1, 2):
        press(page, "Call")
        expect(page.locator(LINES)).to_have_count(count)
        finished(page)
    page.locator("#messages .panel-scroll").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#messages .message-folded > summary").wait_for()
    page.locator("#messages .message-folded > summary").click()
    page.locator("#messages .message-folded > summary").click()
    page.locator(LINES).first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('li').parentElement.closest('.message-folded')") is None
    assert page.evaluate("document.activeElement.querySelector('.what').textContent") == "tools/call polish"


@pytest.mark.parametrize("count", [20_000])
def test_many_messages_are_grouped_at_once(watched: Watched, count: int) -> None:
    """The time grows with their number, not with its square: each event is looked at once."""
    made = watched.page.evaluate(
        """async (count) => {
          const { exchangesOf } = await import("/exchanges.js");
          const events = [];
          let reads = 0;
          for (let at = 0; at < count; at++) {
            const event = { number: at, what: at % 2 ? "result" : "request", of: at % 2 ? at - 1 : undefined };
            events.push(new Proxy(event, { get(target, name) { reads += 1; return target[name]; } }));
          }
          return [exchangesOf(events).length, reads];
        }""",
        count,
    )
    assert made[0] == count / 2
    assert made[1] <= 6 * count
