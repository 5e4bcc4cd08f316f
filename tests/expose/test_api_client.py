"""Requests to an API from a tool of one's own."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, MCPServer, ToolError
from ferrule.expose import APIClient
from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable

pytestmark = pytest.mark.anyio

JSON = (("content-type", "application/json"),)


class Answering:
    """A caller that gives one answer."""

    def __init__(self, answer: ApiResponse | Exception) -> None:
        self.answer = answer
        self.sent: list[ApiRequest] = []
        self.max_bytes = 0
        self.is_closed = False

    async def call(self, request: ApiRequest, origin: Any, *, max_bytes: int) -> ApiResponse:
        self.sent.append(request)
        self.max_bytes = max_bytes
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        self.is_closed = True


def api(answer: ApiResponse | Exception | None = None, **options: Any) -> tuple[APIClient, Answering]:
    caller = Answering(answer or ApiResponse(status=200, headers=JSON, body=b"[1]"))
    return APIClient("https://api.example/v1/", caller=caller, **options), caller


async def test_values_stand_where_they_are_asked_for() -> None:
    client, caller = api()
    found = await client.request(
        "put",
        "/a/{id}",
        values={"id": "x/y"},
        query={"q": None, "tags": [1, 2], "ids": [1, 2], "f": {"a": 1}},
        headers={"X-A": "b"},
        cookies={"c": "d"},
        json={"name": "n", "none": None},
        styles={"f": "deepObject"},
        joined=("ids",),
    )
    assert found == [1]
    (request,) = caller.sent
    assert (request.method, request.target) == ("PUT", "/a/x%2Fy?tags=1&tags=2&ids=1,2&f%5Ba%5D=1")
    assert {("x-a", "b"), ("cookie", "c=d"), ("content-type", "application/json")} <= set(request.headers)
    assert request.body == b'{"name":"n"}'


@pytest.mark.parametrize(
    ("given", "content_type", "body"),
    [
        ({"form": {"a": "b c", "x": None}}, "application/x-www-form-urlencoded", b"a=b%20c"),
        ({"text": "hi"}, "text/plain; charset=utf-8", b"hi"),
        ({"json": [1, None]}, "application/json", b"[1,null]"),
        (
            {"json": {"a": 1}, "content_type": "application/merge-patch+json"},
            "application/merge-patch+json",
            b'{"a":1}',
        ),
        ({"json": False}, "application/json", b"false"),
    ],
)
async def test_a_body_has_its_type(given: dict[str, Any], content_type: str, body: bytes) -> None:
    client, caller = api()
    await client.request("POST", "/a", **given)
    assert ("content-type", content_type) in caller.sent[0].headers
    assert caller.sent[0].body == body


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ApiResponse(status=404, headers=JSON, body=b'{"detail":"no such order"}'), "no such order"),
        (ApiResponse(status=500, body=b"secret trace"), "The API failed with status 500"),
        (CallerUnavailable("the API cannot be reached"), "The call failed: the API cannot be reached"),
    ],
)
async def test_what_goes_wrong_is_an_error_for_the_model(answer: ApiResponse | Exception, said: str) -> None:
    client, _ = api(answer)
    with pytest.raises(ToolError) as raised:
        await client.request("GET", "/a")
    assert said in raised.value.text
    assert "secret" not in raised.value.text


async def test_a_value_that_cannot_be_sent_is_named_as_it_was_given() -> None:
    client, caller = api()
    with pytest.raises(ToolError, match="`id` must not be empty"):
        await client.request("GET", "/a/{id}", values={"id": ".."})
    assert caller.sent == []


async def test_a_redirect_is_an_answer() -> None:
    client, caller = api(ApiResponse(status=302, headers=(("location", "https://evil.example/"),)))
    assert "points to https://evil.example/" in await client.request("GET", "/a")
    assert len(caller.sent) == 1


async def test_an_answer_is_read_up_to_its_bound() -> None:
    client, caller = api(max_response_bytes=10)
    await client.request("GET", "/a")
    assert caller.max_bytes == 10


@pytest.mark.parametrize("url", ["/v1", "ftp://x", "https://x/?a=b", "https://"])
def test_an_invalid_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        APIClient(url)


async def test_the_connections_end_with_the_server() -> None:
    client, caller = api()
    app = MCPServer("x", lifespan=client.lifespan)

    @app.tool
    async def ask() -> Any:
        return await client.request("GET", "/a")

    async with Client(app) as connected:
        assert (await connected.call_tool("ask")).text == "[1]"
        assert not caller.is_closed
    assert caller.is_closed


@pytest.mark.parametrize(
    ("given", "body"),
    [
        ({"json": {"a": None, "b": {"c": None}, "d": [None]}}, b'{"b":{"c":null},"d":[null]}'),
        ({"json": [None]}, b"[null]"),
        ({"json": {"a": None}}, b"{}"),
        ({"json": {}}, b"{}"),
        ({"json": 0}, b"0"),
        ({"json": ""}, b'""'),
        ({"json": None}, b""),
        ({"form": {"a": None}}, b""),
        ({"text": ""}, b""),
    ],
)
async def test_only_members_at_the_top_of_a_body_are_left_out(given: dict[str, Any], body: bytes) -> None:
    """They are the parameters of a function that were not given; what stands inside them was."""
    client, caller = api()
    await client.request("POST", "/a", **given)
    assert caller.sent[0].body == body


@pytest.mark.parametrize("value", [None, "", ".", ".."])
async def test_a_step_of_the_path_must_be_given(value: Any) -> None:
    client, caller = api()
    with pytest.raises(ToolError, match="`id` must"):
        await client.request("GET", "/a/{id}", values={"id": value})
    assert caller.sent == []


async def test_what_is_not_given_is_not_sent() -> None:
    client, caller = api()
    await client.request("GET", "/a", query={"q": None, "e": ""}, headers={"X-A": None}, cookies={"c": None})
    assert caller.sent[0].target == "/a?e="
    assert {name for name, _ in caller.sent[0].headers} == {"accept"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://evil.example/?a=1", "https://evil.example/?a=1"),
        ("https://user:s3cret@evil.example/", "https://evil.example/"),
        ("/v1/b", "/v1/b"),
        ("https://[bad", "https://[bad"),
    ],
)
async def test_no_redirect_is_followed_and_no_password_shown(status: int, location: str, shown: str) -> None:
    """Credentials would go with it; the author knows the URL of each request."""
    client, caller = api(ApiResponse(status=status, headers=(("location", location),)), headers={"X-Key": "k"})
    found = await client.request("POST", "/a", json={"a": 1})
    assert found == f"The API answered {status} and points to {shown}"
    assert len(caller.sent) == 1


async def test_a_redirect_without_a_target_is_an_answer_too() -> None:
    client, _ = api(ApiResponse(status=302))
    assert await client.request("GET", "/a") == "The API answered 302"


@pytest.mark.parametrize("body", [b"null", b"", b"false", b"0"])
async def test_an_answer_without_much_in_it_is_that(body: bytes) -> None:
    client, _ = api(ApiResponse(status=200, headers=JSON, body=body))
    assert await client.request("GET", "/a") == {b"null": None, b"": "Done", b"false": False, b"0": 0}[body]
