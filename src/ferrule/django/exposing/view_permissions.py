"""Whether a user may see a view: what its permission classes say of a request that has no values yet.

A permission class that looks at the values of the request (its path, query or body), and then refuses or fails, has not
decided about the user: it may allow another request. The tool is shown then, and the view decides about each call.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple, cast

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, QueryDict
from rest_framework import permissions
from rest_framework.exceptions import APIException
from rest_framework.views import APIView

from ferrule.django.access.principals import DjangoPrincipal
from ferrule.django.access.scopes import asks_for_scopes
from ferrule.django.exposing.descriptions import Endpoint
from ferrule.django.exposing.requests_without_values import request_without_values
from ferrule.django.exposing.targets import Sender

__all__ = ["allows_without_object"]

logger = logging.getLogger(__name__)


def allows_without_object(endpoint: Endpoint, sender: Sender) -> bool:
    """Return whether the permission classes of a view allow a sender's request, as far as they decide without values.

    Args:
        endpoint: the endpoint of the view.
        sender: who asks.
    """
    principal = sender.principal
    read = _Read()
    request: Any = None
    try:
        only_of_user = _permissions_of_user(endpoint)
        if only_of_user is not None and principal.user is not None:
            seen: Any = _OfUser(principal.user, endpoint.method)
            return all(kind().has_permission(seen, cast("Any", None)) for kind in only_of_user)
        request = request_without_values(endpoint.method, endpoint.path, sender)
        view = _view_of(endpoint, request, principal, read)
        view.perform_authentication(view.request)
        request.read_names.clear()  # by what finds the user
        # A missing scope hides no tool: a call says which scope to ask for.
        asked = (each for each in view.get_permissions() if not asks_for_scopes(each))
        allowed = all(permission.has_permission(view.request, view) for permission in asked)
    except Exception as error:
        allowed = False
        is_refusal = isinstance(error, APIException | Http404 | PermissionDenied)
        if not is_refusal and not read.happened and not (request is not None and request.is_undecided):
            logger.exception("a permission of %s failed, so that its tool is hidden", endpoint.label)
    return allowed or read.happened or (request is not None and request.is_undecided)


class _OfUser(NamedTuple):
    """What `_OF_USERS` read of a request."""

    user: Any
    method: str


_OF_USERS: Final = (
    permissions.AllowAny,
    permissions.IsAdminUser,
    permissions.IsAuthenticated,
    permissions.IsAuthenticatedOrReadOnly,
)
"""Permission classes that look at the user and the method of a request only, so that no view and no request is made."""


def _permissions_of_user(endpoint: Endpoint) -> list[Any] | None:
    """Return the permission classes of a view if all are `_OF_USERS`; ``None`` otherwise."""
    kind = endpoint.callback.cls
    if kind.get_permissions is not APIView.get_permissions:
        return None
    found: list[Any] = list(endpoint.callback.initkwargs.get("permission_classes", kind.permission_classes))
    return found if all(each in _OF_USERS for each in found) else None


def _view_of(endpoint: Endpoint, request: Any, principal: DjangoPrincipal, read: _Read) -> Any:
    request.user = AnonymousUser() if principal.user is None else principal.user
    request._force_auth_user = principal.user
    request._force_auth_token = principal.auth
    request.GET = _values(read)
    view = endpoint.make_view()
    view.args, view.kwargs, view.format_kwarg = (), _Arguments(read), None
    view.request = view.initialize_request(request)
    view.headers = view.default_response_headers
    view.request._data = view.request._full_data = _values(read)
    view.request._files = _values(read)
    view.request.version, view.request.versioning_scheme = endpoint.version, endpoint.versioning_scheme
    return view


class _Read:
    """Whether the values of a request were looked at."""

    def __init__(self) -> None:
        self.happened = False


class _Arguments(dict[str, Any]):
    """The arguments of a view, of which there are none."""

    def __init__(self, read: _Read) -> None:
        super().__init__()
        self._read = read

    def __getitem__(self, name: str) -> Any:
        self._read.happened = True
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._read.happened = True
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the default."""
        self._read.happened = True
        return super().get(name, default)


class _Values(QueryDict):
    """The members of a query or a body, of which there are none."""

    read: _Read

    def __getitem__(self, key: str) -> Any:
        self.read.happened = True
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.happened = True
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the default."""
        self.read.happened = True
        return super().get(key, default)

    def getlist(self, key: Any, default: Any = None) -> Any:
        """Return the default."""
        self.read.happened = True
        return super().getlist(key, default)


def _values(read: _Read) -> _Values:
    made: Any = _Values("")
    made.read = read
    return cast("_Values", made)
