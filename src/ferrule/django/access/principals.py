"""Who sends a request to a Django server: the user that the project's own authentication classes find."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.signals import setting_changed
from django.utils.functional import SimpleLazyObject

from ferrule.auth.server.verifiers import scopes_of
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.django.access.verified import VerifiedSender

__all__ = ["ALL_SCOPES", "DjangoPrincipal", "UnknownSender", "local_principal"]


class UnknownSender(TypeError):
    """An authentication class returned a user or a token that nothing identifies in other processes."""


class _AllScopes(frozenset[str]):
    def issuperset(self, other: Iterable[object]) -> bool:
        """Return ``True``."""
        return True


ALL_SCOPES: Final = _AllScopes()
"""The scopes of a sender that needs no token."""


class DjangoPrincipal:
    """The sender of a request.

    Two principals are equal if they are the same user, acting through the same OAuth client. A refreshed token, or one
    with other scopes, therefore has the same principal; sessions and tasks belong to it.

    Args:
        user: the user; ``None`` for an anonymous sender, and for a client that acts for itself.
        auth: what the authentication class returns besides: a token, or ``None``.
        is_forced: the user is given by the program, as by ``manage.py mcp``, and views do not authenticate again.
        is_session: the user is that of a session cookie.

    Attributes:
        id: identifies the sender in every process: the primary key of the user, as text, with the client behind a
            space if the token names one. Empty for an anonymous sender; with a space in front for one that is no user
            of the project.
        client_id: the OAuth client that acts; ``None`` if the token names none.
        scopes: scopes of the token; all of them for a user that the program gives.
        answers: what the sender may see, by the function that decides it; see `ferrule.django.permissions`.
        verified: what the authentication of this request has found, for the view that it calls; ``None`` for nothing,
            or after `take_verified`.

    Raises:
        UnknownSender: neither the user nor the token has something that identifies it.
    """

    __slots__ = ("answers", "auth", "client_id", "id", "is_forced", "is_session", "scopes", "user", "verified")

    def __init__(self, user: Any, auth: Any = None, *, is_forced: bool = False, is_session: bool = False) -> None:
        self.user = user
        self.auth = auth
        self.is_forced = is_forced
        self.is_session = is_session
        self.client_id = _client_of(auth)
        self.id = _identity(user, auth, self.client_id)
        self.scopes: frozenset[str] = ALL_SCOPES if is_forced else _scopes_of(auth)
        self.answers: dict[Any, bool] = {}
        self.verified: VerifiedSender | None = None

    def take_verified(self) -> VerifiedSender | None:
        """Return `verified` to the first who asks, and ``None`` to all others; called on the event loop."""
        found, self.verified = self.verified, None
        return found

    @classmethod
    def of_id(cls, id: str | None) -> DjangoPrincipal:
        """Return the sender of a task that another process received; its user is read when it is first used.

        It has no token and no scopes. A user who is not active any more, or is gone, is anonymous.

        Args:
            id: the `id` of the principal; ``None`` or ``""`` for an anonymous sender.
        """
        made = cls(None, is_forced=True)
        made.scopes = frozenset()
        if id:
            made.id = id
            key, _, client_id = id.partition(" ")
            made.client_id = _unescaped(client_id) if key and client_id else None
            if key:  # else no user of the project, whom nothing finds again
                made.user = SimpleLazyObject(lambda: _active_user(_unescaped(key)))
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DjangoPrincipal) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"DjangoPrincipal({self.id!r})"


def _active_user(key: str) -> Any:
    from django.contrib.auth.models import AnonymousUser  # a project may lack these models

    users: Any = get_user_model()
    try:
        found = users._default_manager.filter(pk=key).first()
    except (ValueError, ValidationError):  # of a project that has changed the type of the keys
        found = None
    # A model that is not made of Django's need not have the flag.
    return found if found is not None and getattr(found, "is_active", True) else AnonymousUser()


def _identity(user: Any, auth: Any, client_id: str | None) -> str:
    if user is None:
        if auth is None:
            return ""
        if client_id is not None:
            return f" client {_escaped(client_id)}"
        return f" token {_kind_of(auth)} {_identity_of_token(auth)}"
    key = getattr(user, "pk", None)  # models of Django have it; a class of the project may return another object
    if key is None:  # not of a model, or not saved
        # Users of Django's classes have the method; those of other classes may have the attribute only, or neither.
        name = user.get_username() if hasattr(user, "get_username") else getattr(user, "username", None)
        if not isinstance(name, str) or not name:
            raise UnknownSender(f"a {type(user).__name__} as user has neither a primary key nor a name")
        found = f" name {_kind_of(user)} {_escaped(name)}"
    else:
        found = _escaped(str(key))
        # Keys of other classes may be equal to those of users.
        kind: Any = user.__class__  # of a `SimpleLazyObject` that of its object, as `isinstance` takes it
        if not _is_user_of_project(kind):
            found = f" user {_kind_of(user)} {found}"
    return found if client_id is None else f"{found} {_escaped(client_id)}"


@lru_cache(maxsize=64)
def _is_user_of_project(kind: Any) -> bool:
    return apps.is_installed("django.contrib.auth") and issubclass(kind, get_user_model())


def _forget_users(**_: Any) -> None:
    _is_user_of_project.cache_clear()


setting_changed.connect(_forget_users)  # sent by tests only


def _identity_of_token(auth: Any) -> str:
    """Return a text for a token without a user; never the token itself, since the text is stored and logged."""
    key = getattr(auth, "pk", None)  # tokens that are rows of a table have it
    if key is not None:
        return _escaped(str(key))
    if isinstance(auth, str | bytes):
        return hashlib.sha256(auth.encode() if isinstance(auth, str) else auth).hexdigest()
    claims = _claims(auth)
    subject = None if claims is None else claims("sub")
    if isinstance(subject, str) and subject:
        return _escaped(subject)
    raise UnknownSender(f"a {type(auth).__name__} without a user has neither a primary key, a subject nor a client")


def _client_of(auth: Any) -> str | None:
    """Return the OAuth client of a token: of django-oauth-toolkit its application, of a JWT a claim."""
    application = getattr(auth, "application", None)  # tokens of django-oauth-toolkit have it
    # The application is `None` for a token that another server issued.
    found = getattr(application, "client_id", None)
    if not found and (claims := _claims(auth)) is not None:
        found = claims("client_id") or claims("azp")
    return found if isinstance(found, str) and found else None


def _scopes_of(auth: Any) -> frozenset[str]:
    """Return the scopes of a token: of django-oauth-toolkit a text, of a JWT a claim."""
    given = getattr(auth, "scope", None)  # tokens of django-oauth-toolkit have it
    if given is None:
        given = getattr(auth, "scopes", None)  # tokens of other classes may call it so
    if given is None:
        claims = _claims(auth)
        return frozenset() if claims is None else scopes_of({name: _plain(claims(name)) for name in ("scope", "scp")})
    return scopes_of({"scope": _plain(given)})


def _plain(given: Any) -> Any:
    # Any iterable counts as a list of scopes, by Python's protocol.
    return given if isinstance(given, str) or not hasattr(given, "__iter__") else list(given)


def _claims(auth: Any) -> Any:
    """Return the function that returns a claim of a token by its name; ``None`` if it has no claims.

    The tokens of simplejwt are no mappings, and have ``get``.
    """
    # By name, since a project need not have simplejwt.
    return auth.get if is_mapping(auth) or (hasattr(auth, "payload") and hasattr(auth, "get")) else None


def _kind_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace(" ", "%20")


def _unescaped(text: str) -> str:
    return text.replace("%20", " ").replace("%25", "%")


local_principal: ContextVar[DjangoPrincipal | None] = ContextVar("ferrule_django_local_principal", default=None)
"""The sender of requests over stdio and in process; ``None`` where the program names none, and all is allowed."""
