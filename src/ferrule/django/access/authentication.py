"""The sender of a request, found by the authentication of the project.

The classes are those of the setting ``MCP["AUTHENTICATION"]``, else those of Django REST framework. They get the
request without its cookies and the user of its session, since a browser sends cookies with requests of any page. Only
classes that read the session, which count with ``MCP["SESSION_AUTHENTICATION"]``, get them; they check CSRF tokens.
None gets an access token that is in the URL, where it must not be (2026-07-28, "Authorization", "Access Token Usage").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, cast
from urllib.parse import unquote_plus

from django.apps import apps
from django.conf import settings as project
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.module_loading import import_string

from ferrule.django.access.principals import DjangoPrincipal
from ferrule.django.access.verified import VerifiedSender
from ferrule.django.conf import DjangoSettings
from ferrule.transports.asgi.context import HttpRefusal
from ferrule.wire.json_types import is_array, is_mapping, is_pair

__all__ = ["REQUEST_KEY", "AuthenticationRefused", "Authenticators", "authenticators_of", "without_cookies"]

REQUEST_KEY = "ferrule.django.request"
"""Key of a scope: the request, as Django made it."""

MAX_REASON_CHARS = 300
"""Of the text with which a class refuses credentials; the rest is left out."""


class AuthenticationRefused(HttpRefusal):
    """A request is refused.

    Attributes:
        challenges: the challenges of all classes (RFC 9110, 11.6.1).
        has_credentials: whether it has credentials, which are wrong.
        wait_s: seconds after which the client may try again; ``None`` where that does not help.
    """

    def __init__(
        self, status: int, message: str, challenges: list[str], *, has_credentials: bool, wait_s: float | None
    ) -> None:
        super().__init__(status, message)
        self.challenges = challenges
        self.has_credentials = has_credentials
        self.wait_s = wait_s


def authenticators_of(settings: DjangoSettings) -> Authenticators:
    """Return the authentication of a project.

    Args:
        settings: the setting ``MCP``.

    Raises:
        ImportError: a name in ``MCP["AUTHENTICATION"]`` does not exist.
    """
    framework = _framework_of(settings)
    if settings.authentication is not None:
        given: list[Any] = [import_string(name) for name in settings.authentication]
    else:
        given = [] if framework is None else list(framework.api_settings.DEFAULT_AUTHENTICATION_CLASSES)
    if not settings.session_authentication:
        given = [each for each in given if not _reads_session(each)]
    elif framework is None:
        given.append(_Session)
    return Authenticators([_made(each) for each in given], settings, framework)


class Authenticators:
    """The authentication of a project.

    Args:
        each: the objects that authenticate, in their order.
        settings: the setting ``MCP``.
        framework: Django REST framework; ``None`` without.
    """

    def __init__(self, each: Sequence[Any], settings: DjangoSettings, framework: _RestFramework | None) -> None:
        self.each = each
        self.settings = settings
        self.framework = framework

    def principal_of(self, request: Any) -> DjangoPrincipal:
        """Return the sender of a request; blocks.

        Raises:
            AuthenticationRefused: its credentials are wrong, or it has none and the server requires a login.
            UnknownSender: nothing identifies the user that a class returned.
        """
        return _Attempt(self, request).run()

    def challenges_of(self, request: Any) -> list[str]:
        """Return the challenges of all classes for a request without credentials, each once."""
        return _Attempt(self, request).challenges()


class _Attempt:
    """The authentication of one request.

    Classes may leave what they found with the request that they got, for their challenges: each gets the same again.
    """

    def __init__(self, authenticators: Authenticators, request: Any) -> None:
        self._each = authenticators.each
        self._settings = authenticators.settings
        self._framework = authenticators.framework
        self._has_header = "HTTP_AUTHORIZATION" in request.META
        request = _without_token_in_url(request)
        self._whole = self._as_seen(request)
        self._plain = self._as_seen(without_cookies(request)) if "HTTP_COOKIE" in request.META else self._whole

    def run(self) -> DjangoPrincipal:
        """See `Authenticators.principal_of`."""
        for each in self._each:
            found = self._ask(each)
            if found is not None:
                return self._principal(each, *found)
        return self._without_credentials()

    def challenges(self) -> list[str]:
        """See `Authenticators.challenges_of`."""
        found = (each.authenticate_header(self._seen_by(each)) for each in self._each)
        return list(dict.fromkeys(text for text in found if isinstance(text, str) and _is_header(text)))

    def _as_seen(self, request: Any) -> Any:
        framework = self._framework
        if framework is None:
            return request
        # The CSRF check looks for a form in the body, which needs a parser.
        made = framework.Request(request, parsers=[framework.JSONParser()], authenticators=self._each)
        # For parsers of forms only. Without this reference to itself the request ends with its last use.
        made.parser_context.pop("request", None)
        return made

    def _seen_by(self, each: Any) -> Any:
        """Return the request for a class: with cookies only for one that reads the session."""
        return self._whole if _reads_session(type(each)) else self._plain

    def _ask(self, each: Any) -> tuple[Any, Any] | None:
        try:
            found: Any = each.authenticate(self._seen_by(each))
        except PermissionDenied as error:
            raise self._refusal(403, _text_of(error)) from error
        except SuspiciousOperation as error:
            raise self._refusal(400, "The request is malformed") from error
        except Exception as error:
            if self._framework is None or not isinstance(error, self._framework.APIException):
                raise
            failed: Any = error
            wait_s = getattr(error, "wait", None)  # of `Throttled`
            raise self._refusal(failed.status_code, _text_of(failed.detail), wait_s=wait_s) from error
        if found is None:
            return None
        if not is_pair(found):
            raise TypeError(f"{type(each).__qualname__}.authenticate() returned neither None nor (user, auth)")
        if _reads_session(type(each)):  # a class of the project may leave out the check
            # Django's own request, which the one of Django REST framework keeps inside.
            reason = _csrf_problem(getattr(self._whole, "_request", self._whole))
            if reason is not None:
                raise self._refusal(403, f"CSRF Failed: {reason}")
        return found

    def _principal(self, each: Any, user: Any, auth: Any) -> DjangoPrincipal:
        if not _is_authenticated(user):
            return self._without_credentials() if auth is None else DjangoPrincipal(None, auth)
        if getattr(user, "is_active", True) is False:  # users of a class that is not Django's may lack it
            raise self._refusal(401, "User inactive or deleted.")
        made = DjangoPrincipal(user, auth, is_session=_reads_session(type(each)))
        without_sessions = [other for other in self._each if not _reads_session(type(other))]
        made.verified = VerifiedSender.of(without_sessions, each, user, auth, self._plain)
        return made

    def _without_credentials(self) -> DjangoPrincipal:
        if not self._settings.require_login:
            return DjangoPrincipal(None)
        text = "Authentication credentials were not provided."
        if not self._each:
            text = "This server has no authentication class that could accept credentials"
        raise self._refusal(401, text, has_credentials=False)

    def _refusal(
        self, status: int, text: str, *, has_credentials: bool = True, wait_s: float | None = None
    ) -> AuthenticationRefused:
        return AuthenticationRefused(status, text, self.challenges(), has_credentials=has_credentials, wait_s=wait_s)


class _RestFramework(NamedTuple):
    """What is used of Django REST framework."""

    api_settings: Any
    Request: Any
    JSONParser: Any
    APIException: type[Exception]
    SessionAuthentication: type[Any]


@lru_cache(maxsize=1)
def _rest_framework() -> _RestFramework | None:
    try:
        from rest_framework.authentication import SessionAuthentication
        from rest_framework.exceptions import APIException
        from rest_framework.parsers import JSONParser
        from rest_framework.request import Request
        from rest_framework.settings import api_settings
    except ImportError:
        return None
    return _RestFramework(api_settings, Request, JSONParser, APIException, SessionAuthentication)


def _framework_of(settings: DjangoSettings) -> _RestFramework | None:
    """Return Django REST framework where the project uses it; it may be there for another package only.

    Its own defaults, which accept passwords, are then nothing that the project has chosen.
    """
    uses = settings.authentication is not None or hasattr(project, "REST_FRAMEWORK")  # a setting that it may lack
    return _rest_framework() if uses or apps.is_installed("rest_framework") else None


def _reads_session(kind: Any) -> bool:
    framework = _rest_framework()
    known = (_Session,) if framework is None else (_Session, framework.SessionAuthentication)
    return isinstance(kind, type) and issubclass(kind, known)


def _made(given: Any) -> Any:
    return given() if isinstance(given, type) else _Function(given)


class _Function:
    """A function ``(request) -> user``, ``(user, token)`` or ``None`` as an authentication class."""

    label = "a function"

    def __init__(self, function: Any) -> None:
        self._function = function

    def authenticate(self, seen: Any) -> tuple[Any, Any] | None:
        found: Any = self._function(getattr(seen, "_request", seen))  # a function gets the request of Django
        if found is None or is_pair(found):
            return found
        if hasattr(found, "__await__"):  # a coroutine or another awaitable, by Python's protocol
            raise TypeError(f"{self._function.__qualname__} is async; MCP['AUTHENTICATION'] takes plain functions")
        return found, None

    def authenticate_header(self, seen: Any) -> str:
        return str(getattr(self._function, "challenge", "Bearer"))  # an attribute that its author may set


class _Session:
    """The user of the session, without Django REST framework."""

    label = "the session"

    def authenticate(self, request: Any) -> tuple[Any, Any] | None:
        user = getattr(request, "user", None)  # set by middleware that a project may lack
        if not _is_authenticated(user):
            return None
        return user, None

    def authenticate_header(self, request: Any) -> str | None:
        return None


def _csrf_problem(request: Any) -> str | None:
    """Return why the CSRF token of a request is missing or wrong; ``None`` for a right one."""
    check: Any = _CsrfCheck(cast("Any", lambda _: None))  # type: ignore[redundant-cast,unused-ignore]
    check.process_request(request)
    reason: str | None = check.process_view(request, None, (), {})
    return reason


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: Any, reason: str) -> Any:
        return reason


def _without_token_in_url(request: Any) -> Any:
    """Return a request without the parameter ``access_token``, which RFC 6750, 2.3 had and OAuth 2.1 has not."""
    query = request.META.get("QUERY_STRING", "")
    if not query:
        return request
    parts = query.split("&")
    kept = [part for part in parts if unquote_plus(part.partition("=")[0]) != "access_token"]
    if len(kept) == len(parts):
        return request
    return _copied(request, {**request.META, "QUERY_STRING": "&".join(kept)}, ("GET",))


def without_cookies(request: Any) -> Any:
    """Return a copy of a request, as it were without cookies: also without the session and its user."""
    meta = {name: value for name, value in request.META.items() if name != "HTTP_COOKIE"}
    made = _copied(request, meta, ("COOKIES", "headers", "_cached_user", "_acached_user"))
    made.COOKIES = {}
    if hasattr(request, "session"):  # set by middleware that a project may lack
        made.session = import_module(project.SESSION_ENGINE).SessionStore()
    if hasattr(request, "user"):  # as above
        from django.contrib.auth.models import AnonymousUser  # a project may lack these models

        made.user = AnonymousUser()
    return made


def _copied(request: Any, meta: dict[str, Any], made_from_it: Iterable[str]) -> Any:
    made = copy(request)
    made.META = meta
    if hasattr(made, "environ"):  # of WSGI; the same object in a request that Django has made
        made.environ = meta
    if hasattr(made, "scope"):  # of ASGI
        headers = [pair for pair in made.scope["headers"] if "HTTP_COOKIE" in meta or pair[0].lower() != b"cookie"]
        made.scope = {**made.scope, "headers": headers, "query_string": meta.get("QUERY_STRING", "").encode()}
    for name in made_from_it:
        made.__dict__.pop(name, None)
    return made


def _is_authenticated(user: Any) -> bool:
    # A class of the project may return any object as user; Django's have a property, some others a method.
    found = getattr(user, "is_authenticated", False)
    return bool(found() if callable(found) else found)


def _text_of(detail: Any) -> str:
    """Return what a class says in one sentence; packages give texts, lists, and dicts with ``detail``."""
    if is_mapping(detail):
        detail = detail.get("detail") or next(iter(detail.values()), "")
    if is_array(detail):
        detail = detail[0] if detail else ""
    text = " ".join(str(detail).split()) or "The credentials were refused"
    return text[:MAX_REASON_CHARS]


def _is_header(text: str) -> bool:
    return bool(text) and all(" " <= character <= "~" for character in text)
