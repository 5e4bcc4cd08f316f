"""Reads the configuration of a gateway: servers as hosts write them, and ``"gateway"`` beside them.

```
{
  "mcpServers": {"github": {"url": "https://…", "auth": {"type": "user"}, "timeout": 30}},
  "gateway": {"url": "https://tools.example.com/mcp", "auth": {"issuer": "https://login.example.com"}, "views": {}}
}
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ferrule.cli.hosts.places import HOSTS, read_servers
from ferrule.client.config import read_group
from ferrule.client.config_file import ConfigError, expanded, load_config
from ferrule.client.gateway.views import View
from ferrule.client.targets import GroupTarget
from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["FrontAuth", "GatewayFile", "read_file"]

_JSON: Final = (".json", ".jsonc")
_KEYS: Final = ("name", "url", "store", "key", "auth", "views", "defaultView", "toolSearch", "middleware")
_AUTH_KEYS: Final = ("issuer", "resource", "requiredScopes", "tokens")
_VIEW_KEYS: Final = ("servers", "includeTools", "excludeTools", "subjects", "clients", "scopes", "description")
_TOKEN_KEYS: Final = ("subject", "scopes", "client_id", "clientId")


@dataclass(frozen=True, slots=True)
class FrontAuth:
    """Who may use the gateway.

    Attributes:
        issuers: the authorization servers whose tokens are accepted.
        tokens: fixed token → its facts.
        required_scopes: scopes that every request needs.
        resource: the audience of tokens; ``None``: the gateway's URL.
    """

    issuers: tuple[str, ...] = ()
    tokens: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]], repr=False)
    required_scopes: tuple[str, ...] = ()
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class GatewayFile:
    """One configuration.

    Attributes:
        path: its file.
        servers: the servers behind.
        entries: their entries as written, by name.
        name: the name of the gateway as a server.
        url: the public URL of its endpoint; ``None``: known by its address only.
        store: the URL of the store; ``None`` without.
        key: the secret with which users' tokens are sealed in the store; ``None`` without.
        auth: who may use it; ``None``: everybody who can reach it.
        views: its views by name.
        default_view: the view for those whom no view names; ``None``: everything.
        tool_search: the mode of a search.
        middleware: what names the middleware; see `ferrule.cli.gateway.middleware`.
    """

    path: Path
    servers: GroupTarget
    entries: Mapping[str, Any] = field(repr=False)
    name: str
    url: str | None = None
    store: str | None = None
    key: str | None = field(default=None, repr=False)
    auth: FrontAuth | None = None
    views: Mapping[str, View] = field(default_factory=dict[str, View])
    default_view: str | None = None
    tool_search: Any = False
    middleware: tuple[str, ...] = ()


def read_file(text: str) -> GatewayFile:
    """Return the configuration that a text names: a file, or ``HOST:`` for that of an installed host.

    Raises:
        ConfigError: it is malformed, or has no servers.
        OSError: it cannot be read.
    """
    host = HOSTS.get(text.removesuffix(":")) if text.endswith(":") else None
    path = Path(text) if host is None else host.path()
    if not path.exists():
        raise ConfigError(f"There is no file {str(path)!r}")
    entries = read_servers(path, None if host is None else host.key)
    if not entries:
        raise ConfigError(f"{path} has no servers")
    document: Mapping[str, Any] = load_config(path) if path.suffix.lower() in _JSON else {}
    servers = read_group(entries, str(path))
    said: Any = document.get("gateway", {})
    where = f"{path}: gateway"
    front = _object(said, where, _KEYS)
    name = _text(front, "name", where) or (path.stem if host is None else host.name)
    views = _views(front.get("views"), f"{where}.views", servers)
    default = _text(front, "defaultView", where)
    if default is not None and default not in views:
        raise ConfigError(f"{where}.defaultView is {default!r}; the views are {', '.join(views) or 'none'}")
    return GatewayFile(
        path,
        servers,
        entries,
        name,
        url=_text(front, "url", where),
        store=_text(front, "store", where),
        key=_text(front, "key", where),
        auth=None if front.get("auth") is None else _auth(front["auth"], f"{where}.auth"),
        views=views,
        default_view=default,
        tool_search=front.get("toolSearch", document.get("toolSearch", False)),
        middleware=_texts(front, "middleware", where),
    )


def _object(value: Any, where: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if not is_mapping(value):
        raise ConfigError(f"{where} is an object")
    unknown = next((key for key in value if key not in keys), None)
    if unknown is not None:
        raise ConfigError(f"{where} has the unknown key {unknown!r}; known are {', '.join(keys)}")
    return value


def _text(said: Mapping[str, Any], key: str, where: str) -> str | None:
    value = said.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}.{key} is a text")
    return expanded(value, f"{where}.{key}")


def _texts(said: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value: Any = said.get(key)
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not is_list(listed) or not all(isinstance(each, str) and each for each in listed):
        raise ConfigError(f"{where}.{key} is a text, or a list of texts")
    return tuple(expanded(str(each), f"{where}.{key}") for each in listed)


def _auth(value: Any, where: str) -> FrontAuth:
    said = _object(value, where, _AUTH_KEYS)
    given: Any = said.get("tokens") or {}
    if not is_mapping(given):
        raise ConfigError(f"{where}.tokens is an object: token → subject and scopes")
    tokens: dict[str, Mapping[str, Any]] = {}
    for token, facts in given.items():
        at = f"{where}.tokens"  # a token is not shown
        found = {"subject": facts} if isinstance(facts, str) else _object(facts, at, _TOKEN_KEYS)
        client = found.get("client_id", found.get("clientId"))
        tokens[expanded(str(token), at)] = {
            "subject": found.get("subject"),
            "scopes": list(_texts(found, "scopes", at)),
            **({} if client is None else {"client_id": client}),
        }
    made = FrontAuth(
        _texts(said, "issuer", where), tokens, _texts(said, "requiredScopes", where), _text(said, "resource", where)
    )
    if not made.issuers and not made.tokens:
        raise ConfigError(f"{where} has an 'issuer' or 'tokens'")
    return made


def _views(value: Any, where: str, servers: GroupTarget) -> dict[str, View]:
    if value is None:
        return {}
    if not is_mapping(value):
        raise ConfigError(f"{where} is an object: name → what the view shows")
    return {str(name): _view(str(name), said, f"{where}.{name}", servers) for name, said in value.items()}


def _view(name: str, value: Any, where: str, servers: GroupTarget) -> View:
    said = _object(value, where, _VIEW_KEYS)
    if not name or not all(char.isascii() and (char.isalnum() or char in "-_.") for char in name) or name == "sign-in":
        raise ConfigError(f"{where}: a view is named by letters, digits, '-', '_' and '.', and not 'sign-in'")
    shown = _texts(said, "servers", where)
    missing = next((server for server in shown if server not in servers.servers), None)
    if missing is not None:
        raise ConfigError(f"{where}.servers names {missing!r}; there are {', '.join(servers.servers)}")
    return View(
        name,
        frozenset(shown) if "servers" in said else None,
        _texts(said, "includeTools", where) if "includeTools" in said else None,
        _texts(said, "excludeTools", where),
        frozenset(_texts(said, "subjects", where)),
        frozenset(_texts(said, "clients", where)),
        frozenset(_texts(said, "scopes", where)),
    )
