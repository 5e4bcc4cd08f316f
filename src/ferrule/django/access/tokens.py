"""Tokens of users, made by the package to which the project's authentication classes belong."""

# The packages are not typed, and a project has one of them.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# mypy: ignore-missing-imports

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

from ferrule.django.access.authentication import authenticators_of

__all__ = ["MadeToken", "NoTokens", "authentication_classes", "make_token"]


class NoTokens(Exception):
    """No authentication class of the project has tokens that can be made here; the text says what it has."""


class MadeToken(NamedTuple):
    """A token of a user.

    Attributes:
        token: the secret.
        keyword: what stands before it in the header ``Authorization``.
        header: the name of the header.
        note: how long it is valid, or whether it existed before.
    """

    token: str
    keyword: str
    header: str = "Authorization"
    note: str = ""


def authentication_classes(server: Any) -> list[Any]:
    """Return the authentication classes of a server."""
    return [type(each) for each in authenticators_of(server.settings).each]


def make_token(user: Any, classes: Iterable[Any]) -> MadeToken:
    """Return a token of a user.

    Args:
        user: the user.
        classes: the authentication classes of the server; the first one with tokens is used.

    Raises:
        NoTokens: none of them has tokens that can be made here.
    """
    found = list(classes)
    for kind in found:
        for base in kind.__mro__:
            maker = _MAKERS.get(f"{base.__module__}.{base.__qualname__}")
            if maker is not None:
                return maker(user, kind)
    # Ours have a label; the others are classes of packages and of the project.
    names = ", ".join(getattr(kind, "label", f"{kind.__module__}.{kind.__qualname__}") for kind in found)
    known = "rest_framework.authtoken, knox and rest_framework_simplejwt"
    has = f"it has {names}" if names else "it has no authentication class"
    advice = ""
    if any(kind.__module__.startswith("oauth2_provider") for kind in found):
        advice = ". With django-oauth-toolkit a client signs in and gets its token from the project's token endpoint"
    raise NoTokens(f"The server accepts no tokens that can be made here: {has}. Known are those of {known}{advice}")


def _authtoken(user: Any, kind: Any) -> MadeToken:
    model = kind().get_model()
    token, is_new = model.objects.get_or_create(user=user)
    note = "it does not expire" if is_new else "the user had it before; it does not expire"
    return MadeToken(token.key, kind.keyword, note=note)


def _knox(user: Any, _: Any) -> MadeToken:
    models, settings = import_module("knox.models"), import_module("knox.settings").knox_settings
    made, token = models.get_token_model().objects.create(user=user)
    note = "it does not expire" if made.expiry is None else f"valid until {made.expiry:%Y-%m-%d %H:%M %Z}"
    return MadeToken(token, settings.AUTH_HEADER_PREFIX, note=note)


def _simplejwt(user: Any, _: Any) -> MadeToken:
    tokens, settings = (
        import_module("rest_framework_simplejwt.tokens"),
        import_module("rest_framework_simplejwt.settings").api_settings,
    )
    made = tokens.AccessToken.for_user(user)
    header = settings.AUTH_HEADER_NAME.removeprefix("HTTP_").replace("_", "-").title()
    return MadeToken(str(made), settings.AUTH_HEADER_TYPES[0], header, f"valid for {made.lifetime}")


_MAKERS: dict[str, Callable[[Any, Any], MadeToken]] = {
    "rest_framework.authentication.TokenAuthentication": _authtoken,
    "knox.auth.TokenAuthentication": _knox,
    "rest_framework_simplejwt.authentication.JWTAuthentication": _simplejwt,
}
"""Authentication class → makes a token."""
