"""ferrule.expose.credentials: where a secret stands in a request, and which secrets are refused."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from ferrule.expose.credentials import Credentials, WithCredentials
from ferrule.expose.exchange import ApiRequest, Origin
from ferrule.expose.operations import ApiKey, Operation
from tests.expose.callers_for_tests import AnsweringCaller, call, exposing

pytestmark = pytest.mark.anyio

HEADER_KEY = ApiKey(scheme="key", type="apiKey", location="header", name="X-Key")
QUERY_KEY = ApiKey(scheme="query", type="apiKey", location="query", name="api key")
COOKIE_KEY = ApiKey(scheme="crumb", type="apiKey", location="cookie", name="sid")
BEARER = ApiKey(scheme="bearer", type="http", http_scheme="bearer")
BASIC = ApiKey(scheme="basic", type="http", http_scheme="basic")
TOKEN = ApiKey(scheme="token", type="http", http_scheme="token")
OAUTH = ApiKey(scheme="oauth", type="oauth2")


async def sent(credentials: Credentials, *keys: ApiKey, **given: Any) -> ApiRequest:
    """Return the request that a caller gets for one with these credentials; the keys are alternatives."""
    caller = AnsweringCaller()
    operation = Operation(name="it", method="GET", path="/x", security=tuple((key,) for key in keys))
    request = ApiRequest(method="GET", path="/x", **given)
    await WithCredentials(caller, credentials, [operation]).call(request, Origin(), max_bytes=1)
    return caller.requests[0]


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("credentials", "keys", "headers"),
    [
        ("abc", (), {"authorization": "Bearer abc"}),
        ("abc", (BEARER,), {"authorization": "Bearer abc"}),
        ("abc", (OAUTH,), {"authorization": "Bearer abc"}),
        ("Token abc", (BEARER,), {"authorization": "Token abc"}),
        ("abc", (TOKEN,), {"authorization": "Token abc"}),
        (("user", "pass:word"), (), {"authorization": basic("user:pass:word")}),
        (("user", "pässword"), (BASIC,), {"authorization": basic("user:pässword")}),
        ("user:password", (BASIC,), {"authorization": basic("user:password")}),
        ("dXNlcjpw", (BASIC,), {"authorization": "Basic dXNlcjpw"}),
        ("abc", (HEADER_KEY,), {"x-key": "abc"}),
        ("abc", (HEADER_KEY, BEARER), {"authorization": "Bearer abc"}),
        ("abc", (HEADER_KEY, COOKIE_KEY), {"x-key": "abc"}),
        ("a;b c", (COOKIE_KEY,), {"cookie": "sid=a%3Bb%20c"}),
        ({"key": "abc", "bearer": "def"}, (HEADER_KEY, BEARER), {"x-key": "abc", "authorization": "Bearer def"}),
    ],
)
async def test_a_secret_stands_where_the_description_says(
    credentials: Any, keys: tuple[ApiKey, ...], headers: dict[str, str]
) -> None:
    """Without a scheme it is a token in ``Authorization``."""
    request = await sent(credentials, *keys)
    assert dict(request.headers) == headers
    assert request.query == ""


async def test_a_key_of_the_query_replaces_one_that_is_there() -> None:
    request = await sent("a&b=c", QUERY_KEY, query="page=2&api%20key=old&x=1")
    assert request.query == "page=2&x=1&api%20key=a%26b%3Dc"


async def test_a_credential_replaces_a_header_and_joins_a_cookie() -> None:
    given = (("authorization", "Bearer of-a-model"), ("cookie", "theme=dark"))
    request = await sent({"bearer": "own", "crumb": "1"}, BEARER, COOKIE_KEY, headers=given)
    assert sorted(request.headers) == [("authorization", "Bearer own"), ("cookie", "theme=dark; sid=1")]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_is_asked_for_each_request(is_async: bool) -> None:
    tokens = iter(["one", "two"])

    async def later() -> str:
        return next(tokens)

    caller = AnsweringCaller()
    sender = WithCredentials(caller, later if is_async else lambda: next(tokens), [])
    for _ in range(2):
        await sender.call(ApiRequest(method="GET", path="/x"), Origin(), max_bytes=1)
    assert [dict(request.headers)["authorization"] for request in caller.requests] == ["Bearer one", "Bearer two"]


async def test_a_scheme_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no security scheme 'kye'; it has: key"):
        await sent({"kye": "abc"}, HEADER_KEY)


@pytest.mark.parametrize(
    ("credentials", "error"),
    [
        ("s3cret\n", ValueError),
        ("s3cret\x00", ValueError),
        ({"bearer": "s3cret\r\nX-Evil: 1"}, ValueError),
        (("user", "s3cret\n"), ValueError),
        (("us:er", "s3cret"), ValueError),
        (("user", "s3cret", "more"), ValueError),
        (7, TypeError),
        (b"s3cret", TypeError),
        (("user", None), TypeError),
    ],
)
async def test_a_secret_that_cannot_be_sent_is_refused_at_the_start(credentials: Any, error: type[Exception]) -> None:
    """A token of a file ends with a line break, and each call would fail. The message does not hold the secret."""
    with pytest.raises(error) as raised:
        await sent(credentials, BEARER)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("made", ["s3cret\n", None, 7, ("user",)])
async def test_a_secret_of_a_function_that_cannot_be_sent_is_the_servers_fault(
    made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The model cannot mend it, so it reads no more than that the call failed; the log says why, without the secret."""
    caller = AnsweringCaller()
    result = await call(exposing({}, caller, auth=lambda: made))
    assert result.is_error
    assert result.text == "Tool `it` failed"
    assert caller.requests == []
    assert "credentials" in caplog.text
    assert "s3cret" not in caplog.text
