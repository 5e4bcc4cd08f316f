"""Numbers as they were written: in arguments, results, tables and messages, over stdio and HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.inspector.conftest import Dev, developing, watching
from tests.inspector.scenarios.test_page import choose, finished, press, result_tab
from tests.inspector.servers.odd_numbers import ROWS, answer

SERVER = Path(__file__).parents[1] / "servers" / "odd_numbers.py"
TEXTS = ["1.0", "1e400", "0.10000000000000000555"]
ARGUMENTS = '{"n":1e400,"m":9007199254740993,"k":[0.10,-0.0]}'


@pytest.fixture(scope="module")
def numbers() -> Iterator[Dev]:
    """An inspector of the server over stdio."""
    with developing(f"{sys.executable} {SERVER}") as running:
        yield running


def call(dev: Dev, tool: str, arguments: str = "{}") -> str:
    """The text of an outcome."""
    body = f'{{"job":"{tool}-{len(arguments)}","op":"call","params":{{"tool":"{tool}","arguments":{arguments}}}}}'
    assert dev.request("POST", "/api/run", body.encode())[0] == 200
    job = json.loads(body)["job"]
    for event in dev.events():
        if event["kind"] == "job" and event["key"] == job and event["state"] != "running":
            break
    return dev.request("POST", "/api/outcome", json.dumps({"job": job}).encode())[1].decode()


def test_arguments_reach_the_server_as_they_were_written(numbers: Dev) -> None:
    """The server gets the text of each number."""
    sent = json.loads(call(numbers, "echo", ARGUMENTS))["outcome"]["result"]["content"][0]["text"]
    assert f'"arguments":{ARGUMENTS}' in sent


def test_a_result_has_the_text_that_the_server_wrote(numbers: Dev) -> None:
    """A number beyond a double is no failure of the inspector."""
    found = call(numbers, "rows")
    assert f'"structuredContent":{{"rows":{ROWS}}}' in found
    assert json.loads(found)["state"] == "done"


@pytest.fixture
def over_http() -> Iterator[str]:
    """The URL of the same server over HTTP, as one of the handshake era."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            line = self.rfile.read(int(self.headers["content-length"])).decode()
            message = json.loads(line)
            result = answer(message["method"], message.get("params"), line) if "id" in message else None
            if "id" not in message:
                status, body = 202, b""
            elif result is None:
                status, body = 200, b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"x"}}' % message["id"]
            else:
                status, body = 200, b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (message["id"], result.encode())
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    server.shutdown()
    thread.join()
    server.server_close()


def test_over_http_arguments_keep_their_text(over_http: str) -> None:
    """And the message is shown as it was sent."""
    with developing(over_http) as dev:
        sent = json.loads(call(dev, "echo", ARGUMENTS))["outcome"]["result"]["content"][0]["text"]
        assert f'"arguments":{ARGUMENTS}' in sent


def test_the_page_shows_and_sends_the_text_of_numbers(browser: Any, numbers: Dev) -> None:
    """In the table, in JSON, in the raw result and in the form."""
    with watching(browser, numbers.url) as watched:
        page = watched.page
        page.wait_for_selector(".item")
        choose(page, "rows")
        press(page, "Call")
        finished(page)
        assert page.locator("#view-tools tbody td.number").all_inner_texts() == TEXTS
        for tab in ("Structured", "Raw"):
            result_tab(page, tab)
            shown = page.locator("#view-tools .job-outcome .json-number").all_inner_texts()
            assert [text for text in shown if text in TEXTS] == TEXTS
        choose(page, "echo")
        page.get_by_label("n", exact=True).fill("1.10")
        page.get_by_label("m", exact=True).fill("12345678901234567890")
        press(page, "Call")
        assert '"arguments":{"n":1.10,"m":12345678901234567890}' in finished(page)
