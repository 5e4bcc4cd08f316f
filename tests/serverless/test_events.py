"""Events of the three forms as requests, responses as results."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.serverless.events import (
    FunctionRequest,
    FunctionResponse,
    MalformedEvent,
    form_of,
    read_event,
    write_result,
)
from tests.serverless.events import FORMS, HOST, event


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encoded", [False, True])
def test_a_request_of_each_form(form: str, encoded: bool) -> None:
    """Method, path, headers, body, the client's address and the scheme, also with a body in base64."""
    given = event(form, "grün".encode(), {"x-many": "a"}, encoded=encoded)
    kind = form_of(given)
    assert kind == {"url": "http", "alb-multi": "alb"}.get(form, form)
    request = read_event(given, kind)
    assert (request.method, request.body, request.client, request.scheme) == (
        "POST",
        "grün".encode(),
        "203.0.113.7",
        "https",
    )
    assert (request.header("Host"), request.header("x-many"), request.header("nothing")) == (HOST, "a", "")
    assert request.path[len(request.root_path) :] == "/mcp"
    assert request.root_path == ("/prod" if form == "rest" else "")
    if kind == "http":
        assert request.header("cookie") == "a=1; b=2"


def test_the_stage_of_an_http_api_is_a_prefix() -> None:
    """The address of a named stage begins with its name; that of `$default` does not."""
    given = event("http", None, path="/beta/mcp")
    given["requestContext"]["stage"] = "beta"
    assert read_event(given, "http").root_path == "/beta"


def test_query_strings_and_many_values_of_a_header() -> None:
    """A REST API decodes values, a load balancer passes them as they came."""
    rest = event("rest")
    rest["multiValueQueryStringParameters"] = {"a": ["1 2", "3"], "b": ["ø"]}
    rest["multiValueHeaders"]["x-many"] = ["a", "b"]
    request = read_event(rest, "rest")
    assert request.query == "a=1+2&a=3&b=%C3%B8"
    assert [value for name, value in request.headers if name == "x-many"] == ["a", "b"]
    alb = event("alb-multi")
    alb["multiValueQueryStringParameters"] = {"a": ["1%202", "3"]}
    assert read_event(alb, "alb").query == "a=1%202&a=3"
    single = event("alb")
    single["queryStringParameters"] = {"a": "1%202"}
    assert read_event(single, "alb").query == "a=1%202"


@pytest.mark.parametrize(
    "given", [None, [], {}, {"requestContext": {}}, {"requestContext": None}, {"Records": [{"eventSource": "aws:s3"}]}]
)
def test_another_event_is_refused_with_what_to_do(given: Any) -> None:
    """Such as one of a queue or a bucket: a mistake of who set the function up."""
    with pytest.raises(MalformedEvent, match="handle\\(request\\)"):
        form_of(given)


@pytest.mark.parametrize("form", FORMS)
def test_members_of_another_type_are_refused(form: str) -> None:
    given = event(form)
    given["body"], given["isBase64Encoded"] = "not base64!", True
    with pytest.raises(MalformedEvent, match="base64"):
        read_event(given, form_of(given))
    given = event(form)
    given["headers" if "headers" in given else "multiValueHeaders"] = 5
    given.pop("multiValueHeaders", None) if form == "rest" else None
    with pytest.raises(MalformedEvent):
        read_event(given, form_of(given))


RESPONSE = FunctionResponse(
    status=401,
    headers=[
        ("Www-Authenticate", "Bearer a"),
        *(("Set-Cookie", value) for value in ("a=1", "b=2")),
        *(("Vary", value) for value in ("a", "b")),
    ],
    body=b'{"a":1}',
)


def test_a_result_of_each_form() -> None:
    """Each host takes its own form of headers and ignores the others."""
    many = {"Www-Authenticate": ["Bearer a"], "Set-Cookie": ["a=1", "b=2"], "Vary": ["a", "b"]}
    common = {"statusCode": 401, "body": '{"a":1}', "isBase64Encoded": False}
    assert write_result(RESPONSE, event("rest"), "rest") == {**common, "multiValueHeaders": many}
    assert write_result(RESPONSE, event("http"), "http") == {
        **common,
        "headers": {"Www-Authenticate": "Bearer a", "Vary": "a, b"},
        "cookies": ["a=1", "b=2"],
    }
    described = {**common, "statusDescription": "401 Unauthorized"}
    assert write_result(RESPONSE, event("alb-multi"), "alb") == {**described, "multiValueHeaders": many}
    single = write_result(RESPONSE, event("alb"), "alb")
    assert single["headers"]["Www-Authenticate"] == "Bearer a"
    assert "multiValueHeaders" not in single


def test_a_body_that_is_no_text_is_base64() -> None:
    result = write_result(FunctionResponse(status=299, body=b"\xff\x00"), event("alb"), "alb")
    assert (result["body"], result["isBase64Encoded"], result["statusDescription"]) == ("/wA=", True, "299 Unknown")


def test_a_request_is_plain() -> None:
    """For hosts of any other form."""
    request = FunctionRequest(method="POST", path="/mcp", headers=[("Mcp-Method", "ping")])
    assert request.header("mcp-method") == "ping"
