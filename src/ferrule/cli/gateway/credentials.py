"""The ``auth`` of a server in the configuration of a gateway: whose credential it gets, and how.

=====================================================  ============================================================
``"auth"``                                             the server gets
=====================================================  ============================================================
none                                                   the ``headers`` of its entry
``"oauth"``, ``{"type": "oauth", …}``                  a token of the owner of the gateway, who signs in once
``{"type": "client-credentials", "clientId": …}``      a token of the gateway itself
``"user"``, ``{"type": "user", …}``                    a token of each caller, who signs in by a link
``{"type": "token-exchange", "tokenEndpoint": …}``     a token for the caller's token (RFC 8693)
``"pass-through"``                                     the caller's own token
=====================================================  ============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule.client.config_file import ConfigError, expanded
from ferrule.client.targets import HttpTarget
from ferrule.wire.json_types import is_list, is_mapping

if TYPE_CHECKING:
    from ferrule.client.gateway.credentials.sign_in import SignIns
    from ferrule.client.gateway.credentials.user_server import MakeAuth, UserServer
    from ferrule.kernel.dispatch import TransportContext

__all__ = ["PER_CALLER", "Credentials", "auth_of", "read_auth"]

_OAUTH: Final = ("clientId", "clientSecret", "scopes", "issuer")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "oauth": _OAUTH,
    "user": _OAUTH,
    "client-credentials": _OAUTH,
    "token-exchange": ("tokenEndpoint", "clientId", "clientSecret", "scopes", "audience"),
    "pass-through": (),
}
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "client-credentials": ("clientId", "clientSecret"),
    "token-exchange": ("tokenEndpoint",),
}
PER_CALLER: Final = frozenset({"user", "token-exchange", "pass-through"})
"""The types with which each caller has connections of its own."""


class Credentials:
    """One ``auth``, read.

    Attributes:
        kind: its type.
        options: its other members, as arguments in Python.
    """

    __slots__ = ("kind", "options")

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self.kind, self.options = kind, options

    def __repr__(self) -> str:
        return f"Credentials({self.kind!r})"


def read_auth(value: Any, where: str) -> Credentials:
    """Return what ``auth`` says.

    Raises:
        ConfigError: it is malformed.
    """
    said: Any = {"type": value} if isinstance(value, str) else value
    kind: Any = said.get("type") if is_mapping(said) else None
    if kind not in _KEYS:
        raise ConfigError(f"{where} is one of {', '.join(_KEYS)}, or an object with such a 'type'")
    made: dict[str, Any] = {}
    for key, given in said.items():
        if key == "type":
            continue
        if key not in _KEYS[kind]:
            raise ConfigError(f"{where} has the unknown key {key!r}; known are type, {', '.join(_KEYS[kind])}")
        made[_python_name(str(key))] = _value(given, f"{where}.{key}", is_listed=key == "scopes")
    missing = next((key for key in _REQUIRED.get(kind, ()) if key not in said), None)
    if missing is not None:
        raise ConfigError(f"{where}.{missing} is missing")
    return Credentials(kind, made)


def _python_name(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


def _value(given: Any, where: str, *, is_listed: bool) -> Any:
    if is_listed and is_list(given) and all(isinstance(each, str) for each in given):
        return [expanded(str(each), where) for each in given]
    if not isinstance(given, str) or not given:
        raise ConfigError(f"{where} is a text")
    text = expanded(given, where)
    return text.split() if is_listed else text


def auth_of(found: Credentials, storage: Any) -> Any:
    """Return the value of ``Client(auth=…)`` for credentials that are not a caller's.

    Args:
        found: what ``auth`` says.
        storage: keeps the tokens.

    Raises:
        ValueError: they do not fit together.
    """
    from ferrule.auth import ClientCredentials, OAuth

    made = ClientCredentials if found.kind == "client-credentials" else OAuth
    return made(storage=storage, **found.options)


def auth_maker(found: Credentials, storage: Any, sign_ins: SignIns | None) -> MakeAuth:
    """Return a function that makes the credentials of one caller.

    Args:
        found: what ``auth`` says.
        storage: keeps the tokens of all callers.
        sign_ins: the sign-ins of the gateway; ``None`` where it has no pages: the owner signs in with a browser.
    """
    from ferrule.client.gateway.credentials import user_auth
    from ferrule.client.gateway.credentials.storage import UserStorage

    if found.kind == "pass-through":
        return lambda key, context, server: user_auth.PassedOnToken()
    if found.kind == "token-exchange":
        options = {
            ("token_endpoint" if key == "token_endpoint" else key): value for key, value in found.options.items()
        }
        exchange = user_auth.TokenExchange(**options)
        return lambda key, context, server: user_auth.ExchangedToken(exchange)

    def signed_in(key: str, context: TransportContext, server: UserServer) -> Any:
        own = UserStorage(storage, key, server.name)
        if sign_ins is None:
            return auth_of(found, own)
        principal = context.principal
        # A principal may be an object of the program's own verifier.
        account = str(getattr(principal, "subject", None) or getattr(principal, "client_id", None) or principal)
        return user_auth.SignedInUser(
            server.name, account, own, sign_ins, lambda: server.background, server.announce, found.options
        )

    return signed_in


def needs_url(name: str, target: Any, where: str) -> HttpTarget:
    """Return a target that can have credentials.

    Raises:
        ConfigError: it has no URL.
    """
    if not isinstance(target, HttpTarget):
        raise ConfigError(f"{where}: {name} has 'auth' and no 'url'; a program gets its credentials in 'env'")
    return target
