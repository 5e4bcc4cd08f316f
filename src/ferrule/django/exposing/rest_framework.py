"""Views of Django REST framework: which endpoints they have, and who may see these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

from django.conf import settings
from django.urls import ResolverMatch, get_resolver, include, path
from rest_framework.routers import BaseRouter, SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from ferrule._options import suggestion
from ferrule.django.exposing.descriptions import DescribedViews, Endpoint, describe_endpoints, endpoints_of
from ferrule.django.exposing.targets import NothingExposed, Sender
from ferrule.django.exposing.view_permissions import allows_without_object
from ferrule.expose.description.reader import Description
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.operations import Operation

__all__ = ["ExposedViews", "is_view"]


def is_view(target: Any) -> bool:
    """Return whether an object is a viewset, a view or a router of Django REST framework."""
    return isinstance(target, BaseRouter) or bool(_class_of(target))


def _class_of(target: Any) -> Any:
    """Return the class of a view; ``None`` for what is no view of Django REST framework."""
    kind = target if isinstance(target, type) else getattr(target, "cls", None)  # set by `as_view()` and `@api_view`
    return kind if isinstance(kind, type) and issubclass(kind, APIView) else None


class ExposedViews:
    """Views and the operations that their endpoints become; see `ExposedTarget`.

    Args:
        target: a viewset, a view class, a view function with ``@api_view``, or a router.
        actions: the actions of viewsets; ``None`` for all.
        prefix: that paths begin with; ``None`` for all paths.
        version: the version of the API that requests ask for; ``None`` for the view's default.
        describe_as: returns the user for whom the views are described; ``None`` for an anonymous one.

    Raises:
        NothingExposed: an action does not exist.
        TypeError: actions are given for a view that has none, or are no list.
    """

    def __init__(
        self,
        target: Any,
        *,
        actions: Iterable[str] | None = None,
        prefix: str | None = None,
        version: str | None = None,
        describe_as: Callable[[], Any] | None = None,
    ) -> None:
        self._target = target
        if isinstance(actions, str):
            raise TypeError(f"actions= is a list of names, such as [{actions!r}]")
        self._actions = None if actions is None else tuple(actions)
        self._prefix = prefix
        self._version = version
        self._describe_as = describe_as
        self._described: DescribedViews | None = None
        self._check_actions()

    def urlconf(self) -> Any:
        """Return the URLconf of the views; ``None`` for that of the project."""
        return None if self._in_project else self._own_urlconf

    def describe(self) -> Description:
        """Return the operations of the views.

        Raises:
            NothingExposed: there is none.
        """
        endpoints = self._in_project or self._of(endpoints_of(self._own_urlconf))
        chosen = [each for each in endpoints if self._is_chosen(each)]
        if not chosen:
            raise NothingExposed(self._nothing(endpoints))
        self._check_version(chosen)
        user = None if self._describe_as is None else self._describe_as()
        self._described = describe_endpoints(chosen, version=self._version, user=user)
        return self._described.description

    def view_of(self, operation: Operation) -> Any:
        """Return a view for a request to an operation; ``None`` if it is not known."""
        endpoint = self._endpoint(operation.method, operation.path)
        return None if endpoint is None else endpoint.make_view()

    def allows(self, operation: Operation, sender: Sender) -> bool:
        """Return whether the permission classes allow an operation, as far as they decide without an object."""
        endpoint = self._endpoint(operation.method, operation.path)
        return endpoint is None or allows_without_object(endpoint, sender)

    def without_effect(self) -> Sequence[tuple[type[Any], str]]:
        """See `ExposedTarget.without_effect`."""
        return () if self._described is None else self._described.without_effect

    def expects(self, method: str, route: str) -> Callable[[ResolverMatch], bool] | None:
        """See `ExposedTarget.expects`."""
        endpoint = self._endpoint(method, route)
        return None if endpoint is None else endpoint.is_reached

    def finish(self, request: ApiRequest) -> ApiRequest:
        """See `ExposedTarget.finish`."""
        endpoint = self._endpoint(request.method, request.route)
        return request if endpoint is None else endpoint.with_version(request)

    def _endpoint(self, method: str, route: str) -> Endpoint | None:
        return None if self._described is None else self._described.endpoints.get(f"{method} {route}")

    def _check_actions(self) -> None:
        if self._actions is not None and not any(issubclass(kind, ViewSetMixin) for kind in self._classes):
            raise TypeError(
                f"actions= is for viewsets, and {self._target!r} is another view: "
                "include= and exclude= choose among its methods"
            )
        known = {name for kind in self._classes if issubclass(kind, ViewSetMixin) for name in _actions_of(kind)}
        for name in self._actions or ():
            if name not in known:
                near = suggestion(name, sorted(known))
                hint = "" if near is None else f"; did you mean {near!r}?"
                raise NothingExposed(f"{self._target!r} has no action {name!r}{hint}")

    def _check_version(self, chosen: Sequence[Endpoint]) -> None:
        if self._version is None or any(each.takes_version(self._version) for each in chosen):
            return
        kinds = {each.versioning_class for each in chosen} - {None}
        known = sorted({str(name) for kind in kinds for name in kind.allowed_versions or ()})
        why = "it has no versioning class that finds the version in its path, its query or a header"
        raise NothingExposed(
            f"version={self._version!r} has no effect on {self._target!r}: "
            + (f"its versions are {', '.join(known)}" if known and self._version not in known else why)
        )

    def _nothing(self, endpoints: Sequence[Endpoint]) -> str:
        if not endpoints:
            return f"{self._target!r} has no endpoint that can be described"
        known = ", ".join(sorted({each.path for each in endpoints})[:20])
        asked = f"prefix={self._prefix!r}" if self._prefix is not None else f"actions={list(self._actions or ())!r}"
        return f"{self._target!r} has no endpoint with {asked}; it has {known}"

    @property
    def _classes(self) -> list[Any]:
        if isinstance(self._target, BaseRouter):
            return [viewset for _, viewset, _ in self._target.registry]
        return [_class_of(self._target)]

    @cached_property
    def _in_project(self) -> list[Endpoint]:
        return self._of(endpoints_of(settings.ROOT_URLCONF))

    def _of(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        """Return the endpoints of the views, chosen or not."""
        every = list(endpoints)
        if isinstance(self._target, BaseRouter):
            # A router's URLs may be included URLconfs too, which have no callback.
            own = {id(pattern.callback) for pattern in self._target.urls if hasattr(pattern, "callback")}
            found = [each for each in every if id(each.callback) in own]
            if found:  # another router may have routes to the same viewsets
                return found
        classes = set(self._classes)
        return [each for each in every if each.callback.cls in classes]

    def _is_chosen(self, endpoint: Endpoint) -> bool:
        if self._prefix is not None and not endpoint.path.startswith(self._prefix):
            return False
        return self._actions is None or endpoint.action is None or endpoint.action in self._actions

    @cached_property
    def _own_urlconf(self) -> Any:
        """A URLconf with the views at addresses of their own, and the project's for links."""
        module: Any = ModuleType("ferrule_exposed_views")
        module.urlpatterns = [
            path("ferrule/", include(self._own_patterns())),
            *get_resolver(settings.ROOT_URLCONF).url_patterns,
        ]
        return module

    def _own_patterns(self) -> Any:
        if isinstance(self._target, BaseRouter):
            return self._target.urls
        view = _class_of(self._target)
        name = view.__name__.lower()
        if not issubclass(view, ViewSetMixin):
            return [path(f"{name}/", self._target if view is not self._target else view.as_view(), name=name)]
        router = SimpleRouter()
        router.register(name, view, basename=name)
        return router.urls


def _actions_of(viewset: Any) -> Iterable[str]:
    extra = [name for each in viewset.get_extra_actions() for name in each.mapping.values()]
    return [*(name for name in _STANDARD_ACTIONS if hasattr(viewset, name)), *extra]


_STANDARD_ACTIONS = ("list", "create", "retrieve", "update", "partial_update", "destroy")
