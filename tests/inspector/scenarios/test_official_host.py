"""Ferrule's views in a host made with the official package (`@modelcontextprotocol/ext-apps/app-bridge`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from examples.apps.chart import app as wave_app
from ferrule import Client
from ferrule.extensions.apps import CLIENT_SETTINGS
from ferrule.testing import AppHost

ORIGIN = "http://host.test"
LIMIT_MS = 60_000

# What the modules of the package import, as the browser needs it: they are loaded without a bundler.
IMPORTS = {
    "@modelcontextprotocol/client": "@modelcontextprotocol/client/dist/index.mjs",
    "@modelcontextprotocol/client/_shims": "@modelcontextprotocol/client/dist/shimsBrowser.mjs",
    "@modelcontextprotocol/core": "@modelcontextprotocol/core/dist/index.mjs",
    "@modelcontextprotocol/core/internal": "@modelcontextprotocol/core/dist/internal.mjs",
    "eventsource": "eventsource/dist/index.js",
    "eventsource-parser": "eventsource-parser/dist/index.js",
    "eventsource-parser/stream": "eventsource-parser/dist/stream.js",
    "pkce-challenge": "pkce-challenge/dist/index.browser.js",
    "zod/v4": "zod/v4/index.js",
}

HOST = """<!doctype html><script type="importmap">IMPORTMAP</script>
<iframe id=frame sandbox="allow-scripts" style="width: 500px; height: 40px"></iframe><script type="module">
import { AppBridge, PostMessageTransport } from "/ext-apps/dist/src/app-bridge.js";
const seen = window.seen = { sizes: [], links: [], errors: [] };
window.show = async (html, input, result) => {
  const bridge = window.bridge = new AppBridge(
    null, { name: "host", version: "1" }, { openLinks: {}, serverTools: {} },
    { hostContext: { theme: "light", availableDisplayModes: ["inline"], containerDimensions: { maxHeight: 900 } } });
  bridge.onerror = (error) => seen.errors.push(String(error));
  bridge.oncalltool = (params) => window.call(params.name, params.arguments);
  bridge.onopenlink = async ({ url }) => { seen.links.push(url); return {}; };
  bridge.onsizechange = (size) => { seen.sizes.push(size); frame.style.height = size.height + "px"; };
  bridge.oninitialized = () => {
    bridge.sendToolInput({ arguments: input });
    bridge.sendToolResult(result);
  };
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
};
window.isReady = true;
</script>"""


def _asked(function: Callable[[], Any]) -> Any:
    """What an asynchronous function returns; the driver of the browser occupies the event loop of this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, function).result()


@pytest.mark.peer
def test_the_example_works_in_a_host_of_the_official_package(
    browser: Any, ext_apps: Path, peer_node: tuple[str, Path]
) -> None:
    """The package checks each message of the view with schemas of its own."""
    modules = peer_node[1] / "node_modules"

    async def opened() -> tuple[str, Any]:
        async with Client(wave_app, extensions=CLIENT_SETTINGS) as client:
            view = await AppHost(client).open("wave", {"damping": 0.3})
            return view.html, view.result

    def call(name: str, arguments: dict[str, Any]) -> Any:
        async def called() -> Any:
            async with Client(wave_app, extensions=CLIENT_SETTINGS) as client:
                return (await AppHost(client).open(name, arguments)).result

        return _asked(called)

    def module(route: Any) -> None:
        path = route.request.url.removeprefix(ORIGIN)
        at = ext_apps / path[10:] if path.startswith("/ext-apps/") else modules / path.removeprefix("/modules/")
        route.fulfill(body=at.read_text(encoding="utf-8"), content_type="text/javascript")

    html, result = _asked(opened)
    shown = HOST.replace("IMPORTMAP", json.dumps({"imports": {name: f"/modules/{at}" for name, at in IMPORTS.items()}}))
    context = browser.new_context()
    context.set_default_timeout(LIMIT_MS)
    try:
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.expose_function("call", call)
        page.route(f"{ORIGIN}/**", module)
        page.route(f"{ORIGIN}/", lambda route: route.fulfill(body=shown, content_type="text/html"))
        page.goto(f"{ORIGIN}/")
        page.wait_for_function("window.isReady")
        page.evaluate("([html, input, result]) => show(html, input, result)", [html, {"damping": 0.3}, result])
        view = page.frame_locator("#frame")

        view.locator("#line[points]").wait_for(state="attached")
        before = view.locator("#line").get_attribute("points")
        assert view.locator("#damping").input_value() == "0.3"
        view.locator("#damping").fill("0.9")
        view.locator(f'#line:not([points="{before}"])').wait_for(state="attached")

        page.evaluate("bridge.sendHostContextChange({ theme: 'dark' })")
        view.locator("html[data-theme=dark]").wait_for(state="attached")
        page.wait_for_function("seen.sizes.some(({ width, height }) => width === 500 && height > 100)")

        page.frames[1].evaluate("view.openLink('https://x.example/')")
        assert page.evaluate("bridge.teardownResource({})") == {}
        assert page.evaluate("[seen.links, seen.errors]") == [["https://x.example/"], []]
        assert complaints == []
    finally:
        context.close()
