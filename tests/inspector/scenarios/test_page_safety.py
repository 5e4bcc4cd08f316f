"""Safety and accessibility of the page: hostile output has no effect; keyboard and screen reader are enough."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.inspector.conftest import Dev, Watched, watching
from tests.inspector.scenarios.test_page import choose, finished, go, press


def call_hostile(watched: Watched, kind: str) -> str:
    """The outcome's text; whatever it is, nothing of it ran."""
    page = watched.page
    choose(page, "hostile")
    page.get_by_label("kind", exact=True).select_option(label=kind)
    press(page, "Call")
    text = finished(page)
    watched.shoot(f"hostile-{kind}")
    for view in page.locator("#view-tools .job-outcome [role=tab]").all():
        view.click()
    page.locator("#view-tools .job-outcome [role=tab]").first.click()
    assert page.evaluate("window.pwned") is None
    return text


def test_markup_of_a_tool_is_text(watched: Watched) -> None:
    """Every character of it is seen, and no element was made of it."""
    text = call_hostile(watched, "script")
    assert "<script>window.pwned = 1</script>" in text
    assert "<img src=x onerror='window.pwned = 2'>" in text
    assert watched.page.locator("#view-tools .job-outcome :is(script, img, a)").count() == 0


def test_links_show_where_they_lead_and_scripts_are_none(watched: Watched) -> None:
    """Only http and https can be opened, in a page without a reference to this one."""
    text = call_hostile(watched, "links")
    assert "javascript:window.pwned=4" in text
    assert "data:text/html" in text
    links = watched.page.locator("#view-tools .job-outcome a")
    assert links.count() == 1
    assert links.first.inner_text() == "https://example.com/harmless?<b>"
    assert links.first.get_attribute("rel") == "noopener noreferrer"
    assert links.first.get_attribute("target") == "_blank"


def test_text_that_hides_or_turns_around_is_unmasked(watched: Watched) -> None:
    """Direction marks, zero-width characters, escapes and tags are shown by their numbers; Arabic is Arabic."""
    choose(watched.page, "hidden")
    press(watched.page, "Call")
    text = finished(watched.page)
    watched.shoot("hostile-hidden")
    for code in ("U+202E", "U+200B", "U+2066", "U+2069", "U+001B", "U+0000", "U+E0041"):
        assert code in text
    assert "عربى" in text
    assert "\u202e" not in text


def test_broken_pictures_are_said_to_be_broken(watched: Watched) -> None:
    """And what is called a picture but is a page can be saved, nothing else."""
    page = watched.page
    choose(page, "hostile")
    page.get_by_label("kind", exact=True).select_option(label="picture")
    press(page, "Call")
    finished(page)
    page.get_by_text("This image is broken").wait_for()
    assert "Not shown" in page.locator("#view-tools .job-outcome").inner_text()
    assert page.locator("#view-tools .job-outcome img").count() == 0


def test_a_drawing_with_a_script_is_not_shown(watched: Watched) -> None:
    """SVG can hold programs."""
    assert "Not shown" in call_hostile(watched, "svg")
    assert watched.page.locator("#view-tools .job-outcome img").count() == 0


def test_five_megabytes_of_text_do_not_stop_the_page(watched: Watched) -> None:
    """The beginning is shown, the rest when asked for, and the page answers meanwhile."""
    page = watched.page
    choose(page, "huge")
    press(page, "Call")
    text = finished(page)
    assert "of 5,242,880 characters" in text
    assert page.locator("#view-tools .job-outcome pre").first.evaluate("pre => pre.textContent.length") <= 20_000
    press(page, "Show more")
    assert page.locator("#view-tools .job-outcome pre").first.evaluate("pre => pre.textContent.length") == 220_000
    page.get_by_role("tab", name="Messages", exact=True).locator("visible=true").last.click()
    page.locator("#view-tools .job-outcome .message summary").last.click()
    page.locator("#view-tools .job-outcome .message .json-tree").wait_for()
    watched.shoot("huge")
    choose(page, "add")
    page.get_by_label("a", exact=True).fill("1")
    press(page, "Call")
    assert "3" in finished(page)


def test_the_policy_stops_what_would_slip_through(watched: Watched) -> None:
    """The second wall: even code of this page cannot make markup run, or reach another origin."""
    page = watched.page
    markup = "() => { try { document.body.innerHTML = '<b>x</b>'; return 'done' } catch { return 'refused' } }"
    assert page.evaluate(markup) == "refused"
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'done', () => 'refused')") == "refused"
    page.evaluate("void (document.body.append(new Image()), document.body.lastChild.src = 'http://127.0.0.1:9/x.png')")
    page.locator("body > img:last-child").evaluate("image => image.decode().catch(() => {})")
    assert watched.complaints
    page.locator("body > img:last-child").evaluate("image => image.remove()")
    watched.complaints.clear()  # the browser reports what it refused
    watched.requests[:] = [url for url in watched.requests if ":9/" not in url]


@pytest.fixture
def foreign() -> Iterator[str]:
    """A foreign page on another port of this machine, which a browser also treats as local."""

    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>hello</title><p>hello")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_foreign_page_can_neither_read_nor_frame_nor_drive_it(browser: Any, dev: Dev, foreign: str) -> None:
    """It tries what pages can try, even with a token that it stole, and the server notices nothing."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(foreign)
    base = f"http://127.0.0.1:{dev.port}"
    whole = f"headers: {{'content-type': 'application/json', 'x-ferrule-token': '{dev.token}'}}"
    tries = {
        "with the token": f"fetch('{base}/api/state', {{method: 'POST', body: '{{}}', {whole}}})",
        "without": f"fetch('{base}/api/state', {{method: 'POST', body: '{{}}'}})",
        "the page": f"fetch('{base}/')",
    }
    for name, code in tries.items():
        assert page.evaluate(f"{code}.then(() => 'done', () => 'refused')") == "refused", name
    blind = f"fetch('{base}/api/disconnect', {{method: 'POST', mode: 'no-cors', body: '{{}}'}})"
    page.evaluate(f"{blind}.then(() => 'done', () => 'refused')")
    frame = f"Object.assign(document.createElement('iframe'), {{src: '{base}/?token={dev.token}'}})"
    page.evaluate(f"new Promise(done => {{ const f = {frame}; f.onload = done; document.body.append(f) }})")
    (inner,) = (each for each in page.frames if each is not page.main_frame)
    assert inner.locator("#work").count() == 0
    assert dev.call("state")["connections"][0]["state"] == "open"
    context.close()


# -- keyboard and screen reader ---------------------------------------------------------------------------------------


def focused(page: Any) -> str:
    """What has the focus, by its name."""
    return page.evaluate("""() => {
      const e = document.activeElement;
      return (e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || '').trim();
    }""")


def tab_to(page: Any, name: str, limit: int = 60) -> None:
    """Tab until something of that name has the focus; it must be visible that it has."""
    passed: list[str] = []
    for _ in range(limit):
        page.keyboard.press("Tab")
        passed.append(focused(page)[:30])
        if focused(page).startswith(name):
            style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style != "none", f"{name} does not show its focus"
            return
    raise AssertionError(f"{name!r} is not reached with Tab: {passed}")


def test_everything_works_from_the_keyboard(browser: Any, dev: Dev) -> None:
    """From the skip link over the list and the form to the question and another view."""
    with watching(browser, dev.url) as watched:
        watched.page.wait_for_selector(".item")
        use_by_keyboard(watched.page)


def use_by_keyboard(page: Any) -> None:
    """Use every view by the keyboard."""
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    tab_to(page, "Tools")
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("Resources")
    page.keyboard.press("ArrowLeft")
    tab_to(page, "Filter tools")
    page.keyboard.type("order some")
    tab_to(page, "order")
    page.keyboard.press("Enter")
    tab_to(page, "product")
    page.keyboard.type("cane")
    page.keyboard.press("Control+Enter")
    page.get_by_role("dialog").wait_for()
    assert focused(page).startswith("size")
    page.keyboard.press("ArrowDown")
    tab_to(page, "name")
    page.keyboard.type("Grace")
    tab_to(page, "Send")
    page.keyboard.press("Enter")
    assert "for 'Grace'" in finished(page)
    page.locator("#announce", has_text="order: done").wait_for(state="attached")
    tab_to(page, "Content")
    page.keyboard.press("ArrowRight")
    assert focused(page) == "Structured"
    tab_to(page, "Copy as Python")
    page.keyboard.press("Enter")
    page.locator(".snippet").wait_for()


def test_escape_cancels_a_question(watched: Watched) -> None:
    """As in any dialog; the server gets the answer ``cancel``."""
    page = watched.page
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("x")
    press(page, "Call")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    assert "Nothing ordered: cancel." in finished(page)


def test_arrow_keys_move_in_the_list(watched: Watched) -> None:
    """One stop of Tab for the whole list."""
    page = watched.page
    page.locator('.item[data-key="add"]').focus()
    page.keyboard.press("ArrowDown")
    assert focused(page).startswith("cut")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert focused(page).startswith("add")
    assert page.locator(".item[tabindex='0']:visible").count() == 1


CONTROLS = {
    "button", "checkbox", "combobox", "textbox", "searchbox", "link", "tab", "listbox", "radio", "slider", "image",
    "dialog", "region", "tabpanel", "tablist", "spinbutton", "progressbar", "navigation", "complementary",
}  # fmt: skip


def unnamed(page: Any) -> list[str]:
    """Controls and landmarks that a screen reader would announce without a name."""
    session = page.context.new_cdp_session(page)
    found: list[str] = []
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value", "")
        if node.get("ignored") or role not in CONTROLS:
            continue
        if not node.get("name", {}).get("value", "").strip():
            found.append(f"{role} {node.get('backendDOMNodeId')}")
    session.detach()
    return found


def test_every_control_has_a_name(watched: Watched) -> None:
    """In each view, with an outcome, in a dialog: taken from the browser's own accessibility tree."""
    page = watched.page
    for view in ("Resources", "Prompts", "Tasks", "Live", "Two eras", "Server", "Tools"):
        go(page, view)
        assert unnamed(page) == [], view
    for tool in ("cut", "media", "stock"):
        choose(page, tool)
        if tool != "cut":
            press(page, "Call")
            finished(page)
        assert unnamed(page) == [], tool
    press(page, "Settings")
    page.get_by_role("dialog").wait_for()
    assert unnamed(page) == []
    page.keyboard.press("Escape")
    choose(page, "order")
    page.locator("#view-tools").get_by_label("product", exact=True).fill("x")
    press(page, "Call")
    page.get_by_role("dialog").wait_for()
    assert unnamed(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    finished(page)


def test_the_page_has_landmarks_and_one_heading_of_the_first_rank(watched: Watched) -> None:
    """By which a screen reader's user finds the way."""
    page = watched.page
    assert page.get_by_role("heading", level=1).count() == 1
    for role in ("banner", "navigation", "main", "complementary"):
        assert page.get_by_role(role).count() == 1, role
    assert page.evaluate("document.documentElement.lang") == "en"
    assert "Workshop" in page.title()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
