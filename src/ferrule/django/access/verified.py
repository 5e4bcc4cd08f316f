"""The sender that the endpoint has found, for the one view that the same request calls.

A view of Django REST framework authenticates each request. If its classes are those of the endpoint, the credentials
are the same, and the classes look at nothing else, the result is the same too. The view then takes that of the
endpoint, so that each call looks up its token once. In every other case the view authenticates as always.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from time import monotonic
from types import FunctionType
from typing import Any, Final, Self

__all__ = ["MAX_AGE_S", "VerifiedSender", "give_to_views"]

MAX_AGE_S: Final = 10.0
"""Seconds after which a result is not used any more: a token may have been revoked while a call waited."""

_HEADER: Final = "HTTP_AUTHORIZATION"

_SIMPLEJWT: Final = "rest_framework_simplejwt.authentication"
_KNOWN: Final = {
    "rest_framework.authentication": ("TokenAuthentication",),
    "knox.auth": ("TokenAuthentication",),
    _SIMPLEJWT: ("JWTAuthentication", "JWTStatelessUserAuthentication"),
}
"""Module → classes that look at the header ``Authorization`` and at nothing else of a request."""


class VerifiedSender:
    """What authentication classes have found for one request.

    Args:
        kinds: the classes of the endpoint that do not read the session, in their order.
        kind: the class that knows the sender.
        user, auth: what it returned.
        request: the request of the endpoint.
    """

    __slots__ = ("_header", "_kind", "_kinds", "_until", "auth", "user")

    def __init__(self, kinds: list[Any], kind: Any, user: Any, auth: Any, request: Any) -> None:
        self.user = user
        self.auth = auth
        self._kinds = kinds
        self._kind = kind
        self._header = request.META.get(_HEADER)
        self._until = monotonic() + MAX_AGE_S

    @classmethod
    def of(cls, authenticators: Sequence[Any], known_by: Any, user: Any, auth: Any, request: Any) -> Self | None:
        """Return the result of authenticators; ``None`` if one that was asked may find something else for a view.

        Args:
            authenticators: those of the endpoint that do not read the session, in their order.
            known_by: the one that knows the sender.
            user, auth: what it returned.
            request: the request of the endpoint.
        """
        kinds: list[Any] = [type(each) for each in authenticators]
        at = next((at for at, each in enumerate(authenticators) if each is known_by), None)
        if at is None or not all(map(_looks_at_the_header_only, kinds[: at + 1])):
            return None
        return cls(kinds, kinds[at], user, auth, request)

    def authenticator_for(self, request: Any) -> Any:
        """Return the authenticator of a view's request that would find the same; ``None`` if the view must ask.

        Args:
            request: the request of Django REST framework.
        """
        from rest_framework.views import APIView

        view = request.parser_context.get("view")
        # A function view or a view of another framework has none.
        chooses: Any = getattr(view, "get_authenticators", None)
        if getattr(chooses, "__func__", None) is not APIView.get_authenticators:  # of any class
            return None
        if request.META.get(_HEADER) != self._header or "HTTP_COOKIE" in request.META:
            return None
        if monotonic() > self._until:
            return None
        asked = _without_sessions(request.authenticators, request)
        if asked is None or [type(each) for each in asked] != self._kinds:
            return None
        return asked[self._kinds.index(self._kind)]


def _without_sessions(authenticators: Iterable[Any], request: Any) -> list[Any] | None:
    """Return the authenticators that do not read the session; ``None`` if one that does may find a user."""
    from rest_framework.authentication import SessionAuthentication

    found: list[Any] = []
    for each in authenticators:
        if not isinstance(each, SessionAuthentication):
            found.append(each)
        elif type(each).authenticate is not SessionAuthentication.authenticate:
            return None
        else:
            user = getattr(request._request, "user", None)  # set by middleware that a project may lack
            if user is not None and user.is_active:
                return None
    return found


def _looks_at_the_header_only(kind: Any) -> bool:
    known = _known_module(kind)
    return known is not None and (known != _SIMPLEJWT or _is_default_header_of_jwt())


@lru_cache(maxsize=64)
def _known_module(kind: Any) -> str | None:
    """Return the module of the known class whose functions a class has; ``None`` if it has others.

    A class may have another keyword or model, but no function of its own: that may read any part of the request, or
    leave something in the thread for the view.
    """
    mro: tuple[type[object], ...] = kind.__mro__
    for each in mro:
        if each.__name__ in _KNOWN.get(each.__module__, ()):
            return each.__module__
        if not all(_is_data(name, value) for name, value in vars(each).items()):
            return None
    return None


def _is_data(name: str, value: Any) -> bool:
    is_of_python = name.startswith("__") and not isinstance(value, FunctionType)  # such as `__module__`
    return is_of_python or isinstance(value, str | None) or (name == "model" and isinstance(value, type))


def _is_default_header_of_jwt() -> bool:
    settings: Any = import_module(_SIMPLEJWT.replace("authentication", "settings"))  # a project need not have it
    return bool(settings.api_settings.AUTH_HEADER_NAME == _HEADER)


def give_to_views() -> None:
    """Let requests of Django REST framework use the `VerifiedSender` of the request that they are made of.

    Only requests of `DjangoCaller` have one. Django REST framework has no hook between the view, which chooses the
    authenticators, and their use, other than a fixed user, which would hide from a view which class knows the sender.
    """
    from rest_framework.request import Request

    kind: Any = Request
    original = kind._authenticate
    if hasattr(original, "takes_verified"):  # this was done before
        return

    def _authenticate(self: Any) -> None:
        verified: VerifiedSender | None = getattr(self._request, "verified_sender", None)  # see above
        authenticator = None if verified is None else verified.authenticator_for(self)
        if verified is None or authenticator is None:
            original(self)
            return
        self._authenticator = authenticator
        self.user, self.auth = verified.user, verified.auth

    _authenticate.takes_verified = True  # type: ignore[attr-defined]
    kind._authenticate = _authenticate
