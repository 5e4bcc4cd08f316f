"""A request to an operation before it is called: who may see it is asked of code that expects a request.

It notes what is looked at, so that an answer that depends on values of the call is not taken for one about the sender.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from ferrule.django.access.authentication import without_cookies
from ferrule.django.exposing.targets import Sender

__all__ = ["RequestWithoutValues", "own_host", "request_without_values"]

_MISSING = " missing"
"""Noted where an attribute is read that a request has not."""

_VALUES = frozenset({"GET", "POST", "FILES", "body", "read", "readline", "readlines", "resolver_match"})
"""Attributes of a request that hold the values of a call, of which nothing is known before it."""

_PATHS = frozenset({"path", "path_info"})

_OF_OPERATION = frozenset({*_PATHS, "META", "method"})
"""Attributes that differ from operation to operation; an answer that needs none of them holds for all operations."""

_OF_COOKIES = frozenset({"auser", "session", "user"})

_OF_OUTER = frozenset(
    {
        *("COOKIES", "GET", "POST", "FILES", "META", "method", "path", "path_info", "resolver_match", "headers"),
        *("environ", "scope", "content_type", "content_params", "accepted_types", "accepted_types_by_precedence"),
        *("_body", "_post", "_files", "_stream", "_read_started", "_data", "_full_data"),
    }
)
"""Attributes of the outer request that belong to its own URL, headers or body; middleware has set the others."""


def own_host() -> str:
    """Return a host that ``ALLOWED_HOSTS`` accepts, where no outer request names one."""
    names = [name.lstrip(".") for name in settings.ALLOWED_HOSTS if name.strip(".") not in ("*", "")]
    return names[0] if names else "localhost"


class RequestWithoutValues(HttpRequest):
    """A request without values, which notes what is looked at.

    Attributes:
        undecided: attributes of which nothing is known.
        read_names: attributes that were looked at, of those that matter here.
    """

    undecided: Set[str] = frozenset()

    def __init__(self) -> None:
        self.read_names: set[str] = set()
        super().__init__()

    def __getattr__(self, name: str) -> Any:
        # What middleware sets for each call, and nothing has set here: not known before the call.
        if not name.startswith("_"):
            self.__dict__["read_names"].add(_MISSING)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __getattribute__(self, name: str) -> Any:
        if name in _NOTED:
            self.__dict__["read_names"].add(name)
        return super().__getattribute__(name)

    @property
    def is_undecided(self) -> bool:
        """Whether something was looked at that only a call has."""
        return not self.read_names.isdisjoint(self.undecided)

    @property
    def is_specific(self) -> bool:
        """Whether the answer may be another one for another operation."""
        return self.is_undecided or not self.read_names.isdisjoint(_OF_OPERATION)


_NOTED = _VALUES | _OF_OPERATION | _OF_COOKIES


def request_without_values(method: str, path: str, sender: Sender) -> Any:
    """Return a request with all that a call has before its arguments are known.

    It has the headers that a call passes on, the host and the address of the sender, and what middleware has set on the
    request to the endpoint.

    Args:
        method: the HTTP method of the operation.
        path: its path, with ``{name}`` for arguments.
        sender: who asks.
    """
    made: Any = RequestWithoutValues()
    made.undecided = {_MISSING, *_VALUES, *(_PATHS if "{" in path else ())}
    outer: Any = sender.request
    meta: dict[str, Any] = {}
    if outer is None:
        from django.contrib.auth.models import AnonymousUser  # a project may lack these models

        made.user = AnonymousUser() if sender.principal.user is None else sender.principal.user
        meta = {"HTTP_HOST": own_host(), "SERVER_NAME": own_host(), "SERVER_PORT": "80", "REMOTE_ADDR": "127.0.0.1"}
    else:
        cookies: dict[str, str] = outer.COOKIES if sender.principal.is_session else {}
        if outer.COOKIES and not sender.principal.is_session:
            # Whom middleware would find without the cookies, which a call does not have, is not known.
            outer, made.undecided = without_cookies(outer), made.undecided | _OF_COOKIES
        made.__dict__.update((name, value) for name, value in outer.__dict__.items() if name not in _OF_OUTER)
        meta = {name: value for name, value in outer.META.items() if _is_passed_on(name, sender.headers)}
        made.COOKIES = cookies
    made.META = {**meta, "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": ""}
    made.method, made.path_info, made.path = method, path, f"{meta.get('SCRIPT_NAME', '').rstrip('/')}{path}"
    made._dont_enforce_csrf_checks = True  # the endpoint has checked the token of a session
    assert made.headers is not None  # made from META now, so that reading a header does not count as reading META
    made.read_names.clear()
    return made


def _is_passed_on(name: str, headers: tuple[str, ...]) -> bool:
    """Return whether a member of ``META`` is one of the request to an operation, too."""
    if not name.startswith("HTTP_"):
        return not name.startswith(("CONTENT_", "wsgi."))
    return name == "HTTP_HOST" or name.removeprefix("HTTP_").replace("_", "-").lower() in headers
