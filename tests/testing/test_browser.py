"""ferrule.testing.browser: pages of views run in a browser, beside the host of `ferrule.testing`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import Client, MCPServer
from ferrule.extensions.apps import CLIENT_SETTINGS
from ferrule.testing import AppHost, BrowserHost, app_host, launch_browser

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.anyio

VIEW = """<!doctype html><title>Board</title><script src="ferrule:view"></script>
<p id=said></p><button onclick="act()">Act</button><input id=name_of_day>
<script>
const say = (...values) => { said.textContent += JSON.stringify(values) + ";"; };
const view = mcpView({displayModes: ["inline", "fullscreen"]});
view.on("input", (given) => say("input", given));
view.on("result", (result) => say("result", view.data(result)));
BODY
</script>"""


def board(body: str = "", **options: Any) -> MCPServer[Any]:
    """A server with one page."""
    app: MCPServer[Any] = MCPServer("boards")

    @app.ui(VIEW.replace("BODY", body), **options)
    def board(days: int = 1) -> list[int]:
        return [20] * days

    @app.ui(visibility="app")
    def pick(day: int) -> str:
        return f"picked {day}"

    return app


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Playwright runs on asyncio; one loop for the browser of this file."""
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(chromium: str) -> AsyncIterator[Any]:
    """One browser for all tests of this file."""
    pytest.importorskip("playwright", reason="playwright is not installed (the dev group has it)")
    async with launch_browser(executable=chromium) as started:
        yield started


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
async def test_a_page_runs_and_its_click_calls_the_server(browser: Browser, mode: str) -> None:
    """From the click in the page to the function on the server, and back into the page."""
    act = "const act = async () => say(view.data(await view.call('pick', {day: +name_of_day.value})));"
    async with app_host(board(act), browser=browser, mode=mode) as host:
        view = await host.open("board", {"days": 2})
        await view.frame.get_by_text('["result",[20,20]]').wait_for()
        assert await view.text("#said") == '["input",{"days":2}];["result",[20,20]];'
        await view.fill("#name_of_day", "3")
        await view.click("button")
        await view.frame.get_by_text("picked 3").wait_for()
        calls = [each.body["params"] for each in view.messages if each.body.get("method") == "tools/call"]
        assert calls == [{"name": "pick", "arguments": {"day": 3}}]
        view.check()


async def test_the_host_takes_effect_in_the_page(browser: Browser) -> None:
    """Theme, partial input, cancellation: what the host sends reaches the handlers of the page, in order."""
    body = """
      for (const name of ["partial", "cancelled"]) view.on(name, (value) => say(name, value));
      view.on("context", ({theme}) => say(theme));
    """
    async with app_host(board(body), browser=browser, context={"theme": "dark"}) as host:
        view = await host.open("board")
        view.change_context(theme="light")
        view.notify("ui/notifications/tool-input-partial", {"arguments": {"days": 4}})
        view.cancel("no time")
        await view.frame.get_by_text("no time").wait_for()
        said = await view.text("#said")
        assert said.endswith('["light"];["partial",{"days":4}];["cancelled","no time"];')
        assert '["dark"]' in said
        assert await view.frame.evaluate("document.documentElement.dataset.theme") == "light"


async def test_what_the_page_says_is_there_for_the_test(browser: Browser) -> None:
    """Waited for, not looked at too early."""
    body = """const act = async () => {
      await view.openLink("https://x.example/");
      await view.setContext("two days", {days: 2});
      say(await view.displayMode("fullscreen"));
      await view.download([{type: "resource", resource: {uri: "file:///days.csv", mimeType: "text/csv", text: "day"}}]);
      view.log("done");
    };"""
    async with app_host(board(body), browser=browser) as host:
        view = await host.open("board")
        await view.click("button")
        assert await view.wait_until(lambda: view.logged) == [{"level": "info", "data": "done"}]
        assert [each["resource"]["text"] for each in view.downloads] == ["day"]
        assert view.links == ["https://x.example/"]
        assert view.model_context == {
            "content": [{"type": "text", "text": "two days"}],
            "structuredContent": {"days": 2},
        }
        assert (await view.text("#said")).endswith('["fullscreen"];')
        assert (await view.wait_until(lambda: view.size))[1] > 0
        view.check()


async def test_the_policy_is_that_of_the_server(browser: Browser) -> None:
    """What it allows is answered by the test; what it does not allow never leaves the browser, and is a finding."""
    body = """const act = async () => {
      say(await (await fetch("https://ok.example/tiles")).text());
      await fetch("https://" + "other.example/").catch(() => say("refused"));
    };"""
    app = board(body, csp={"connectDomains": ["https://ok.example"]})
    async with app_host(app, browser=browser) as host:

        async def tiles(route: Any) -> None:
            await route.fulfill(body="tiles", headers={"access-control-allow-origin": "*"})

        await host.browser_context.route("https://ok.example/**", tiles)
        view = await host.open("board")
        await view.click("button")
        await view.frame.get_by_text("refused").wait_for()
        assert "tiles" in await view.text("#said")
        [finding] = await view.wait_until(lambda: view.findings)
        assert (finding.kind, finding.text[:40]) == ("policy", "connect-src refused https://other.exampl")
        assert view.requests == ["https://ok.example/tiles"]


@pytest.mark.parametrize(("profile", "stored"), [("specification", "kept"), ("opaque", "none")])
async def test_a_stricter_host_gives_views_no_origin(browser: Browser, profile: str, stored: str) -> None:
    """Then there is no storage."""
    body = 'try { localStorage.x = "kept"; say(localStorage.x); } catch { say("none"); }'
    async with app_host(board(body), browser=browser, profile=profile) as host:
        view = await host.open("board")
        assert f'["{stored}"]' in await view.text("#said")
        view.check()


async def test_an_exception_of_the_page_is_a_finding(browser: Browser) -> None:
    """A page that shows nothing must not pass."""
    async with app_host(board("const act = () => { throw new Error('no day'); };"), browser=browser) as host:
        view = await host.open("board")
        await view.click("button")
        [finding] = await view.wait_until(lambda: view.findings)
        assert (finding.kind, finding.text) == ("script", "no day")


async def test_a_page_that_does_not_connect_says_why(browser: Browser) -> None:
    """Instead of a test that waits for an element of an empty frame."""
    app: MCPServer[Any] = MCPServer("x")

    @app.ui("<!doctype html><script>throw new Error('broken at once')</script>")
    def board() -> str:
        return "x"

    async with app_host(app, browser=browser) as host:
        with pytest.raises(TimeoutError, match="Findings: broken at once"):
            await host.open("board", timeout_s=1)


async def test_bad_messages_of_a_page_are_findings(browser: Browser) -> None:
    """The host goes on."""
    body = """
      for (const each of ["text", null, [1], 1n, {jsonrpc: "2.0", method: ["x"]}, {method: "ui/open", id: 1}])
        parent.postMessage(each, "*");
      const circle = {}; circle.self = circle; parent.postMessage(circle, "*");
      parent.postMessage({jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready"}, "*");
    """
    async with app_host(board(body), browser=browser) as host:
        view = await host.open("board")
        texts = [finding.text for finding in view.findings]
        assert texts.count("the view posted something that is not a message") == 5
        assert len(texts) == 7
        await view.frame.evaluate("ferruleTake('1')")  # what the driver gives every frame is not for views
        assert len(view.findings) == 7


async def test_a_closed_view_has_saved_what_it_has(browser: Browser) -> None:
    """The host waits for the handler, and asks once."""
    body = 'view.on("teardown", async () => { await view.setContext("saved"); });'
    async with app_host(board(body), browser=browser) as host:
        view = await host.open("board")
        await view.close()
        await view.close()
        assert view.model_context["content"][0]["text"] == "saved"
        assert view.is_over
        assert view.page.is_closed()
        assert len(view.received("ui/resource-teardown")) == 1
        view.check()


async def test_several_views_of_one_host(browser: Browser) -> None:
    """Each has its own page and messages."""
    async with app_host(board(), browser=browser) as host:
        first, second = await host.open("board", {"days": 1}), await host.open("board", {"days": 3})
        await second.frame.get_by_text("[20,20,20]").wait_for()
        assert "[20,20" not in await first.text("#said")
        assert isinstance(host, BrowserHost)
        with pytest.raises(LookupError, match="lists no tool 'x'"):
            await host.open("x")


async def test_without_a_browser_it_is_the_other_host(browser: Browser) -> None:
    """One function for both; a client that is connected may be given."""
    async with Client(board(), extensions=CLIENT_SETTINGS) as client, app_host(client) as host:
        assert type(host) is AppHost
        view = await host.open("board")
        await view.initialize()
        view.check()


SKIPPED = """
import pytest
from ferrule import MCPServer
from ferrule.testing import app_host

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_board():
    async with app_host(MCPServer("x"), browser=True) as host:
        raise AssertionError("not reached")
"""


@pytest.mark.parametrize(
    ("prelude", "environment", "said"),
    [
        ("import sys; sys.modules['playwright'] = None", {}, "1 skipped"),
        ("import sys; sys.modules['playwright'] = None", {"FERRULE_REQUIRE_BROWSER": "1"}, "1 failed"),
        pytest.param(
            "",
            {"PLAYWRIGHT_BROWSERS_PATH": "/nowhere"},
            "1 skipped",
            marks=pytest.mark.skipif(find_spec("playwright") is None, reason="Playwright is not installed"),
        ),
    ],
)
async def test_without_a_browser_tests_are_skipped(
    tmp_path: Path, prelude: str, environment: dict[str, str], said: str
) -> None:
    """With the reason; or fail, where the environment says that there is one."""
    (tmp_path / "test_board.py").write_text(prelude + "\n" + SKIPPED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", "test_board.py"],
        cwd=tmp_path,
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert said in done.stdout, done.stdout
    reason = "pip install 'ferrule[browser]'" if prelude else "run `playwright install chromium`"
    assert reason in done.stdout
