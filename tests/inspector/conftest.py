"""`ferrule dev` as a process, its page in a real browser, and its API without one."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKSHOP = Path(__file__).with_name("servers") / "workshop.py"
SHOTS = ROOT / "out" / "inspector"
LIMIT_S = 30.0
BROWSER_ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Dev:
    """A running inspector."""

    process: subprocess.Popen[str]
    url: str
    lines: list[str]

    @property
    def token(self) -> str:
        """From the printed address."""
        return self.url.partition("token=")[2]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(re.search(r":(\d+)/", self.url)[1])

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> tuple[int, bytes]:
        """A request as its page makes it, but for the headers given; ``None`` leaves one out."""
        sent: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "x_ferrule_token": self.token,
            "content_type": "application/json",
            **headers,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name.replace("_", "-"), value)
            if body is not None and "content_length" not in headers:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def call(self, action: str, **body: Any) -> Any:
        """An action that must work."""
        status, answer = self.request("POST", f"/api/{action}", json.dumps(body).encode())
        assert status == 200, answer
        return json.loads(answer)

    def events(self) -> Iterator[dict[str, Any]]:
        """The feed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request("GET", "/api/events", headers={"x-ferrule-token": self.token})
            response = connection.getresponse()
            assert response.status == 200
            while line := response.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()

    def job(self, job: str, op: str, connection: str = "main", **params: Any) -> Any:
        """Run a job to its end; its last event, with its outcome."""
        self.call("run", job=job, op=op, connection=connection, params=params)
        for event in self.events():
            if event["kind"] == "job" and event["key"] == job and event["state"] != "running":
                return event | self.call("outcome", job=job)
        raise AssertionError("the feed ended")


@contextmanager
def developing(target: str | Path, *options: str, cwd: Path | None = None, is_opened: bool = False) -> Iterator[Dev]:
    """Run ``ferrule dev``; it must end in an orderly way."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ferrule", "dev", str(target), *(() if is_opened else ("--no-open",)), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: list[str] = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"(http://127\.0\.0\.1:\d+/\?token=\S+)", line):
                yield Dev(process, found[1], lines)
                break
        else:
            raise AssertionError(f"ferrule dev did not start: {''.join(lines)}")
    finally:
        process.terminate()
        try:
            _, rest = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert process.returncode == 0, rest
        assert "Traceback" not in rest, rest


@contextmanager
def serving_http(path: Path, log: Path) -> Iterator[str]:
    """The server over HTTP; gives its URL."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "ferrule", "run", str(path), "--http", "--port", "0"],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            until = time.monotonic() + LIMIT_S
            while not (found := re.search(r"serving (http://\S+)", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.02)
            yield found[1]
        finally:
            process.terminate()
            process.wait(LIMIT_S)


@pytest.fixture(scope="session")
def http_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The workshop over HTTP."""
    with serving_http(WORKSHOP, tmp_path_factory.mktemp("http") / "log") as url:
        yield url


@pytest.fixture(scope="package")
def dev() -> Iterator[Dev]:
    """An inspector of the workshop, as a process."""
    with developing(WORKSHOP) as running:
        yield running


# -- a browser --------------------------------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests with a browser come last in this folder.

    Its driver occupies this thread's event loop until it is closed, so no other test may need one in between.
    """
    places = [at for at, item in enumerate(items) if item.path.is_relative_to(Path(__file__).parent)]
    ours = sorted((items[at] for at in places), key=lambda item: "browser" in getattr(item, "fixturenames", ()))
    for at, item in zip(places, ours, strict=True):
        items[at] = item


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Any]:
    """A headless browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (the dev group has it)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=BROWSER_ARGUMENTS)
        yield started
        started.close()


class Watched:
    """A page whose console and requests are noted.

    Attributes:
        page: playwright's.
        complaints: errors and warnings of the console, and uncaught exceptions.
        requests: every URL that was asked for.
    """

    def __init__(self, browser: Any, url: str, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1360, "height": 840}, **context})
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.origin = re.match(r"http://[^/]+", url)[0]
        self.page.goto(url)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def begin(self) -> None:
        """As it is when it was just opened, without the time that opening takes."""
        page = self.page
        while page.locator("dialog[open]").count():  # what a failed test left behind
            page.locator("dialog[open]").get_by_role("button").nth(1).click()
        page.evaluate("import('/drafts.js').then((drafts) => drafts.dropAllDrafts())")
        page.locator("#tab-tools").click()
        page.get_by_label("Filter tools").fill("")
        page.locator('.item[data-key="fails"]').click()
        page.get_by_role("button", name="Clear the messages").click()

    def shoot(self, name: str, **options: Any) -> None:
        """Keep a picture."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", **options)

    def check(self) -> None:
        """Check that the console is empty, and that only the inspector has received requests."""
        foreign = [url for url in self.requests if not url.startswith((f"{self.origin}/", f"blob:{self.origin}/"))]
        assert foreign == []
        assert self.complaints == []


@contextmanager
def watching(browser: Any, url: str, **context: Any) -> Iterator[Watched]:
    """Open the page; at the end no error may have occurred in it."""
    watched = Watched(browser, url, **context)
    try:
        yield watched
        watched.check()
    finally:
        watched.context.close()


@pytest.fixture(scope="package")
def opened(browser: Any, dev: Dev) -> Iterator[Watched]:
    """One page for many tests; most of a test's time would be its opening."""
    with watching(browser, dev.url) as made:
        made.page.wait_for_selector(".item")
        yield made


@pytest.fixture
def watched(opened: Watched) -> Iterator[Watched]:
    """A page; at its end the console must be empty, and only the inspector may have received requests."""
    opened.begin()
    yield opened
    try:
        opened.check()
    finally:
        opened.complaints.clear()
        opened.requests.clear()
