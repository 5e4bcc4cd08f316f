"""Documents from files, URLs and values, and those that they refer to: all of them bounded."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ferrule.expose import documents
from ferrule.expose.description.reader import Description, NotADescription
from ferrule.expose.documents import load_document
from ferrule.expose.openapi import read_openapi
from tests.expose.documents import document


class Site:
    """A web server on loopback; ``pages`` are its bodies, ``redirects`` where a path leads."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                if self.path in site.redirects:
                    self.send_response(302)
                    self.send_header("location", site.redirects[self.path])
                    self.end_headers()
                    return
                body = site.pages.get(self.path)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def referring(reference: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
    return document({"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}})


def problem(description: Description) -> str:
    """Return why the operation of a document cannot be offered; empty where it can."""
    if description.skipped:
        return description.skipped[0].reason
    try:
        description.operations[0].schemas()
    except ValueError as error:
        return str(error)
    return ""


# -- one document ------------------------------------------------------------------------------------------------------


def test_a_document_is_a_value_a_text_bytes_a_file_or_a_url(tmp_path: Path, site: Site) -> None:
    given = document({"/x": {"get": {}}})
    text = json.dumps(given)
    file = tmp_path / "openapi.json"
    file.write_text(text)
    site.pages["/openapi.json"] = text.encode()
    for source in (given, text, text.encode(), file, str(file), f"{site.url}/openapi.json"):
        assert load_document(source)[0] == given
    yaml = "openapi: 3.1.0\ninfo: {title: Test, version: '1'}\npaths: {/x: {get: {}}}\n"
    assert load_document(yaml)[0] == given
    assert load_document(b"\xef\xbb\xbf" + text.encode())[0] == given


def test_yaml_becomes_what_json_would_have() -> None:
    found, _ = load_document("a: 2020-01-01\nresponses: {200: x, true: y, null: z}\nb: &b {c: 1}\nd: {<<: *b, e: 2}\n")
    assert found == {
        "a": "2020-01-01",
        "responses": {"200": "x", "true": "y", "null": "z"},
        "b": {"c": 1},
        "d": {"c": 1, "e": 2},
    }


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)),
        "a: &a\n  b: *a\n",
        "a:\n" + "".join(" " * n + "- \n" for n in range(1, 900)),
        "a: " + "[" * 900 + "]" * 900 + "\n",
        "a: [\n",
        "x\n",
        "? [a]\n: b\n? {a: b}\n: c\n",
        '{"a": 1\n',
    ],
)
def test_yaml_that_expands_or_nests_without_end_is_refused(text: str) -> None:
    with pytest.raises(NotADescription):
        load_document(text)


def test_merges_of_merges_end() -> None:
    """PyYAML before 6.0.4 multiplies the members with each merge, which is counted; later ones merge each one once."""
    text = "a: &a {x: 1, y: 2}\n"
    for name, before in zip("bcdefghij", "abcdefghi", strict=True):
        text += f"{name}: &{name} {{<<: [{','.join(['*' + before] * 10)}]}}\n"
    try:
        found, _ = load_document(text)
    except NotADescription:
        return
    assert found["j"] == {"x": 1, "y": 2}


def test_a_value_that_contains_itself_is_refused() -> None:
    given: dict[str, Any] = {"openapi": "3.1.0"}
    given["paths"] = given
    with pytest.raises(NotADescription, match="refers to itself"):
        load_document(given)


def test_text_of_a_value_is_text_of_json() -> None:
    """The validator cannot take a lone surrogate, and JSON has none."""
    assert load_document({"\ud800": ("\ud800", "é")})[0] == {"?": ["?", "é"]}


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 100)
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps({"a": "x" * 200}))
    site.pages["/large"] = file.read_bytes()
    for source in (file, f"{site.url}/large"):
        with pytest.raises(NotADescription, match="larger"):
            load_document(source)


def test_a_url_that_answers_no_document_is_refused(site: Site) -> None:
    site.redirects |= {"/loop": "/loop", "/out": "http://169.254.169.254/latest", "/file": "file:///etc/passwd"}
    site.redirects["/malformed"] = "http://[bad/x"
    for path in ("/missing", "/loop", "/out", "/file", "/malformed"):
        with pytest.raises(NotADescription):
            load_document(f"{site.url}{path}")
    site.redirects["/moved"] = "/here"
    site.pages["/here"] = b'{"a": 1}'
    assert load_document(f"{site.url}/moved") == ({"a": 1}, f"{site.url}/here")


# -- documents that it refers to ---------------------------------------------------------------------------------------


def test_files_beside_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a b.yaml").write_text("X: {$ref: 'other.json#/Y'}\n")
    (tmp_path / "parts" / "other.json").write_text('{"Y": {"type": "integer"}}')
    (tmp_path / "openapi.json").write_text(json.dumps(referring("parts/a%20b.yaml#/X")))
    found = read_openapi(tmp_path / "openapi.json")
    assert found.operations[0].schemas().input["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize("reference", ["../secret.json#/X", "link.json#/X", "notes.txt#/X", "file:///etc/passwd#/X"])
def test_files_elsewhere_are_not_read(tmp_path: Path, reference: str) -> None:
    """A description that was downloaded must not show what else is on the disk."""
    folder = tmp_path / "api"
    folder.mkdir()
    for file in (tmp_path / "secret.json", folder / "notes.txt"):
        file.write_text('{"X": {"type": "integer"}}')
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "openapi.json").write_text(json.dumps(referring(reference)))
    assert "only JSON and YAML files in the folder" in problem(read_openapi(folder / "openapi.json"))


def test_a_document_without_a_place_has_nothing_beside_it() -> None:
    assert "other document" in problem(read_openapi(referring("other.json#/X")))
    assert "other document" in problem(read_openapi(referring("file:///etc/passwd#/X")))


def test_nothing_is_fetched_unless_it_is_allowed(site: Site) -> None:
    site.pages["/other.json"] = b'{"X": {"type": "integer"}}'
    site.pages["/openapi.json"] = json.dumps(referring("other.json#/X")).encode()
    assert "unless remote references are allowed" in problem(read_openapi(f"{site.url}/openapi.json"))
    assert site.asked == ["/openapi.json"]
    found = read_openapi(f"{site.url}/openapi.json", allow_remote_references=True)
    assert found.operations[0].schemas().input["properties"] == {"a": {"type": "integer"}}


def test_documents_that_are_given_are_never_fetched() -> None:
    uri = "https://other.example/x.json"
    found = read_openapi(referring(f"{uri}#/X"), documents={uri: {"X": {"type": "integer"}}})
    assert found.operations[0].schemas().input["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize("path", ["/other.json#/X", "/moved.json#/X"])
def test_a_document_without_a_url_leads_to_no_local_address(site: Site, path: str) -> None:
    site.pages["/other.json"] = b'{"X": true}'
    found = read_openapi(referring(f"{site.url}{path}"), allow_remote_references=True)
    assert "loopback" in problem(found)
    assert site.asked == []


def test_a_name_with_a_local_address_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("10.0.0.7", 443))])
    found = read_openapi(referring("https://public.example/x.json#/X"), allow_remote_references=True)
    assert "more private" in problem(found)


def test_a_redirect_to_a_more_private_address_is_not_followed(site: Site) -> None:
    site.redirects["/other.json"] = "http://169.254.169.254/latest/meta-data"
    site.pages["/openapi.json"] = json.dumps(referring("other.json#/X")).encode()
    found = read_openapi(f"{site.url}/openapi.json", allow_remote_references=True)
    assert "forbidden" in problem(found)


def test_count_and_size_of_other_documents_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_REFERENCED_DOCUMENTS", 2)
    for n in range(4):
        (tmp_path / f"{n}.json").write_text(json.dumps({"X": {"$ref": f"{n + 1}.json#/X"}}))
    (tmp_path / "openapi.json").write_text(json.dumps(referring("0.json#/X")))
    assert "more than 2 documents" in problem(read_openapi(tmp_path / "openapi.json"))
    monkeypatch.setattr(documents, "MAX_REFERENCED_DOCUMENTS", 9)
    monkeypatch.setattr(documents, "MAX_REFERENCED_BYTES", 60)
    assert "are not read" in problem(read_openapi(tmp_path / "openapi.json"))


def test_a_document_that_cannot_be_fetched_is_asked_for_once(site: Site) -> None:
    given = referring("missing.json#/X")
    given["paths"]["/y"] = given["paths"]["/x"]
    site.pages["/openapi.json"] = json.dumps(given).encode()
    found = read_openapi(f"{site.url}/openapi.json", allow_remote_references=True)
    assert [problem(found), len(found.skipped)] != ["", 0]
    for each in found.operations:
        with pytest.raises(ValueError, match="404"):
            each.schemas()
    assert site.asked == ["/openapi.json", "/missing.json"]


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: x\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nopenapi: 3.1.0\ninfo: {title: x, version: '1'}\n",
    ],
    ids=["no status line", "a long header", "many headers", "no chunks", "a part of a document"],
)
def test_an_answer_that_is_not_http_is_an_error_of_the_document(raw: bytes) -> None:
    """The errors of Python's client are no `OSError`, and of YAML a part would be taken for a whole document."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(raw)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NotADescription, match="cannot be fetched"):
            load_document(f"http://127.0.0.1:{listener.getsockname()[1]}/openapi.yaml")
        thread.join()


def test_the_error_of_a_url_has_no_password() -> None:
    with pytest.raises(NotADescription) as caught:
        load_document("http://user:secret-password@127.0.0.1:x/openapi.json")
    assert "secret-password" not in str(caught.value)


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\n\r\nopenapi: "], ids=["in a header", "in the body"]
)
def test_the_time_for_a_document_is_bounded_in_all(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends one byte now and then meets every time limit of a single read."""
    monkeypatch.setattr(documents, "MAX_FETCH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                peer.recv(65536)
                peer.sendall(begin)
                for _ in range(500):  # not for ever, so that the test fails if nothing bounds it
                    time.sleep(0.01)
                    peer.sendall(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NotADescription, match="cannot be fetched: the time for it is over"):
            load_document(f"http://127.0.0.1:{listener.getsockname()[1]}/openapi.yaml")
        thread.join()


def test_the_time_for_other_documents_is_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be a hundred of them, each within the time for one."""
    now, left = 1000.0, list[float]()

    def fetched(url: str, max_bytes: int, check: Any, ends_at: float) -> tuple[bytes, str]:
        nonlocal now
        left.append(ends_at - now)
        now += 50
        return b"{}", url

    monkeypatch.setattr(documents, "_fetched", fetched)
    monkeypatch.setattr(documents, "monotonic", lambda: now)
    fetch = documents.ReferencedDocuments("https://example.com/openapi.json", allow_remote=True)
    for number in range(4):
        fetch(f"https://example.com/{number}.json")
    assert left == [120, 70, 20, -30]


def test_nothing_is_asked_for_when_the_time_is_over(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_FETCH_S", -1.0)
    with pytest.raises(NotADescription, match="cannot be fetched: the time for it is over"):
        load_document(f"{site.url}/openapi.json")
    assert not site.asked
