"""`app_host`: a host of views for tests, without a browser or with one, in which the script of a page runs.

The browser is Chromium, driven by Playwright. The page of a view is shown as a host on the web does: in a frame of the
proxy page, on an origin of its own, with the Content Security Policy that the server declares. Nothing is loaded from
the network: both origins, and all else that a page asks for, are answered in this process.

Playwright runs on asyncio.

Source: MCP Apps 2026-01-26, "Sandbox proxy".
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload
from unittest import SkipTest

from ferrule.client.client import Client
from ferrule.extensions.apps.extension import CLIENT_SETTINGS
from ferrule.extensions.apps.opening import FindingKind
from ferrule.extensions.apps.sandbox.profiles import allow_attribute, policy_header
from ferrule.extensions.apps.sandbox.proxy import proxy_page, proxy_policy, report_of
from ferrule.testing.apps import AppHost
from ferrule.testing.hosted_views import HostedView
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_object

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Error, Frame, Page, Route

__all__ = ["BrowserHost", "BrowserView", "NoBrowser", "app_host", "launch_browser"]

ValueT = TypeVar("ValueT")

# Two origins of one site: a browser without third-party cookies gives the views of another site no storage.
HOST_ORIGIN: Final = "https://host.mcp.test"
VIEW_ORIGIN: Final = "https://view.mcp.test"
REQUIRED: Final = "FERRULE_REQUIRE_BROWSER"
NAMED: Final = "FERRULE_CHROMIUM"
LIMIT_S: Final = 30.0
TEARDOWN_S: Final = 5.0

_SANDBOX: Final = "ui/notifications/sandbox-"
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


class NoBrowser(SkipTest):
    """There is no browser to test with: pytest and unittest skip the test, with the reason."""


# -- the browser -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def launch_browser(*, executable: str | None = None, headless: bool = True) -> AsyncGenerator[Browser]:
    """Run a Chromium, for all tests of a session: ``app_host(app, browser=browser)``.

    Args:
        executable: its path. If not given: the environment variable ``FERRULE_CHROMIUM``, else the browser that
            ``playwright install chromium`` installed, else a Chromium or Chrome on ``PATH``.
        headless: without a window.

    Raises:
        NoBrowser: there is none, or Playwright is not installed.
        RuntimeError: the same, with ``FERRULE_REQUIRE_BROWSER`` in the environment.
    """
    try:
        from playwright.async_api import async_playwright
    except ImportError as error:
        raise _missing("Playwright is not installed: pip install 'ferrule[browser]'") from error
    async with async_playwright() as driver:
        path = executable or _chromium(driver.chromium.executable_path)
        if path is None:
            raise _missing(f"there is no Chromium: run `playwright install chromium`, or name one in {NAMED}")
        browser = await driver.chromium.launch(executable_path=path, headless=headless)
        try:
            yield browser
        finally:
            await browser.close()


def _missing(reason: str) -> Exception:
    return RuntimeError(reason) if os.environ.get(REQUIRED) else NoBrowser(reason)


def _chromium(installed: str) -> str | None:
    named = os.environ.get(NAMED)
    if named:
        return named
    if Path(installed).exists():
        return installed
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


# -- the host ----------------------------------------------------------------------------------------------------------


@overload
def app_host(
    target: Any, *, browser: Literal[False] = False, mode: str = "auto", **host: Any
) -> AbstractAsyncContextManager[AppHost]: ...
@overload
def app_host(
    target: Any, *, browser: Browser | Literal[True], mode: str = "auto", **host: Any
) -> AbstractAsyncContextManager[BrowserHost]: ...
@asynccontextmanager
async def app_host(
    target: Any, *, browser: Browser | bool = False, mode: str = "auto", **host: Any
) -> AsyncGenerator[Any]:
    """Connect to a server as a host of views, for the time of an ``async with``.

    Args:
        target: what `Client` takes: an `MCPServer`, a URL, a command; or a connected `Client`, made with
            ``extensions=CLIENT_SETTINGS``.
        browser: show the pages in a browser: ``True`` to start one, or one that is running (`launch_browser`).
        mode: that of the `Client`, which settles the era.
        host: the other arguments of `AppHost`.

    Raises:
        NoBrowser: there is no browser, which skips the test.
    """
    async with AsyncExitStack() as stack:
        # First: without a browser the test is skipped, whatever the server does.
        shown_by = None
        if browser is True:
            shown_by = await stack.enter_async_context(launch_browser())
        elif browser is not False:
            shown_by = browser
        client = target
        if not isinstance(target, Client):
            client = await stack.enter_async_context(Client(target, mode=mode, extensions=CLIENT_SETTINGS))
        if shown_by is None:
            yield AppHost(client, **host)
            return
        context = await shown_by.new_context()
        stack.push_async_callback(context.close)
        await context.route("**/*", lambda route: route.abort())
        made = BrowserHost(client, context, **host)
        stack.push_async_callback(made.stop)
        yield made


class BrowserHost(AppHost):
    """A host of views that shows them in a browser.

    Args:
        client: a connected client, made with ``extensions=CLIENT_SETTINGS``.
        browser_context: Playwright's; `app_host` makes one.
        options: the arguments of `AppHost`.

    Attributes:
        browser_context: Playwright's context of all views. What a page may load is answered by the test:
            ``await host.browser_context.route("https://tiles.example/**", …)``; all else fails as without a network.
    """

    def __init__(self, client: Client, browser_context: BrowserContext, **options: Any) -> None:
        super().__init__(client, **options)
        self.browser_context = browser_context
        self._views: list[BrowserView] = []

    async def stop(self) -> None:
        """End what is being done for views; `app_host` does it."""
        for view in self._views:
            await view.stop()

    async def open(  # type: ignore[override]
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float = LIMIT_S
    ) -> BrowserView:
        """Return the view of a tool when its script has connected; see `AppHost.open`.

        Args:
            timeout_s: seconds that it may take.

        Raises:
            LookupError: there is no such tool, or it has no page.
            TimeoutError: the page has not connected; with what went wrong in it.
        """
        view = BrowserView(self, await self.listed(tool), tool, dict(arguments or {}))
        self._views.append(view)
        await view.load()
        await view.show()
        await view.wait_until(lambda: view.is_initialized, timeout_s=timeout_s)
        return view


class BrowserView(HostedView):
    """A view in a browser; see `HostedView` for what the host knows of it.

    Attributes:
        page: Playwright's page, which is the host's.
        frame: Playwright's frame, which is the view's: ``view.frame.get_by_role("button", name="Save")``.
        requests: the URLs that the view asked for and that its policy allows.
    """

    host: BrowserHost
    page: Page

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.requests: list[str] = []
        self._outgoing: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._delivery: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    # -- what a test does --------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The frame of the view's document."""
        return self.page.main_frame.child_frames[0].child_frames[0]

    async def click(self, selector: str) -> None:
        """Click an element of the view, when it is there."""
        await self.frame.locator(selector).click()

    async def fill(self, selector: str, value: str) -> None:
        """Fill in a field of the view, when it is there."""
        await self.frame.locator(selector).fill(value)

    async def text(self, selector: str = "body") -> str:
        """Return the text of an element of the view, as a reader sees it, when it is there."""
        return await self.frame.locator(selector).inner_text()

    async def wait_until(self, found: Callable[[], ValueT], *, timeout_s: float = LIMIT_S) -> ValueT:
        """Wait until something is there, such as ``lambda: view.model_context``; return it.

        It is looked for again after each message, and after each finding.

        Raises:
            TimeoutError: it has not come, with the messages and findings so far.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not (value := found()):
                    await self._changed.wait()
        except TimeoutError:
            methods = ", ".join(f"{each.sender}: {each.body.get('method', 'answer')}" for each in self.messages[-20:])
            problems = "; ".join(finding.text for finding in self.findings) or "none"
            raise TimeoutError(
                f"nothing within {timeout_s:g} s. Last messages: {methods or 'none'}. Findings: {problems}"
            ) from None
        return value

    async def close(self) -> None:
        """Remove the view, when it has answered ``ui/resource-teardown``; at the latest after five seconds."""
        if self.is_over:
            return
        await super().close()
        asked = self.messages[-1].body["id"]
        try:
            await self.wait_until(lambda: self._is_answered(asked), timeout_s=TEARDOWN_S)
        except TimeoutError:
            self._find("message", f"view: no answer to ui/resource-teardown within {TEARDOWN_S:g} s")
        await self.stop()
        await self.page.close()

    def _is_answered(self, id: Any) -> bool:
        return any(
            each.sender == "view" and "method" not in each.body and each.body.get("id") == id for each in self.messages
        )

    # -- between the browser and the host ----------------------------------------------------------------------------

    async def show(self) -> None:
        """Show the page in the browser; `BrowserHost.open` does it."""
        self.page = await self.host.browser_context.new_page()
        self.page.on("pageerror", self._take_error)
        self.page.on("request", lambda request: self._take_request(request.url))
        await self.page.expose_binding("ferruleTake", self._take)  # pyright: ignore[reportUnknownMemberType]
        await self.page.route(f"{HOST_ORIGIN}/**", self._serve_host)
        await self.page.route(f"{VIEW_ORIGIN}/**", self._serve_view)
        await self.page.goto(f"{HOST_ORIGIN}/")

    async def _serve_host(self, route: Route) -> None:
        allow = allow_attribute(self.policy)
        body = _host_page().replace("ALLOW", allow).replace("VIEWS", VIEW_ORIGIN)
        await route.fulfill(body=body, content_type="text/html; charset=utf-8")

    async def _serve_view(self, route: Route) -> None:
        if route.request.url == f"{VIEW_ORIGIN}/report":
            self._take_report(route.request.post_data_buffer or b"")
            await route.fulfill(status=204, headers={"cross-origin-resource-policy": "cross-origin"})
        elif route.request.url == f"{VIEW_ORIGIN}/" and route.request.is_navigation_request():
            policy = policy_header(self.policy, self.host.profile)
            header = proxy_policy(policy, [HOST_ORIGIN], f"{VIEW_ORIGIN}/report")
            await route.fulfill(
                body=proxy_page([HOST_ORIGIN]),
                content_type="text/html; charset=utf-8",
                headers={"content-security-policy": header},
            )
        else:
            await route.abort()

    def _take_report(self, body: bytes) -> None:
        facts = report_of(body)
        if facts is not None:
            where = f" (line {facts['line']})" if "line" in facts else ""
            self._find("policy", f"{facts.get('directive')} refused {facts.get('blocked')}{where}")

    def _take_error(self, error: Error) -> None:
        self._find("script", error.message)

    def _take_request(self, url: str) -> None:
        if not url.startswith((HOST_ORIGIN, VIEW_ORIGIN, "data:", "blob:")):
            self.requests.append(url)

    def _find(self, kind: FindingKind, text: str) -> None:
        super()._find(kind, text)
        self._touch()

    def _touch(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _post(self, body: dict[str, Any]) -> None:
        super()._post(body)
        self._put(self.messages[-1].body)

    def _put(self, message: Mapping[str, Any]) -> None:
        self._outgoing.append(encode(message).decode())
        if self._delivery is None or self._delivery.done():
            self._delivery = self._start(self._deliver())
        self._touch()

    async def _deliver(self) -> None:
        while self._outgoing:
            await self.page.evaluate("text => post(text)", self._outgoing.pop(0))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """End what is being done for the view; `BrowserHost.stop` does it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, source: Any, text: str) -> None:
        """Take what the view posted."""
        if source["frame"] is not self.page.main_frame:
            return  # the view itself has the function too
        try:
            message: Any = decode(text.encode())
        except (DecodeError, UnicodeEncodeError):
            message = None
        if not is_object(message):
            self._find("message", "the view posted something that is not a message")
        elif message.get("method") == f"{_SANDBOX}proxy-ready":
            self._send_document()
        elif not str(message.get("method")).startswith(_SANDBOX):
            self._start(self._serve_message(message))

    async def _serve_message(self, message: dict[str, Any]) -> None:
        try:
            await self.send(message)
        except Exception as error:
            self._find("message", f"host: {message.get('method')} failed: {error!r}")
            if "id" in message:
                self._answer(message["id"], error={"code": -32603, "message": "Internal error"})
        self._touch()

    def _send_document(self) -> None:
        params = {
            "html": self.html,
            "sandbox": self.host.profile.sandbox,
            "allow": allow_attribute(self.policy, has_origin=self.host.profile.has_origin),
            **{name: value for name, value in self.policy.meta().items() if name in ("csp", "permissions")},
        }
        self._put({"jsonrpc": "2.0", "method": f"{_SANDBOX}resource-ready", "params": params})


@cache
def _host_page() -> str:
    return Path(__file__).with_name("host.html").read_text(encoding="utf-8")
