"""APIs of Django Ninja: described by their own document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

from django.conf import settings
from django.contrib.admindocs.views import simplify_regex
from django.urls import ResolverMatch, get_resolver, path
from django.utils import translation
from msgspec.structs import replace

from ferrule.django.exposing.ninja_authentication import accepts_sender, operations_of
from ferrule.django.exposing.path_arguments import arguments_of
from ferrule.django.exposing.targets import NothingExposed, Sender
from ferrule.expose.description.merge import with_slashes
from ferrule.expose.description.reader import Description
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.openapi import read_openapi
from ferrule.expose.operations import Operation
from ferrule.expose.requests.routes import same_route

__all__ = ["NinjaViews"]

_CONVERTER = re.compile(r"{[^}:]+:")
_ARGUMENT = re.compile(r"<(?:[^<>:]*:)?(\w+)>")


class NinjaViews:
    """The operations of an API; see `ExposedTarget`.

    Args:
        api: the ``NinjaAPI``.
        prefix: that paths begin with; ``None`` for all paths.
    """

    def __init__(self, api: Any, *, prefix: str | None = None) -> None:
        self._api = api
        self._prefix = prefix

    def urlconf(self) -> Any:
        """Return the URLconf of the API; ``None`` for that of the project."""
        return None if self._project_root is not None else self._own_urlconf

    def describe(self) -> Description:
        """Return the operations of the API.

        Raises:
            NothingExposed: there is none.
        """
        described = copy(self._api)
        usual: Any = import_module("ninja").NinjaAPI
        if described.__class__.get_openapi_operation_id is usual.get_openapi_operation_id:
            # The functions' own names: the usual ones begin with the name of the module.
            described.get_openapi_operation_id = _function_name
        # One description serves all callers: in the project's language, not in that of the first request.
        with translation.override(settings.LANGUAGE_CODE):
            document: Any = described.get_openapi_schema(path_prefix=self._root)
        # The document is a value of Python, which may hold others than JSON has.
        found = read_openapi(dict(document))
        operations = tuple(each for each in found.operations if each.path.startswith(self._prefix or "/"))
        if not operations:
            where = "" if self._prefix is None else f" with prefix={self._prefix!r}"
            raise NothingExposed(f"{self._api.title!r} has no operation{where}")
        return with_slashes(replace(found, operations=operations), self._names_with_slashes)

    def _names_with_slashes(self, operation: Operation) -> list[str]:
        found = self._operations.get(operation.label)
        return [] if found is None else [name for name, takes in arguments_of(str(found.path)).items() if takes]

    def allows(self, operation: Operation, sender: Sender) -> bool:
        """Return whether the ``auth=`` of an operation accepts a sender, as far as it decides without values."""
        found = self._operations.get(operation.label)
        return found is None or accepts_sender(found, operation.method, operation.path, sender)

    def view_of(self, operation: Operation) -> Any:
        """Return ``None``: an operation has no view of Django REST framework."""
        return None

    def without_effect(self) -> Sequence[tuple[type[Any], str]]:
        """Return nothing: an API has no ``@extend_schema``."""
        return ()

    def expects(self, method: str, route: str) -> Callable[[ResolverMatch], bool] | None:
        """See `ExposedTarget.expects`."""
        if not route:
            return None
        return lambda match: same_route(_path_of(match.route), route)

    def finish(self, request: ApiRequest) -> ApiRequest:
        """Return the request as it is."""
        return request

    @cached_property
    def _operations(self) -> dict[str, Any]:
        """The operations of Django Ninja by method and path, as the description has them."""
        found: dict[str, Any] = {}
        for path_below, operation in operations_of(self._api):
            full = re.sub("/+", "/", f"/{self._root}/{path_below}")
            for method in operation.methods:
                found.setdefault(f"{method} {_CONVERTER.sub('{', full)}", operation)
        return found

    @cached_property
    def _root(self) -> str:
        if self._project_root is not None:
            return self._project_root
        return next(_roots(self._own_urlconf.urlpatterns, "", self._api.urls_namespace))

    @cached_property
    def _project_root(self) -> str | None:
        module = import_module(settings.ROOT_URLCONF)
        return next(_roots(module.urlpatterns, "", self._api.urls_namespace), None)

    @cached_property
    def _own_urlconf(self) -> Any:
        """A URLconf with the API at an address of its own, and the project's for links."""
        module: Any = ModuleType("ferrule_exposed_api")
        module.urlpatterns = [path("ferrule/", self._api.urls), *get_resolver(settings.ROOT_URLCONF).url_patterns]
        return module


def _function_name(operation: Any) -> str:
    return str(operation.view_func.__name__)


def _path_of(route: str) -> str:
    """Return a route of Django as a path template: ``/items/{id}`` for ``items/<int:id>``."""
    found: str = simplify_regex(route)
    return _ARGUMENT.sub(r"{\1}", found)


def _roots(patterns: Any, prefix: str, namespace: str) -> Iterator[str]:
    """Yield the paths at which an API is included."""
    for pattern in patterns:
        inner = getattr(pattern, "url_patterns", None)  # of included URLconfs only
        if inner is None:
            continue
        route = f"{prefix}{pattern.pattern}"
        if pattern.app_name == "ninja" and pattern.namespace == namespace.rpartition(":")[2]:
            yield _path_of(route)
        else:
            yield from _roots(inner, route, namespace)
