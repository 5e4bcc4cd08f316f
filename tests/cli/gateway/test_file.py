"""The configuration of a gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli.gateway.credentials import read_auth
from ferrule.cli.gateway.file import read_file
from ferrule.client.config_file import ConfigError

SERVER: dict[str, Any] = {"url": "http://127.0.0.1:1/mcp"}


def written(tmp_path: Path, gateway: Any, key: str = "mcpServers") -> str:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({key: {"one": SERVER, "two": {"command": "x"}}, "gateway": gateway}))
    return str(path)


@pytest.mark.parametrize("key", ["mcpServers", "servers", "context_servers"])
def test_everything_that_is_said(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file of any host; secrets may come from the environment, and are not shown."""
    monkeypatch.setenv("KEY", "a secret of sixteen")
    said = {
        "name": "tools",
        "url": "https://h/mcp",
        "store": "redis://h",
        "key": "${KEY}",
        "auth": {"issuer": "https://login", "requiredScopes": ["mcp"], "tokens": {"t0ken": {"subject": "a"}}},
        "views": {"work": {"servers": ["one"], "scopes": "w"}},
        "defaultView": "work",
        "toolSearch": "auto",
    }
    found = read_file(written(tmp_path, said, key))
    assert (found.name, found.url, found.store, found.key) == (
        "tools",
        "https://h/mcp",
        "redis://h",
        "a secret of sixteen",
    )
    assert found.auth is not None
    assert (found.auth.issuers, found.auth.required_scopes) == (("https://login",), ("mcp",))
    assert found.views["work"].servers == {"one"}
    assert (found.default_view, found.tool_search) == ("work", "auto")
    assert "t0ken" not in repr(found)
    assert "sixteen" not in repr(found)


WRONG: dict[str, tuple[Any, str]] = {
    "no object": ([], r"gateway is an object"),
    "a key": ({"nmae": "x"}, r"gateway has the unknown key 'nmae'; known are name, url"),
    "nobody": ({"auth": {}}, r"gateway\.auth has an 'issuer' or 'tokens'"),
    "a view's server": ({"views": {"v": {"servers": ["x"]}}}, r"views\.v\.servers names 'x'; there are one, two"),
    "a view's name": ({"views": {"a/b": {}}}, r"a view is named by letters"),
    "a page's name": ({"views": {"sign-in": {}}}, r"a view is named by letters.*'sign-in'"),
    "a default": ({"defaultView": "v"}, r"defaultView is 'v'; the views are none"),
    "a variable": ({"key": "${NO_SUCH_THING}"}, r"gateway\.key: The environment variable NO_SUCH_THING is not set"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_malformed_is_named(case: str, tmp_path: Path) -> None:
    """With file and key."""
    gateway, message = WRONG[case]
    with pytest.raises(ConfigError, match=message):
        read_file(written(tmp_path, gateway))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Or has no servers."""
    with pytest.raises(ConfigError, match="There is no file"):
        read_file(str(tmp_path / "nothing.json"))
    (tmp_path / "mcp.json").write_text("{}")
    with pytest.raises(ConfigError, match="has no servers"):
        read_file(str(tmp_path / "mcp.json"))


AUTHS: dict[str, tuple[Any, str]] = {
    "another type": ("magic", r"auth is one of oauth, user"),
    "no type": ({"clientId": "x"}, r"auth is one of oauth"),
    "a key": ({"type": "user", "audience": "x"}, r"has the unknown key 'audience'; known are type, clientId"),
    "no secret": ({"type": "client-credentials", "clientId": "x"}, r"auth\.clientSecret is missing"),
    "no endpoint": ({"type": "token-exchange"}, r"auth\.tokenEndpoint is missing"),
    "a number": ({"type": "oauth", "clientId": 5}, r"auth\.clientId is a text"),
}


@pytest.mark.parametrize("case", AUTHS)
def test_malformed_credentials_are_named(case: str) -> None:
    """Before anything connects."""
    value, message = AUTHS[case]
    with pytest.raises(ConfigError, match=message):
        read_auth(value, "auth")


def test_credentials_are_read() -> None:
    """As words or objects; nothing of them is shown."""
    assert read_auth("user", "auth").kind == "user"
    found = read_auth(
        {"type": "client-credentials", "clientId": "x", "clientSecret": "s3cret", "scopes": "a b"}, "auth"
    )
    assert found.options == {"client_id": "x", "client_secret": "s3cret", "scopes": ["a", "b"]}
    assert "s3cret" not in repr(found)
