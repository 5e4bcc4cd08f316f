"""Requests: where each argument stands, and which body is sent."""

from __future__ import annotations

from email import message_from_bytes
from typing import Any

import pytest
from msgspec.structs import replace

from ferrule.expose.description.reader import read_description
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.operations import Operation
from ferrule.expose.requests.build import InvalidArgument, build_request
from ferrule.expose.requests.files import FileContents
from tests.expose.documents import document


def operation(raw: dict[str, Any], *, path: str = "/x", method: str = "post", **parts: Any) -> Operation:
    return read_description(document({path: {method: raw}}, **parts)).operations[0]


def parameter(name: str, location: str, **more: Any) -> dict[str, Any]:
    return {"parameters": [{"name": name, "in": location, "required": location == "path", **more}]}


def sent(raw: dict[str, Any], arguments: dict[str, Any], **more: Any) -> ApiRequest:
    return build_request(operation(raw, **more), arguments)


def header(request: ApiRequest, name: str) -> str | None:
    return next((value for given, value in request.headers if given == name), None)


def with_body(kind: str, schema: Any, *, required: bool = True, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": {kind: {"schema": schema, **more}}}}


# -- paths, queries, headers, cookies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path"),
    [("a/b", "/x/a%2Fb"), ("%2F", "/x/%252F"), ("a?b#c", "/x/a%3Fb%23c"), ("{id}", "/x/%7Bid%7D"), ("é", "/x/%C3%A9")],
)
def test_a_path_value_is_one_step(value: str, path: str) -> None:
    assert sent(parameter("id", "path"), {"id": value}, path="/x/{id}").path == path


def test_a_path_value_of_several_steps_keeps_its_slashes() -> None:
    made = operation(parameter("file", "path"), path="/x/{file}")
    made = replace(made, parameters=tuple(replace(each, allow_reserved=True) for each in made.parameters))
    assert build_request(made, {"file": "a b/c?"}).path == "/x/a%20b/c%3F"
    for value in ("../a", "a/..", "a/./b", "/a"):
        with pytest.raises(InvalidArgument, match="begin with a slash"):
            build_request(made, {"file": value})


def test_values_of_the_path_do_not_replace_each_other() -> None:
    raw = {"parameters": [{"name": name, "in": "path", "required": True} for name in ("a", "b")]}
    assert sent(raw, {"a": "{b}", "b": "2"}, path="/{a}/{b}").path == "/%7Bb%7D/2"


@pytest.mark.parametrize(
    ("more", "value", "query"),
    [
        ({"content": {"application/json": {}}}, {"a": [1]}, "q=%7B%22a%22%3A%5B1%5D%7D"),
        ({"content": {"application/json": {}}}, "x", "q=%22x%22"),
        ({"content": {"text/plain": {}}}, "x y", "q=x%20y"),
        ({"allowReserved": True}, "a/b?c&d", "q=a/b?c%26d"),
        ({}, None, ""),
        ({}, False, "q=false"),
        ({}, [], ""),
    ],
)
def test_a_query_value_is_written_as_described(more: dict[str, Any], value: Any, query: str) -> None:
    assert sent(parameter("q", "query", **more), {"q": value}, method="get").query == query


@pytest.mark.parametrize(
    ("kind", "value", "query"),
    [
        ("application/x-www-form-urlencoded", {"a": "b c", "d": [1, 2]}, "a=b%20c&d=1&d=2"),
        ("application/json", {"a": 1}, "%7B%22a%22%3A1%7D"),
        ("text/plain", "raw?", "raw%3F"),
    ],
)
def test_a_whole_query_string(kind: str, value: Any, query: str) -> None:
    raw = parameter("q", "querystring", content={kind: {"schema": True}})
    assert sent(raw, {"q": value}, openapi="3.2.0").query == query


@pytest.mark.parametrize(
    ("more", "value", "cookie"),
    [
        ({}, "a=b/c:d", "c=a=b/c:d"),
        ({}, "a b;c", "c=a%20b%3Bc"),
        ({"style": "cookie"}, "a=b", "c=a=b"),
        ({"explode": False}, ["a", "b"], "c=a,b"),
    ],
)
def test_a_cookie_has_what_a_cookie_may_have(more: dict[str, Any], value: Any, cookie: str) -> None:
    assert header(sent(parameter("c", "cookie", **more), {"c": value}), "cookie") == cookie


@pytest.mark.parametrize("value", ["a b", "a;b", 'a"b', "é"])
def test_a_cookie_that_is_not_encoded_refuses_what_would_end_it(value: str) -> None:
    with pytest.raises(InvalidArgument, match="it is a cookie"):
        sent(parameter("c", "cookie", style="cookie"), {"c": value})


@pytest.mark.parametrize("value", ["a\r\nx: 1", "日本"])
def test_a_header_has_latin_letters_only(value: str) -> None:
    with pytest.raises(InvalidArgument, match="it is a header"):
        sent(parameter("X-A", "header"), {"X-A": value})
    assert header(sent(parameter("X-A", "header"), {"X-A": "é"}), "x-a") == "é"


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "schema", "arguments", "body"),
    [
        ("application/json", {"type": "object", "properties": {"a": {}, "b": {}}}, {"a": None}, b'{"a":null}'),
        ("application/json", {"type": "array"}, {"body": [1]}, b"[1]"),
        ("application/json", {"type": "integer"}, {"body": 7}, b"7"),
        ("application/json", {"type": "string"}, {"body": "x"}, b'"x"'),
        ("application/json", {"nullable": True}, {"body": None}, b"null"),
        ("application/merge-patch+json", {"type": "object", "properties": {"a": {}}}, {"a": None}, b'{"a":null}'),
        ("application/json-patch+json", {"type": "array"}, {"body": [{"op": "remove"}]}, b'[{"op":"remove"}]'),
        ("application/vnd.x+json; v=2", {"type": "object", "properties": {"a": {}}}, {"a": 1}, b'{"a":1}'),
        ("application/xml", {"type": "object"}, {"body": "<a/>"}, b"<a/>"),
        ("text/csv", {"type": "string"}, {"body": "é"}, "é".encode()),
        (
            "application/x-www-form-urlencoded",
            {"type": "object", "properties": {"a": {}, "b": {"type": "array"}, "c": {"type": "object"}}},
            {"a": "x y&z", "b": [1, 2], "c": {"d": 1}},
            b"a=x%20y%26z&b=1&b=2&c=%7B%22d%22%3A1%7D",
        ),
        ("application/x-www-form-urlencoded", {"type": "object"}, {"body": {"a": 1}}, b"a=1"),
    ],
)
def test_a_body_is_sent_as_its_type_says(kind: str, schema: Any, arguments: dict[str, Any], body: bytes) -> None:
    request = sent(with_body(kind, schema), arguments)
    assert request.body == body
    assert (header(request, "content-type") or "").startswith(kind)


@pytest.mark.parametrize("method", ["get", "delete", "post"])
def test_a_body_that_is_not_given_is_not_sent(method: str) -> None:
    raw = with_body("application/json", {"type": "object", "properties": {"a": {}}}, required=False)
    request = sent(raw, {}, method=method)
    assert (request.body, header(request, "content-type")) == (b"", None)
    assert sent(raw, {"a": 1}, method=method).body == b'{"a":1}'


def test_a_required_body_without_members_is_an_empty_object() -> None:
    assert sent(with_body("application/json", {"type": "object", "properties": {"a": {}}}), {}).body == b"{}"


def parts_of(request: ApiRequest) -> list[tuple[str | None, str | None, str, bytes]]:
    """Return name, file name, media type and contents of each part, as the standard library reads them."""
    kind = header(request, "content-type")
    assert kind is not None
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + request.body)
    found: list[tuple[str | None, str | None, str, bytes]] = []
    for part in message.get_payload():
        assert not isinstance(part, str)
        name: Any = part.get_param("name", header="content-disposition")
        contents = part.get_payload(decode=True)
        assert isinstance(contents, bytes)
        found.append((name, part.get_filename(), part.get_content_type() if "content-type" in part else "", contents))
    return found


def test_a_multipart_body_has_files_lists_of_files_and_values() -> None:
    binary = {"type": "string", "format": "binary"}
    schema = {
        "type": "object",
        "properties": {
            "one": binary,
            "many": {"type": "array", "items": binary},
            "new": {"type": "string", "contentMediaType": "image/png"},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "meta": {"type": "object"},
            "listed": {"type": "array", "items": {"type": "integer"}},
        },
    }
    encoding = {
        "one": {"contentType": "image/png, image/jpeg"},
        "new": {"contentType": "image/png"},
        "meta": {"contentType": "application/vnd.meta+json"},
        "listed": {"contentType": "application/json"},
    }
    made = operation(with_body("multipart/form-data", schema, encoding=encoding))
    properties = made.schemas().input["properties"]
    assert "base64" in properties["one"]["properties"]
    assert "base64" in properties["many"]["items"]["properties"]
    request = build_request(
        made,
        {"one": {}, "many": [{}, {}], "new": {}, "note": "é", "tags": ["a", "b"], "meta": {"k": 1}, "listed": [1]},
        files={
            "one": FileContents(data=b"\r\n--", filename='a"b.bin'),
            "many": [FileContents(data=b"1", filename="1"), FileContents(data=b"2", content_type="text/x")],
            "new": FileContents(data=b"3"),
        },
    )
    assert parts_of(request) == [
        ("one", "a%22b.bin", "application/octet-stream", b"\r\n--"),
        ("many", "1", "application/octet-stream", b"1"),
        ("many", "file", "text/x", b"2"),
        ("new", "file", "image/png", b"3"),
        ("note", None, "", "é".encode()),
        ("tags", None, "", b"a"),
        ("tags", None, "", b"b"),
        ("meta", None, "application/vnd.meta+json", b'{"k":1}'),
        ("listed", None, "application/json", b"[1]"),
    ]


def test_a_binary_body_has_the_type_of_its_file() -> None:
    made = operation(with_body("image/*", {"type": "string", "format": "binary"}))
    file = FileContents(data=b"\x89PNG", content_type="image/png")
    request = build_request(made, {"body": {}}, files={"body": file})
    assert (request.body, header(request, "content-type")) == (b"\x89PNG", "image/png")


@pytest.mark.parametrize("kind", ["a/b\r\nX-Evil: 1", "a/b\n", "a\x00/b", "a/ü", "€"])
def test_the_type_of_a_file_begins_no_further_header(kind: str) -> None:
    """A model names it, or a resource of another server."""
    raw = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
    given = document({"/x": {"post": {"operationId": "it", "requestBody": raw}}})
    (operation,) = read_description(given).operations
    files: dict[str, Any] = {"body": FileContents(data=b"x", content_type=kind)}
    with pytest.raises(InvalidArgument, match="media type"):
        build_request(operation, {"body": {"text": "x"}}, files=files)
