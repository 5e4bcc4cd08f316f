"""The script of views (`ferrule.extensions.apps`) in a real browser, beside a host that the test writes down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ferrule.extensions.apps.dialect import problems_of
from ferrule.extensions.apps.packaging import package
from ferrule.extensions.apps.policy import make_policy

ORIGIN = "http://host.test"
LIMIT_MS = 60_000

HOST = """<!doctype html><iframe id=frame style="width: 400px; height: 100px"></iframe><script>
const log = [], answers = ANSWERS;
const post = (message) => frame.contentWindow.postMessage({jsonrpc: "2.0", ...message}, "*");
addEventListener("message", ({source, data}) => {
  if (source !== frame.contentWindow) return;
  log.push(data);
  if (data.method && data.id !== undefined && answers[data.method]) post({id: data.id, ...answers[data.method]});
});
</script>"""

CONTEXT = {
    "theme": "dark",
    "locale": "de-AT",
    "styles": {
        "variables": {"--color-text-primary": "rgb(1, 2, 3)"},
        "css": {"fonts": "@font-face { font-family: x }"},
    },
    "displayMode": "inline",
    "availableDisplayModes": ["inline", "fullscreen"],
}
INITIALIZED = {
    "result": {
        "protocolVersion": "2026-01-26",
        "hostInfo": {"name": "host", "version": "1"},
        "hostCapabilities": {"serverTools": {}, "openLinks": {}},
        "hostContext": CONTEXT,
    }
}
PAGE = """<!doctype html><title>My view</title><script src="ferrule:view"></script><p id=said></p><script>
const say = (...values) => { said.textContent += JSON.stringify(values) + ";"; };
const view = mcpView({displayModes: ["inline", "fullscreen"]});
BODY
</script>"""


class Hosted:
    """A view in its host."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frame = page.frame_locator("#frame")

    def post(self, method: str, params: Any, **more: Any) -> None:
        self.page.evaluate("post", {"method": method, "params": params, **more})

    def sent(self, method: str | None = None) -> list[dict[str, Any]]:
        """The messages of the view, those of a method if one is given; each must fit the dialect."""
        messages = self.page.evaluate("log")
        for message in messages:
            if "method" in message:
                assert problems_of(message, "view") == []
        return [each for each in messages if method is None or each.get("method") == method]

    def wait_for(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        """The messages of a method, when there are so many."""
        self.page.wait_for_function(
            "([method, count]) => log.filter((each) => each.method === method).length >= count", arg=[method, count]
        )
        return self.sent(method)

    def says(self, text: str) -> None:
        """Wait until the view has said something."""
        self.frame.locator("#said").filter(has_text=text).wait_for()


@pytest.fixture
def hosted(browser: Any) -> Any:
    """Opens views in a page of their own."""

    @contextmanager
    def open_view(body: str, sandbox: str = "allow-scripts", **answers: Any) -> Iterator[Hosted]:
        context = browser.new_context()
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        given = {"ui/initialize": INITIALIZED, **{name.replace("__", "/"): each for name, each in answers.items()}}
        html = HOST.replace("ANSWERS", json.dumps(given))
        page.route(f"{ORIGIN}/", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(f"{ORIGIN}/")
        document = package(PAGE.replace("BODY", body), make_policy(), label="page").html
        page.evaluate("([html, sandbox]) => { frame.sandbox = sandbox; frame.srcdoc = html; }", [document, sandbox])
        try:
            made = Hosted(page)
            yield made
            made.sent()
            assert complaints == []
        finally:
            context.close()

    return open_view


def test_the_handshake_theme_and_size(hosted: Any) -> None:
    """The view says what it is and how large it is; it looks as the host says."""
    with hosted("view.ready.then(() => say(view.host.hostInfo.name, view.context.theme));") as view:
        view.says('["host","dark"];')
        [first] = view.sent("ui/initialize")
        assert first["params"] == {
            "protocolVersion": "2026-01-26",
            "appInfo": {"name": "My view", "version": "1.0.0"},
            "appCapabilities": {"availableDisplayModes": ["inline", "fullscreen"]},
        }
        view.wait_for("ui/notifications/initialized")
        [size, *_] = view.wait_for("ui/notifications/size-changed")
        assert size["params"]["width"] == 400
        root = view.frame.locator("html")
        assert root.get_attribute("data-theme") == "dark"
        assert root.get_attribute("lang") == "de-AT"
        assert root.evaluate("e => getComputedStyle(e).getPropertyValue('--color-text-primary')") == "rgb(1, 2, 3)"
        assert root.evaluate("e => getComputedStyle(e).colorScheme") == "dark"
        assert root.evaluate("e => [...document.head.children].at(-1).textContent") == CONTEXT["styles"]["css"]["fonts"]
        view.post("ui/notifications/host-context-changed", {"theme": "light", "containerDimensions": {"height": 50}})
        view.frame.locator("html[data-theme=light]").wait_for()
        assert root.evaluate("e => e.style.height") == "100vh"
        before = len(view.sent("ui/notifications/size-changed"))
        view.frame.locator("#said").evaluate("e => { e.style.height = '500px'; }")
        sizes = view.wait_for("ui/notifications/size-changed", before + 1)
        assert sizes[-1]["params"]["height"] > 500


def test_input_and_result_reach_handlers_also_late_ones(hosted: Any) -> None:
    """The host may be faster than a page that still loads its data."""
    with hosted("""
        for (const name of ["partial", "input", "result", "cancelled"]) view.on(name, (value) => say(name, value));
        view.on("result", () => { throw new Error("a mistake of the page"); });
        view.on("result", (result) => say("data", view.data(result)));
        addEventListener("click", () => view.on("input", (value) => say("late", value)));
    """) as view:
        view.wait_for("ui/notifications/initialized")
        view.post("ui/notifications/tool-input-partial", {"arguments": {"days": 1}})
        view.post("ui/notifications/tool-input", {"arguments": {"days": 12}})
        view.says('["partial",{"days":1}];["input",{"days":12}];')
        view.post("ui/notifications/tool-result", {"content": [{"type": "text", "text": "[1]"}]})
        view.says('["data",[1]];')
        view.post("ui/notifications/tool-cancelled", {"reason": "user"})
        view.says('["cancelled","user"];')
        view.frame.locator("html").dispatch_event("click")
        view.says('["late",{"days":12}];')


RESULTS = [
    ({"structuredContent": {"a": 1}, "content": []}, '{"a":1}'),
    ({"structuredContent": {"result": [1]}, "content": []}, "[1]"),
    ({"structuredContent": [1], "content": []}, "[1]"),
    ({"structuredContent": 0, "content": []}, "0"),
    ({"structuredContent": None, "content": []}, "null"),
    ({"content": [{"type": "text", "text": "plain"}]}, '"plain"'),
    ({"content": [{"type": "text", "text": "wrong"}], "isError": True}, '"Error: wrong"'),
    ({"content": []}, '""'),
]


def test_the_data_of_results_of_every_revision(hosted: Any) -> None:
    """Structured content is any value, an object around it, or there is only text."""
    body = "view.on('result', (r) => { try { say(view.data(r)); } catch (error) { say(String(error)); } });"
    with hosted(body) as view:
        view.wait_for("ui/notifications/initialized")
        for result, _ in RESULTS:
            view.post("ui/notifications/tool-result", result)
        view.says("".join(f"[{said}];" for _, said in RESULTS))


def test_requests_of_the_view(hosted: Any) -> None:
    """Each with its answer or its error."""
    done: dict[str, Any] = {"result": {}}
    with hosted(
        """
        (async () => {
          const result = await view.call("add", {a: 1});
          say(view.data(result));
          await view.openLink("https://x.example");
          await view.message("hi");
          await view.setContext("chosen", {day: 1});
          await view.setContext([{type: "text", text: "x"}]);
          say(await view.displayMode("pip"), await view.displayMode("fullscreen"), view.context.displayMode);
          await view.read("ui://x").catch((error) => say(error.message));
          view.log({a: 1}, "warning");
          view.close();
          const controller = new AbortController();
          const waiting = view.call("slow", {}, {signal: controller.signal}).catch((error) => say(error.name));
          setTimeout(() => controller.abort(), 10);
          await waiting;
          say("end");
        })();
        """,
        **{
            "ui__open-link": done,
            "ui__message": done,
            "ui__update-model-context": done,
            "ui__request-display-mode": {"result": {"mode": "fullscreen"}},
        },
    ) as view:
        [call] = view.wait_for("tools/call")
        assert call["params"] == {"name": "add", "arguments": {"a": 1}}
        view.page.evaluate("post", {"id": call["id"], "result": {"content": [], "structuredContent": 3}})
        view.says("[3];")
        view.says(
            '["inline","fullscreen","fullscreen"];["The host does not offer serverResources"];["AbortError"];["end"];'
        )
        assert view.sent("ui/open-link")[0]["params"] == {"url": "https://x.example"}
        assert view.sent("ui/message")[0]["params"] == {"role": "user", "content": [{"type": "text", "text": "hi"}]}
        contexts = [each["params"] for each in view.sent("ui/update-model-context")]
        assert contexts[0] == {"content": [{"type": "text", "text": "chosen"}], "structuredContent": {"day": 1}}
        assert contexts[1]["content"] == [{"type": "text", "text": "x"}]
        assert view.sent("notifications/message")[0]["params"] == {"level": "warning", "data": {"a": 1}}
        assert len(view.sent("ui/notifications/request-teardown")) == 1
        [_, slow] = view.sent("tools/call")
        assert view.sent("notifications/cancelled")[0]["params"] == {"requestId": slow["id"]}


def test_tools_of_a_mounted_server_are_called_by_their_outer_names(hosted: Any) -> None:
    """The server writes the prefix into the page."""
    with hosted("window.mcpPrefix = 'm_w_'; view.call('add');") as view:
        [call] = view.wait_for("tools/call")
        assert call["params"] == {"name": "m_w_add", "arguments": {}}


def test_an_error_of_the_host_is_an_exception(hosted: Any) -> None:
    """With its code."""
    body = "view.openLink('x').catch((error) => say(error.message, error.code));"
    with hosted(body, **{"ui__open-link": {"error": {"code": -32000, "message": "denied"}}}) as view:
        view.says('["denied",-32000];')


def test_requests_of_the_host_are_answered(hosted: Any) -> None:
    """A teardown waits for what the page still has to do."""
    with hosted(
        "view.on('teardown', () => new Promise((done) => setTimeout(() => { say('saved'); done(); }, 20)));"
    ) as view:
        view.wait_for("ui/notifications/initialized")
        view.page.evaluate(
            """() => { post({id: "a", method: "ping"}); post({id: "b", method: "tools/list", params: {}});
            post({id: 0, method: "ui/resource-teardown", params: {}}); }"""
        )
        view.page.wait_for_function("log.filter((each) => !each.method).length === 3")
        answers = {each["id"]: each for each in view.sent() if "method" not in each}
        assert answers["a"]["result"] == answers[0]["result"] == {}
        assert answers["b"]["error"]["code"] == -32601
        view.says('["saved"];')


@pytest.mark.parametrize("sandbox", ["allow-scripts", "allow-scripts allow-same-origin"])
def test_state_is_kept_by_the_id_of_the_view(hosted: Any, sandbox: str) -> None:
    """In the storage of the frame's origin; a frame without an origin keeps it as long as it is open."""
    body = "view.on('result', () => { say(view.state); view.save({n: (view.state?.n ?? 0) + 1}); say(view.state); });"
    with hosted(body, sandbox) as view:
        view.wait_for("ui/notifications/initialized")
        for _ in range(2):
            view.post("ui/notifications/tool-result", {"content": [], "_meta": {"viewUUID": "a"}})
        view.says('[null];[{"n":1}];[{"n":1}];[{"n":2}];')
        if "same-origin" in sandbox:
            assert view.page.evaluate("localStorage.getItem('mcp-view:a')") == '{"n":2}'


def test_messages_of_others_are_ignored(hosted: Any) -> None:
    """Only the host may speak to the view, and only in JSON-RPC."""
    with hosted("view.on('input', (value) => say(value));") as view:
        view.wait_for("ui/notifications/initialized")
        view.frame.locator("html").evaluate(
            "() => postMessage({jsonrpc: '2.0', method: 'ui/notifications/tool-input', params: {arguments: 1}})"
        )
        view.page.evaluate(
            "() => { frame.contentWindow.postMessage('x', '*'); frame.contentWindow.postMessage({}, '*'); }"
        )
        view.post("ui/notifications/unknown", {})
        view.post("ui/notifications/tool-input", {"arguments": {"a": 1}})
        view.says('[{"a":1}];')
        assert view.frame.locator("#said").text_content() == '[{"a":1}];'
