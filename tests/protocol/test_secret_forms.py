"""Secrets in texts and by their names."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.protocol.secret_forms import MASK, SecretTools, is_secret_name, mask_secrets, secret_arguments, secret_in

PARTS = {
    "a token of GitHub": "ghp_" + "aB3" * 12,
    "an access key of AWS": "AKIA" + "B3CD5FG7" * 2,
    "a key of OpenAI, Anthropic or a similar service": "sk-ant-" + "aB3dE" * 6,
    "a JSON Web Token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLXRva2Vu",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
    "a bearer token": "Bearer abcdef0987zyxw7654",
}


@pytest.mark.parametrize(("kind", "text"), PARTS.items())
def test_forms(kind: str, text: str) -> None:
    """In the middle of a sentence."""
    assert secret_in(f"use {text} here") == kind
    assert text not in mask_secrets(f"use {text} here")
    assert MASK in mask_secrets({"a": [f"use {text} here"]})["a"][0]


@pytest.mark.parametrize(
    "text", ["", "sk-", "the bearer of a letter", "AKIAIOSFODNN7EXAMPLE", "task-management-of-the-whole-team"]
)
def test_no_secret(text: str) -> None:
    """Words, and the example of the documentation of AWS."""
    assert secret_in(text) is None


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "api_key",
        "apiKey",
        "OPENAI_API_KEY",
        "Authorization",
        "dbPassword",
        "x-api-key",
        "access_token",
        "client_secret",
        "Set-Cookie",
        "APIKey",
        "DBPassword",
        "pwd",
        "userPin",
    ],
)
def test_names_of_secrets(name: str) -> None:
    """As people spell them."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "key",
        "keyword",
        "page_token",
        "nextPageToken",
        "progressToken",
        "maxTokens",
        "tokens",
        "author",
        "pass",
        "spin",
        "token_count",
    ],
)
def test_other_names(name: str) -> None:
    """A progress token is no secret, and a replay needs it."""
    assert not is_secret_name(name)


def test_masking_keeps_the_form() -> None:
    """Names, numbers, nesting; the value given is not changed."""
    schema = {"properties": {"password": {"type": "string"}, "n": {}}, "required": ["password"]}
    given: Any = {
        "password": "hunter2",
        "n": 1,
        "deep": [{"apiKey": "x", "ok": None}],
        "token": 5,
        "secret": "",
        "pin": [1, 2],
        "credentials": {"user": "ada"},
        "dbToken": True,
        "schema": schema,
    }
    assert mask_secrets(given) == {
        "password": MASK,
        "n": 1,
        "deep": [{"apiKey": MASK, "ok": None}],
        "token": MASK,
        "secret": "",
        "pin": MASK,
        "credentials": MASK,
        "dbToken": True,
        "schema": schema,
    }
    assert given["password"] == "hunter2"


def test_depth_is_bounded() -> None:
    """What is deeper is masked whole."""
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    found = mask_secrets(deep)
    for _ in range(100):
        (found,) = found
    assert found == MASK


def test_messages_without_the_secret_arguments_of_tools() -> None:
    """Learned from the list of tools; also of a call through a search, and in a batch."""
    schema = {"properties": {"pin": {"writeOnly": True}, "user": {}}}
    secrets = SecretTools()
    secrets.learn_from({"result": {"tools": [{"name": "sign_in", "inputSchema": schema}, {"name": 3}, None]}})
    secrets.learn_from({"result": {"content": []}})
    secrets.learn_from("no message")
    params = {"name": "sign_in", "arguments": {"pin": "1234", "user": "ada"}}
    masked = {"name": "sign_in", "arguments": {"pin": MASK, "user": "ada"}}
    message = {"id": 1, "method": "tools/call", "params": params}
    assert secrets.masked([message, {"method": "ping"}]) == [{**message, "params": masked}, {"method": "ping"}]
    through = {"name": "call_tool", "arguments": params}
    assert secrets.masked_call(through) == {"name": "call_tool", "arguments": masked}
    for other in ({"name": "other", "arguments": {"pin": "1"}}, {"name": "sign_in"}, {"arguments": {}}, None):
        assert secrets.masked_call(other) == other
    assert params["arguments"]["pin"] == "1234"


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"properties": {"c": {"$ref": "#/definitions/C"}}, "definitions": {"C": {"writeOnly": True}}}, {"c"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"pw": {"writeOnly": True}, "n": {}}}}}, {"pw"}),
        ({"allOf": [{"properties": {"pw": {"format": "password"}}}]}, {"pw"}),
        ({"anyOf": [{"oneOf": [{"properties": {"pw": {"writeOnly": True}}}]}, {"properties": {"n": {}}}]}, {"pw"}),
        ({"then": {"properties": {"pw": {"writeOnly": True}}}}, {"pw"}),
        ({"properties": {"a": {"$ref": "#/properties/b~1c"}, "b/c": {"writeOnly": True}, "n": {}}}, {"a", "b/c"}),
        ({"properties": {"a": {"$ref": "#/allOf/0"}}, "allOf": [{"writeOnly": True}]}, {"a"}),
        ({"properties": {"a": {"$ref": "#/$defs/x%20y"}}, "$defs": {"x y": {"writeOnly": True}}}, {"a"}),
        (
            {"properties": {"a": {"$ref": "#/$defs/gone"}, "b": {"$ref": "https://x.example/s.json"}, "n": {}}},
            {"a", "b"},
        ),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}}, set()),
        ({"$ref": "#", "properties": {"n": {}}}, set()),
        ({"properties": {"n": {"type": "string"}}, "additionalProperties": False}, set()),
        (None, set()),
        (True, set()),
    ],
)
def test_secret_arguments(schema: Any, names: set[str]) -> None:
    """Wherever JSON Schema lets a part of a schema stand; a reference to nothing counts as secret."""
    assert secret_arguments(schema) == names


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/gone"},
        {"allOf": [{"$ref": "other.json"}]},
        {"additionalProperties": {"writeOnly": True}},
        {"patternProperties": {"^pw": {"format": "password"}}},
    ],
)
def test_secret_arguments_without_names(schema: Any) -> None:
    found = secret_arguments(schema)
    assert found
    assert "anything" in found
    secrets = SecretTools()
    secrets.learn([{"name": "t", "inputSchema": schema}])
    assert secrets.masked_call({"name": "t", "arguments": {"a": 1}})["arguments"] == {"a": MASK}


def test_a_search_for_secrets_is_bounded() -> None:
    deep: Any = {"type": "string"}
    for _ in range(5000):
        deep = {"items": deep}
    wide = {"properties": {f"p{number}": {"anyOf": [{}] * 100} for number in range(200)}}
    assert secret_arguments({"properties": {"a": deep, "n": {}}}) == {"a"}
    assert "p0" not in secret_arguments(wide)
    assert "p199" in secret_arguments(wide)
