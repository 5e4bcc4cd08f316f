"""Pages of tools in a browser: the host of `ferrule.testing` serves and checks the messages of their scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from ferrule import Client
from ferrule.extensions.apps import CLIENT_SETTINGS
from ferrule.testing import AppHost, AppView

ORIGIN = "http://host.test"
LIMIT_MS = 60_000

HOST = """<!doctype html><iframe id=frame sandbox="allow-scripts" style="width: 500px; height: 300px"></iframe><script>
const post = (message) => frame.contentWindow.postMessage(message, "*");
addEventListener("message", async ({source, data}) => {
  if (source !== frame.contentWindow) return;
  for (const message of await serve(data)) post(message);
});
</script>"""


class Shown:
    """A tool's page in a browser; the messages of its script are served by a host of `ferrule.testing`.

    Args:
        browser: playwright's.
        app: the server.
        tool: the tool that has a page.
        arguments: of the call.
    """

    def __init__(self, browser: Any, app: Any, tool: str, arguments: dict[str, Any], **host: Any) -> None:
        self._app, self._tool, self._arguments, self._host = app, tool, arguments, host
        # The driver of the browser occupies the event loop of this thread.
        self._thread = ThreadPoolExecutor(1)
        self.view: AppView = self._run(self._open)
        self._seen = len(self.view.messages)
        self.context = browser.new_context()
        self.context.set_default_timeout(LIMIT_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.expose_function("serve", self._serve)
        self.page.route(f"{ORIGIN}/", lambda route: route.fulfill(body=HOST, content_type="text/html"))
        self.page.goto(f"{ORIGIN}/")
        self.page.evaluate("html => { frame.srcdoc = html; }", self.view.html)
        self.frame = self.page.frame_locator("#frame")

    def _run(self, function: Any, *arguments: Any) -> Any:
        return self._thread.submit(anyio.run, function, *arguments).result()

    async def _open(self) -> AppView:
        async with Client(self._app, extensions=CLIENT_SETTINGS) as client:
            return await AppHost(client, **self._host).open(self._tool, self._arguments)

    def _serve(self, message: Any) -> list[Any]:
        async def serve() -> None:
            async with Client(self._app, extensions=CLIENT_SETTINGS) as client:
                self.view.host.client = client
                await self.view.send(message)

        self._run(serve)
        return self.new_messages()

    def new_messages(self) -> list[Any]:
        """The messages of the host that the page did not get yet."""
        new = self.view.messages[self._seen :]
        self._seen = len(self.view.messages)
        return [each.body for each in new if each.sender == "host"]

    def wait_for_view(self, found: Callable[[], Any]) -> Any:
        """What the host knows of the view, when it knows it."""
        until = time.monotonic() + LIMIT_MS / 1000
        while found() is None:
            assert time.monotonic() < until
            self.page.wait_for_timeout(20)  # serves the messages of the page
        return found()

    def close(self) -> None:
        """Check that nothing went wrong, and close the page."""
        try:
            self.view.check()
            assert self.complaints == []
        finally:
            self.context.close()
            self._thread.shutdown()


@pytest.fixture
def shown(browser: Any) -> Iterator[Any]:
    """Opens pages of tools."""
    made: list[Shown] = []

    def show(app: Any, tool: str, arguments: dict[str, Any] | None = None, **host: Any) -> Shown:
        made.append(Shown(browser, app, tool, arguments or {}, **host))
        return made[-1]

    yield show
    for each in made:
        each.close()
