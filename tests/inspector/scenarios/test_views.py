"""Views of tools (MCP Apps) in the page: a real browser, the origin of their own, and the whole dialect."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import ROOT, Dev, Watched, developing, watching
from tests.inspector.scenarios.test_page import choose, press
from tests.inspector.scenarios.test_page_safety import unnamed

GALLERY = Path(__file__).parents[1] / "servers" / "gallery.py"
LIMIT_MS = 60_000
# The browser's own remark about the frame of a view, whose attribute the specification asks for.
SANDBOX_REMARK = "can escape its sandboxing"


class Shown:
    """The inspector with the view of a tool.

    Attributes:
        page: playwright's.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.page = watched.page

    @property
    def panel(self) -> Any:
        """The section of the view."""
        return self.page.locator(".view-panel")

    @property
    def frame(self) -> Any:
        """The view's document."""
        return self.page.frame_locator(".view-frame").frame_locator("iframe")

    @property
    def inner(self) -> Any:
        """The view's frame, to run code in it."""
        return self.page.frames[-1]

    def open(self, tool: str, **chosen: str) -> None:
        """Call a tool, and wait until its view runs."""
        choose(self.page, tool)
        for label, value in chosen.items():
            self.page.get_by_label(label, exact=True).first.fill(value)
        press(self.page, "Call")
        self.is_in("running")

    def again(self, work: Callable[[], Any]) -> None:
        """Do something that opens the view again, and wait until the new one runs."""
        before = int(self.panel.get_attribute("data-opened"))
        work()
        self.page.locator(f".view-panel[data-state=running][data-opened='{before + 1}']").wait_for()

    def until(self, code: str) -> None:
        """Wait until the view's script finds something true; its policy forbids what playwright would use."""
        for _ in range(LIMIT_MS // 20):
            if self.inner.evaluate(code):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(code)

    def is_in(self, state: str) -> None:
        """Wait for a state of the view."""
        self.page.locator(f".view-panel[data-state='{state}']").wait_for()

    def option(self, label: str, is_on: bool) -> None:
        """Set a checkbox of the host."""
        self.page.locator(".view-more").first.evaluate("details => { details.open = true; }")
        self.panel.get_by_label(label, exact=True).set_checked(is_on)

    def reopen(self, label: str, is_on: bool) -> None:
        """Set a checkbox with which the view is opened again."""
        self.again(lambda: self.option(label, is_on))

    def select(self, label: str, value: str) -> None:
        """Choose a control of the host."""
        self.panel.get_by_label(label, exact=True).select_option(value)

    def saw(self, words: str) -> None:
        """Wait until the driven view has got these events, in this order."""
        self.frame.locator("#seen", has_text=re.compile(f"^{words}$")).wait_for()

    def run(self, code: str) -> Any:
        """The outcome of a call of the view's script: its value, or the error's code and message."""
        return self.inner.evaluate(f"Promise.resolve({code}).catch((error) => [error.code, error.message])")

    def finding(self, text: str) -> None:
        """Wait for a finding."""
        self.panel.locator(".view-findings li", has_text=text).first.wait_for()

    def findings(self) -> list[str]:
        """The findings now."""
        return self.panel.locator(".view-findings li").all_inner_texts()

    def messages(self) -> list[str]:
        """The methods of the messages so far, with their direction."""
        rows = self.panel.locator(".view-log summary")
        return [text.replace("\n", "") for text in rows.evaluate_all("rows => rows.map((row) => row.textContent)")]


@pytest.fixture(scope="module")
def gallery() -> Iterator[Dev]:
    """An inspector of tools with views."""
    with developing(GALLERY) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser: Any, gallery: Dev) -> Iterator[Watched]:
    """One page for many tests."""
    watched = Watched(browser, gallery.url)
    watched.context.set_default_timeout(LIMIT_MS)
    watched.page.wait_for_selector(".item")
    yield watched
    watched.context.close()


@pytest.fixture
def shown(page: Watched) -> Iterator[Shown]:
    """The page, with the host as it is at first."""
    made = Shown(page)
    page.complaints.clear()
    yield made
    assert [line for line in page.complaints if SANDBOX_REMARK not in line] == []
    choose(page.page, "for_views")
    page.page.locator(".view-panel").wait_for(state="detached")


def test_the_example_is_shown_calls_back_and_is_shown_again_when_it_changes(browser: Any, tmp_path: Path) -> None:
    """The first things that an author sees."""
    for name in ("chart.py", "chart.html"):
        shutil.copy(ROOT / "examples" / "apps" / name, tmp_path)
    with developing(tmp_path / "chart.py") as running, watching(browser, running.url) as watched:
        watched.context.set_default_timeout(LIMIT_MS)
        watched.page.wait_for_selector(".item")
        shown = Shown(watched)
        shown.open("wave", damping="0.5")
        line = shown.frame.locator("#line[points^='0,']")
        line.wait_for(state="attached")
        assert shown.frame.locator("#damping").input_value() == "0.5"
        first = line.get_attribute("points")
        shown.frame.locator("#damping").fill("0")
        shown.frame.locator(f"#line:not([points='{first}'])").wait_for(state="attached")
        shown.select("Theme", "dark")
        shown.frame.locator("html[data-theme=dark]").wait_for(state="attached")
        watched.shoot("view")
        assert shown.findings() == []
        assert unnamed(watched.page) == []
        next(event for event in running.events() if event.get("key") == "pages" and event.get("state") == "open")
        page = tmp_path / "chart.html"
        shown.again(lambda: page.write_text(page.read_text().replace("<label>Damping", "<label>Changed")))
        assert shown.frame.locator("label").inner_text().startswith("Changed")
        shown.frame.locator("html[data-theme=dark]").wait_for(state="attached")
        watched.complaints = [each for each in watched.complaints if SANDBOX_REMARK not in each]
        port = running.call("view", policy="default-src 'none'")["port"]
        watched.requests = [each for each in watched.requests if f":{port}/" not in each]


def test_the_messages_come_in_order(shown: Shown) -> None:
    """Nothing before the view is initialized; the arguments before the result."""
    shown.open("driven", words="a b c")
    shown.saw("input result")
    heard = [each for each in shown.messages() if "size" not in each]
    assert heard == [
        "←ui/initialize 1",
        "→result 1",
        "←ui/notifications/initialized",
        "→ui/notifications/tool-input",
        "→ui/notifications/tool-result",
    ]
    assert shown.run("seen[0][1]") == {"words": "a b c", "count": 2}
    assert shown.run("seen[1][1].structuredContent") == {"words": "a b c", "count": 2}
    host = shown.run("view.host")
    assert host["protocolVersion"] == "2026-01-26"
    assert host["hostInfo"]["name"] == "ferrule-inspector"
    assert host["hostCapabilities"]["sandbox"]["permissions"] == {"geolocation": {}}
    assert host["hostContext"]["toolInfo"]["tool"]["name"] == "driven"
    assert shown.findings() == []


def test_tools_and_resources_are_used_as_their_visibility_says(shown: Shown) -> None:
    """A tool for models only is refused."""
    shown.open("driven")
    assert shown.run("view.call('for_views', {n: 4}).then(view.data)") == 5
    assert shown.run("view.call('for_models')") == [-32000, "for_models is not for views"]
    assert shown.run("view.call('nothing')") == [-32602, "Unknown tool: nothing"]
    uri = shown.run("view.context.toolInfo.tool._meta.ui.resourceUri")
    assert shown.run(f"view.read('{uri}').then((found) => found.contents[0].uri)") == uri
    assert shown.run("view.read('ui://nothing').then(() => 'read', (error) => error.code < 0)") is True
    shown.finding("for_models, whose visibility does not include")


def test_links_are_shown_first(shown: Shown) -> None:
    """The user allows or denies each; other schemes are no links."""
    shown.open("driven")
    shown.inner.evaluate("void (window.link = view.openLink('https://example.invalid/a').catch((e) => e.message))")
    asked = shown.panel.get_by_role("group", name="The view wants to open a link")
    assert "https://example.invalid/a" in asked.inner_text()
    asked.get_by_role("button", name="Deny").click()
    assert shown.run("window.link") == "Link opening denied by user"
    assert shown.run("view.openLink('javascript:alert(1)')") == [-32000, "Invalid URL"]
    shown.page.context.route("https://example.invalid/**", lambda route: route.fulfill(body="there"))
    shown.inner.evaluate("void (window.link = view.openLink('https://example.invalid/b'))")
    with shown.page.context.expect_page() as opened:
        asked.get_by_role("button", name="Allow").click()
    assert opened.value.url == "https://example.invalid/b"
    assert opened.value.evaluate("window.opener") is None
    opened.value.close()
    assert shown.run("window.link") == {}


def test_files_of_a_view_are_saved_when_the_user_allows_it(shown: Shown) -> None:
    """Text and base64 under the last part of their URI; a link is opened; what is neither is refused unasked."""
    shown.open("driven")
    text = "{type: 'resource', resource: {uri: 'file:///../days.csv', mimeType: 'text/csv', text: 'day\\n1\\n'}}"
    blob = "{type: 'resource', resource: {uri: 'file:///a.bin', blob: 'AAH/'}}"
    asked = shown.panel.get_by_role("group", name="The view wants to save files")
    shown.inner.evaluate(f"void (window.saved = view.download([{text}]).catch((e) => e.message))")
    assert "file:///../days.csv" in asked.inner_text()
    asked.get_by_role("button", name="Deny").click()
    assert shown.run("window.saved") == "Download denied by user"
    for block, name, content in ((text, "days.csv", b"day\n1\n"), (blob, "a.bin", b"\x00\x01\xff")):
        shown.inner.evaluate(f"void (window.saved = view.download([{block}]))")
        with shown.page.expect_download() as saved:
            asked.get_by_role("button", name="Allow").click()
        assert saved.value.suggested_filename == name
        assert Path(saved.value.path()).read_bytes() == content
        assert shown.run("window.saved") == {}
    shown.page.context.route("https://example.invalid/**", lambda route: route.fulfill(body="there"))
    link = "{type: 'resource_link', name: 'a', uri: 'https://example.invalid/a.pdf'}"
    shown.inner.evaluate(f"void (window.saved = view.download([{link}]))")
    with shown.page.context.expect_page() as opened:
        asked.get_by_role("button", name="Allow").click()
    assert opened.value.url == "https://example.invalid/a.pdf"
    opened.value.close()
    for bad in (blob.replace("AAH/", "?"), link.replace("https://example.invalid/", "javascript:")):
        assert shown.run(f"view.download([{bad}])") == [-32000, "Invalid content"]
    assert shown.findings() == []


def test_what_a_view_says_is_shown(shown: Shown) -> None:
    """To the conversation, to the model, to the log; a later context replaces an earlier one."""
    shown.open("driven")
    shown.run("view.message('hello there')")
    shown.run("view.setContext('first')")
    shown.run("view.setContext('second', {day: 1})")
    shown.run("view.log({a: 'logged'}, 'warning')")
    said = shown.panel.locator(".view-said")
    said.get_by_text("logged").wait_for()
    text = said.inner_text()
    assert "hello there" in text
    assert "second" in text
    assert "first" not in text
    assert "Log, warning" in text


def test_display_modes_and_sizes(shown: Shown) -> None:
    """The view is notified; a mode that it does not declare is refused."""
    shown.open("driven")
    assert shown.run("view.displayMode('fullscreen')") == "fullscreen"
    assert shown.run("view.context.containerDimensions.width") == shown.page.viewport_size["width"]
    press(shown.page, "Back to inline")
    shown.until("view.context.displayMode === 'inline'")
    shown.select("Mode", "pip")
    shown.page.locator("#announce", has_text="no mode pip").wait_for(state="attached")
    assert shown.run("view.displayMode('pip')") == "inline"
    shown.select("Size", "mobile")
    shown.until("view.context.platform === 'mobile'")
    assert shown.run("view.context.containerDimensions") == {"width": 390, "maxHeight": 700}
    assert shown.page.locator(".view-frame").evaluate("frame => frame.offsetWidth") == 390
    shown.select("Size", "desktop")
    before = shown.page.locator(".view-frame").evaluate("frame => frame.offsetHeight")
    shown.inner.evaluate("document.body.append(Object.assign(document.createElement('div'), {style: 'height: 700px'}))")
    shown.page.wait_for_function("before => document.querySelector('.view-frame').offsetHeight > before", arg=before)
    assert shown.findings() == []


def test_capabilities_consent_and_permissions_are_switched(shown: Shown) -> None:
    """As hosts differ, and users say no."""
    shown.open("driven")
    assert shown.page.locator(".view-frame").get_attribute("allow") == "geolocation"
    shown.reopen("serverTools", False)
    assert shown.run("view.call('for_views')") == [None, "The host does not offer serverTools"]
    assert shown.run("request('tools/call', {name: 'for_views'})") == [-32601, "The host does not offer serverTools"]
    shown.reopen("serverTools", True)
    shown.option("deny what needs consent", True)
    assert shown.run("view.message('x')") == [-32000, "ui/message was denied by the user"]
    shown.option("deny what needs consent", False)
    assert shown.run("view.message('x')") == {}
    shown.reopen("grant camera, microphone, location, clipboard", False)
    assert shown.page.locator(".view-frame").get_attribute("allow") is None
    assert shown.run("view.ready.then(() => view.host.hostCapabilities.sandbox.permissions)") == {}
    shown.reopen("grant camera, microphone, location, clipboard", True)


def test_partial_input_and_a_cancelled_call(shown: Shown) -> None:
    """What a model does while it writes, and a user who does not wait."""
    shown.open("driven", words="one two three")
    shown.reopen("send partial input first", True)
    shown.saw("partial partial input result")
    assert shown.run("seen[0][1]") == {"words": "one two"}
    shown.reopen("send partial input first", False)
    shown.reopen("cancel the call", True)
    shown.saw("input cancelled")
    assert shown.run("seen[1][1]") == "cancelled by the user"
    shown.reopen("cancel the call", False)
    shown.saw("input result")


def test_a_view_is_asked_to_finish(shown: Shown) -> None:
    """Before it is closed by the user, by itself, or by the choice of another tool."""
    shown.open("driven")
    press(shown.page, "Close the view")
    shown.is_in("closed")
    assert shown.messages()[-2].startswith("→ui/resource-teardown")
    assert shown.messages()[-1].startswith("←result")
    shown.again(lambda: press(shown.page, "Open again"))
    shown.inner.evaluate("view.close()")
    shown.is_in("closed")
    shown.again(lambda: press(shown.page, "Open again"))
    shown.inner.evaluate("view.on('teardown', () => localStorage.setItem('left', 'saved'))")
    choose(shown.page, "for_views")
    shown.panel.wait_for(state="detached")
    shown.open("driven")
    assert shown.run("localStorage.getItem('left')") == "saved"


def test_what_breaks_the_rules_is_found(shown: Shown) -> None:
    """Refused by the policy, not of the dialect, and errors of the script."""
    shown.open("breaks")
    shown.finding("img-src refused https://pictures.example")
    shown.finding("ui/open-link: params")
    shown.finding("there is no message 'ui/unheard-of'")
    shown.finding("something that is not a message")
    shown.finding("undefinedFunction is not defined")
    shown.watched.complaints.clear()  # the browser reports the same


def test_a_message_that_is_too_large_is_refused(shown: Shown) -> None:
    """By its bytes, as the API of the page takes it; a large one within the bound passes."""
    shown.open("driven")
    assert shown.run("view.call('for_views', {n: 1, x: 'ä'.repeat(4e6)})") == [-32600, "Too large"]
    shown.finding("more than 8000000")
    assert shown.run("view.message('ä'.repeat(3e6))") == {}


def test_a_view_reaches_neither_the_page_nor_the_api(shown: Shown, gallery: Dev) -> None:
    """Even one whose declared domains have the inspector in them, so that its own policy allows it."""
    shown.open("attack")
    shown.panel.locator(".view-said").get_by_text("navigate").wait_for()
    text = shown.panel.locator(".view-said").inner_text()
    for name in ("top", "host", "storage", "navigate"):
        assert f'{name}: "SecurityError"' in text, text
    for name in ("api", "blind", "file", "frame"):  # the frame has no document for the view
        assert f'{name}: "TypeError"' in text, text
    assert 'popup: "null"' in text
    assert shown.page.locator("#work").count() == 1
    assert gallery.call("state")["connections"][0]["state"] == "open"
    shown.watched.complaints.clear()  # the browser reports what it refused


def test_the_proxy_page_runs_in_the_inspector_only(browser: Any, gallery: Dev) -> None:
    """Neither by itself nor in the frame of another page of this machine."""
    context = browser.new_context()
    page = context.new_page()
    made = gallery.call("view", policy="default-src 'none'; script-src 'unsafe-inline'")
    address = f"http://127.0.0.1:{made['port']}{made['path']}"
    assert page.goto(address).status == 403
    foreign = f"<!doctype html><iframe src='{address}' referrerpolicy=origin></iframe>"
    page.route("http://127.0.0.1:1/", lambda route: route.fulfill(body=foreign, content_type="text/html"))
    page.goto("http://127.0.0.1:1/")
    assert page.frames[-1].url.startswith("chrome-error:")
    context.close()


def test_profiles_of_stricter_hosts(shown: Shown) -> None:
    """Policies from lists only; no origin, hence no storage."""
    choose(shown.page, "by_hand")
    press(shown.page, "Call")
    shown.is_in("document sent")
    text = "\n".join(shown.findings())
    assert "differs between resources/read and resources/list" in text
    assert "'https://x.example; script-src *' is left out" in text
    assert "by ui/resourceUri only" in text
    shown.open("driven")
    shown.again(lambda: shown.select("Host", "opaque"))
    shown.saw("input result")
    assert shown.run("self.origin") == "null"
    assert shown.run("view.call('for_views', {n: 1}).then(view.data)") == 2
    shown.again(lambda: shown.select("Host", "specification"))
    assert shown.run("self.origin").startswith("http://127.0.0.1:")
