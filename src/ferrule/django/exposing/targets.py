"""What can be exposed of a project, in the form that `ferrule.django.exposing.exposures` uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from django.urls import ResolverMatch

from ferrule.django.access.principals import DjangoPrincipal
from ferrule.expose.description.reader import Description
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.operations import Operation

__all__ = ["ExposedTarget", "ForwardedHeaders", "NothingExposed", "Sender", "outer_request"]

outer_request: ContextVar[Any] = ContextVar("ferrule_django_outer_request", default=None)
"""The request to the endpoint, while it is found what its sender may see; ``None`` over stdio and in process."""


class NothingExposed(ValueError):
    """An argument of `DjangoServer.expose` has no operation that could be a tool; the text says why."""


class ForwardedHeaders:
    """The headers of a request that the views get which a call runs.

    Args:
        always: names of headers for every view, in lower case.
        of_sessions: names of those that belong to a session, which views get only where the sender is its user: a view
            would take that user for the sender.

    Attributes:
        names: all of them, each once: a header that is passed on twice has two values.
    """

    def __init__(self, always: Iterable[str], of_sessions: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys((*always, *of_sessions)))
        # A cookie in any case: it may be that of a session.
        withheld = {*of_sessions, "cookie"} - {name for name in always if name != "cookie"}
        self._without_session = tuple(name for name in self.names if name not in withheld)

    def of(self, principal: DjangoPrincipal | None) -> tuple[str, ...]:
        """Return the names for a sender."""
        return self.names if principal is not None and principal.is_session else self._without_session


class Sender(NamedTuple):
    """Who asks what may be seen.

    Attributes:
        principal: the user.
        request: the request to the endpoint, as Django made it; ``None`` over stdio and in process.
        headers: names of its headers that a call passes on, in lower case.
    """

    principal: DjangoPrincipal
    request: Any
    headers: tuple[str, ...]


class ExposedTarget(Protocol):
    """Views that were exposed together."""

    def urlconf(self) -> Any:
        """Return the URLconf of the views; ``None`` for that of the project."""
        ...

    def describe(self) -> Description:
        """Return the operations of the views; called before the other methods.

        Raises:
            NothingExposed: there is none.
        """
        ...

    def allows(self, operation: Operation, sender: Sender) -> bool:
        """Return whether a sender may see an operation; may query the database."""
        ...

    def view_of(self, operation: Operation) -> Any:
        """Return a view of Django REST framework for a request to an operation; ``None`` if it has none."""
        ...

    def without_effect(self) -> Sequence[tuple[type[Any], str]]:
        """Return the views whose ``@extend_schema`` has no effect on the description: their class and their method."""
        ...

    def expects(self, method: str, route: str) -> Callable[[ResolverMatch], bool] | None:
        """Return whether a resolved path leads to the view of an operation, as a function; ``None`` for any view."""
        ...

    def finish(self, request: ApiRequest) -> ApiRequest:
        """Return a request with what all requests to its operation have: a version of the API."""
        ...
