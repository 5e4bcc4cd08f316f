"""The description of endpoints of Django REST framework, made by drf-spectacular."""

# drf-spectacular is not typed.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from importlib import import_module
from typing import Any
from urllib.parse import quote
from weakref import ProxyTypes

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db.models import Model
from django.urls import ResolverMatch
from django.utils import translation
from django.utils.text import camel_case_to_spaces
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.settings import patched_settings
from msgspec import Struct
from msgspec.structs import replace
from rest_framework import serializers, versioning

from ferrule.django.exposing.path_arguments import arguments_of
from ferrule.expose.description.merge import with_slashes
from ferrule.expose.description.reader import Description, read_description
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.operations import Operation, Skipped

__all__ = ["DescribedViews", "Endpoint", "describe_endpoints", "endpoints_of"]

logger = logging.getLogger(__name__)

_SETTINGS = {
    "SCHEMA_PATH_PREFIX_TRIM": False,
    "SCHEMA_PATH_PREFIX_INSERT": "",
    "CAMELIZE_NAMES": False,
    "COMPONENT_SPLIT_PATCH": True,
    "COMPONENT_SPLIT_REQUEST": True,
}
"""Settings of drf-spectacular: paths are those of requests, a PATCH is partial, and a file is sent as bytes though the
answer has its URL."""

_lock = threading.Lock()  # drf-spectacular keeps settings and warnings for the process


class Endpoint(Struct, frozen=True, kw_only=True):
    """A method of a view at a path.

    Attributes:
        path: as the URLconf has it, with ``{name}`` for arguments.
        path_regex: the regular expression of the path.
        method: in capitals.
        callback: the view function.
        namespaces: the namespaces of the URLconf that the path is in.
        version: the version of the API that requests ask for; ``None`` for none, or if it is an argument.
    """

    path: str
    path_regex: str
    method: str
    callback: Any
    namespaces: tuple[str, ...] = ()
    version: str | None = None

    @property
    def label(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"

    @property
    def action(self) -> str | None:
        """The action of a viewset; ``None`` for another view."""
        actions = getattr(self.callback, "actions", None)  # of viewsets only
        return None if actions is None else str(actions[self.method.lower()])

    @property
    def versioning_class(self) -> Any:
        """The versioning class of the view; ``None`` without."""
        return self.callback.initkwargs.get("versioning_class", self.callback.cls.versioning_class)

    @property
    def versioning_scheme(self) -> Any:
        """An instance of the versioning class; ``None`` without."""
        return None if self.versioning_class is None else self.versioning_class()

    def takes_version(self, version: str) -> bool:
        """Return whether requests can ask for a version of the API."""
        kind = self.versioning_class
        if kind is None or issubclass(kind, versioning.HostNameVersioning):
            return False
        if issubclass(kind, versioning.NamespaceVersioning):
            return version == self.own_version
        if issubclass(kind, versioning.URLPathVersioning) and f"{{{kind.version_param}}}" not in self.path:
            return False
        return bool(kind().is_allowed_version(version))

    @property
    def own_version(self) -> str | None:
        """The version that the namespace of the path names; the default of the view otherwise."""
        kind = self.versioning_class
        return next((each for each in self.namespaces if kind().is_allowed_version(each)), kind.default_version)

    def is_reached(self, match: ResolverMatch) -> bool:
        """Return whether a resolved path leads to this endpoint: to its view, with its arguments and no others.

        A router has each path with a suffix for the format, too, which chooses another renderer.
        """
        captured: Any = vars(match)["captured_kwargs"]  # which the type has not
        return match.func is self.callback and captured.keys() <= arguments_of(self.path_regex).keys()

    def make_view(self) -> Any:
        """Return a view for a request to this endpoint."""
        view: Any = self.callback.cls(**self.callback.initkwargs)
        if self.action is not None:
            view.action_map = self.callback.actions
            view.action = self.action
        return view

    def with_version(self, request: ApiRequest) -> ApiRequest:
        """Return a request that asks for the version, where that is not part of the path."""
        kind = self.versioning_class
        if self.version is None or kind is None:
            return request
        if issubclass(kind, versioning.AcceptHeaderVersioning):
            wanted = f"application/json; {kind.version_param}={self.version}"
            headers = [pair for pair in request.headers if pair[0] != "accept"]
            return replace(request, headers=(*headers, ("accept", wanted)))
        if issubclass(kind, versioning.QueryParameterVersioning):
            pair = f"{kind.version_param}={quote(self.version, safe='')}"
            return replace(request, query=f"{request.query}&{pair}" if request.query else pair)
        return request


class DescribedViews(Struct, frozen=True, kw_only=True):
    """Endpoints and their description.

    Attributes:
        description: the operations.
        endpoints: by method and path, as the description has them.
        without_effect: class and method of views whose ``@extend_schema`` has no effect.
    """

    description: Description
    endpoints: dict[str, Endpoint]
    without_effect: tuple[tuple[type[Any], str], ...] = ()


def endpoints_of(urlconf: Any) -> list[Endpoint]:
    """Return the endpoints of Django REST framework in a URLconf."""
    module: Any = import_module(urlconf) if isinstance(urlconf, str) else urlconf
    namespaces = dict(_namespaces(module.urlpatterns, "", ()))
    return [
        Endpoint(
            path=path if path.startswith("/") else f"/{path}",
            path_regex=regex,
            method=method,
            callback=callback,
            namespaces=namespaces.get(regex, ()),
        )
        for path, regex, method, callback in EndpointEnumerator(urlconf=urlconf).get_api_endpoints()
    ]


def _namespaces(patterns: Any, prefix: str, outer: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for pattern in patterns:
        regex = f"{prefix}{pattern.pattern}"
        inner = getattr(pattern, "url_patterns", None)  # of included URLconfs only
        if inner is None:
            yield regex, outer
        else:
            yield from _namespaces(inner, regex, outer if pattern.namespace is None else (*outer, pattern.namespace))


def describe_endpoints(endpoints: Sequence[Endpoint], *, version: str | None, user: Any) -> DescribedViews:
    """Return the description of endpoints; what cannot be described is skipped, and named in the description.

    Args:
        endpoints: the endpoints, all of one URLconf.
        version: the version of the API that requests ask for; ``None`` for the default of each view.
        user: for whom they are described; ``None`` for an anonymous user.
    """
    wanted = [each for each in (_versioned(endpoint, version) for endpoint in endpoints) if each is not None]
    skipped: list[Skipped] = []
    # One description serves all callers: in the project's language, not in that of the first request.
    language = translation.override(settings.LANGUAGE_CODE)
    with _lock, language, patched_settings(_SETTINGS), GENERATOR_STATS.silence():
        try:
            generator, document = _generate(wanted, user)
        except Exception:  # of the project, in one of its views: the others can be described all the same
            usable: list[Endpoint] = []
            for each in wanted:
                try:
                    _generate([each], user)
                except Exception as error:
                    logger.exception("%s cannot be described", each.label)
                    reason = f"its description cannot be made ({type(error).__name__}: {str(error)[:200]})"
                    skipped.append(Skipped(method=each.method, path=each.path, reason=reason))
                else:
                    usable.append(each)
            generator, document = _generate(usable, user)
        # What it would print. The names are private; nothing else tells what could not be described.
        stats: Any = GENERATOR_STATS
        for message in _messages((*stats._warn_cache, *stats._error_cache)):
            logger.warning("%s", message)
    found = with_slashes(
        read_description(document), lambda operation: _names_with_slashes(operation, generator.found[operation.label])
    )
    operations = tuple(map(_with_html_members, found.operations))
    return DescribedViews(
        description=replace(found, operations=operations, skipped=(*found.skipped, *skipped)),
        endpoints=dict(generator.found),
        without_effect=tuple(generator.without_effect),
    )


def _messages(found: Iterable[str]) -> Iterator[str]:
    """Yield messages of drf-spectacular; one about a view that has no serializer says what that means for a tool."""
    for message in found:
        view, is_serializer, _ = message.partition("unable to guess serializer")
        if not is_serializer:
            yield message
        elif "[" in view:  # it is said once more without the name of the view
            yield f"{view}it has no serializer_class: no argument for a body but by @extend_schema or add_parameters="


def _names_with_slashes(operation: Operation, endpoint: Endpoint) -> list[str]:
    takes_slashes = arguments_of(endpoint.path_regex)
    # The description may have another name for an argument, ``id`` for ``pk``.
    names = zip(arguments_of(operation.path), arguments_of(endpoint.path), strict=False)
    return [name for name, own_name in names if takes_slashes.get(own_name)]


def _with_html_members(operation: Operation) -> Operation:
    body = operation.body
    return operation if body is None else replace(operation, body=replace(body, members="html"))


def _generate(endpoints: Sequence[Endpoint], user: Any) -> tuple[_Generator, Any]:
    generator = _Generator(endpoints, user)
    document: Any = generator.get_schema(request=None, public=True)
    for label, endpoint in generator.found.items():
        method, _, path = label.partition(" ")
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is not None:  # `@extend_schema(exclude=True)` takes it out
            if _is_named_by_path(generator.views[label].schema, operation["operationId"]):
                operation["operationId"] = _name_of(endpoint)
            _describe_version(operation, endpoint)
            _describe_json_parts(operation, document)
    return generator, document


def _describe_json_parts(operation: Any, document: Any) -> None:
    """Say that a ``JSONField`` in a form is JSON, text included; its schema accepts any value."""
    content = operation.get("requestBody", {}).get("content", {})
    for kind in ("multipart/form-data", "application/x-www-form-urlencoded"):
        media = content.get(kind, {})
        name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
        members = document.get("components", {}).get("schemas", {}).get(name, {}).get("properties", {})
        any_value = [each for each, schema in members.items() if not schema.keys() - _SAYS_NO_TYPE]
        if any_value:
            media["encoding"] = {each: {"contentType": "application/json"} for each in any_value} | media.get(
                "encoding", {}
            )


_SAYS_NO_TYPE = frozenset({"nullable", "description", "title", "default", "readOnly", "writeOnly", "deprecated"})


def _is_named_by_path(schema: Any, name: str) -> bool:
    """Return whether the name of an operation is drf-spectacular's own, and none that the project has chosen."""
    kinds = [kind for kind in schema.__class__.__mro__ if kind.__name__ != "ExtendedSchema"]  # of `@extend_schema`
    owner = next(kind for kind in kinds if "get_operation_id" in vars(kind))
    return owner is AutoSchema and name == AutoSchema.get_operation_id(schema)


def _versioned(endpoint: Endpoint, version: str | None) -> Endpoint | None:
    """Return an endpoint with the version that its requests ask for; ``None`` if it belongs to another version."""
    kind = endpoint.versioning_class
    if kind is None:
        return endpoint
    allowed = tuple(kind.allowed_versions or ())
    if issubclass(kind, versioning.NamespaceVersioning):
        own = endpoint.own_version
        return replace(endpoint, version=own) if version in (None, own) else None
    given = version or kind.default_version or (allowed[0] if len(allowed) == 1 else None)
    variable = f"{{{kind.version_param}}}"
    if not issubclass(kind, versioning.URLPathVersioning) or given is None or variable not in endpoint.path:
        return replace(endpoint, version=given)
    if not re.search(endpoint.path_regex, endpoint.path.lstrip("/").replace(variable, given)) and _is_plain(endpoint):
        return None
    return replace(endpoint, version=given, path=endpoint.path.replace(variable, given))


def _is_plain(endpoint: Endpoint) -> bool:
    """Return whether the path has no other arguments, so that it can be compared with its regular expression."""
    return endpoint.path.count("{") == 1 and "(?P<" in endpoint.path_regex


def _describe_version(operation: Any, endpoint: Endpoint) -> None:
    """Add the versions that there are to the parameter of an operation that names one."""
    kind = endpoint.versioning_class
    if kind is None or endpoint.version is not None or not kind.allowed_versions:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == kind.version_param and parameter["in"] == "path":
            parameter["schema"] = {"type": "string", "enum": list(kind.allowed_versions)}


class _Generator(SchemaGenerator):
    """Describes given endpoints, also of a project whose ``DEFAULT_SCHEMA_CLASS`` is another than drf-spectacular's.

    Attributes:
        found: the endpoints by method and path, as the description has them.
        views: their views, likewise.
        without_effect: see `DescribedViews`.
    """

    def __init__(self, endpoints: Sequence[Endpoint], user: Any) -> None:
        super().__init__()
        self._given = endpoints
        self._user = AnonymousUser() if user is None else user
        self.endpoints: Any = [(each.path, each.path_regex, each.method, each.callback) for each in endpoints]
        self.found: dict[str, Endpoint] = {}
        self.views: dict[str, Any] = {}
        self.without_effect: list[tuple[type[Any], str]] = []

    def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
        view: Any = super().create_view(callback, method, request)
        schema: Any = view.schema
        if not isinstance(schema, AutoSchema):
            if any(kind.__name__ == "ExtendedSchema" for kind in schema.__class__.__mro__):
                action = getattr(view, "action", None)  # which only viewsets have
                self.without_effect.append((callback.cls, action or method.lower()))
                logger.warning(
                    "@extend_schema of %s has no effect: it needs DEFAULT_SCHEMA_CLASS = "
                    "'drf_spectacular.openapi.AutoSchema' in the setting REST_FRAMEWORK",
                    callback.cls.__qualname__,
                )
            self._set_schema_to_view(view, AutoSchema())  # of this instance; the class stays as it is
        elif type(view.schema) not in ProxyTypes:  # that of the class, or a new one with each access
            self._set_schema_to_view(view, copy(schema))
        _accept_numbers(view.schema)
        return view

    def _get_paths_and_endpoints(self) -> Any:
        made: list[Any] = super()._get_paths_and_endpoints()
        for (path, _, method, view), endpoint in zip(made, self._given, strict=True):
            label = f"{method} {path}"
            self.found[label] = endpoint
            self.views[label] = view
            _prepare(view, endpoint, self._user)
        return made


def _accept_numbers(schema: Any) -> None:
    """Describe that a request may have a number in place of the text of a decimal or a duration, as the fields do."""
    original = schema._map_serializer_field

    def map_field(field: Any, direction: Any, *args: Any, **options: Any) -> Any:
        found = original(field, direction, *args, **options)
        takes_numbers = isinstance(field, serializers.DecimalField | serializers.DurationField)
        if direction == "request" and takes_numbers and found.get("type") == "string" and "enum" not in found:
            found = {**found, "type": ["string", "number"]}
        return found

    schema._map_serializer_field = map_field


def _prepare(view: Any, endpoint: Endpoint, user: Any) -> None:
    """Let methods of a view see a user and a version, and not fail because of them.

    All is set on the instance; the class stays as it is.
    """
    view.versioning_class = None  # the version is part of the path already, or of no path
    view.args, view.kwargs = (), {}
    initialize = view.initialize_request

    def initialize_request(request: Any, *args: Any, **kwargs: Any) -> Any:
        request._force_auth_user = user
        made = initialize(request, *args, **kwargs)
        made.version, made.versioning_scheme = endpoint.version, endpoint.versioning_scheme
        view.format_kwarg = None
        return made

    view.initialize_request = initialize_request
    for name, otherwise in (("get_serializer_class", _serializer_class), ("get_queryset", _no_objects)):
        own = getattr(view, name, None)  # which views without a model do not have
        if own is not None:
            setattr(view, name, _forgiving(view, own, otherwise))


def _forgiving(view: Any, method: Callable[[], Any], otherwise: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a method of a view that does not fail where it reads a user who has logged in."""

    def call() -> Any:
        try:
            return method()
        except Exception as first:
            given = view.request.user
            view.request.user = _any_user()
            try:
                return method()
            except Exception:
                logger.debug("%s of %s fails without a user", method.__name__, type(view).__qualname__, exc_info=True)
            finally:
                view.request.user = given
            found = otherwise(view)
            if found is None:
                raise first
            return found

    return call


def _any_user() -> Any:
    """Return a user that is not saved, with all rights that the project's model knows."""
    user: Any = get_user_model()()
    for name in ("is_active", "is_staff", "is_superuser"):
        if hasattr(user, name):  # a model of the project's own may lack them, or have properties
            with suppress(AttributeError):
                setattr(user, name, True)
    return user


def _serializer_class(view: Any) -> Any:
    return view.serializer_class


def _no_objects(view: Any) -> Any:
    """Return an empty queryset of the model that a view is about; ``None`` if nothing says which."""
    if view.queryset is not None:
        return view.queryset.none()
    try:
        meta = getattr(view.get_serializer_class(), "Meta", None)  # of model serializers
    except Exception:
        return None
    model: Any = getattr(meta, "model", None)  # a `Meta` for another purpose has none
    return model._default_manager.none() if isinstance(model, type) and issubclass(model, Model) else None


def _name_of(endpoint: Endpoint) -> str:
    """Return the name of an operation: of a viewset ``invoice_list``, of another view ``report_view_get``.

    Methods of one action have different names: ``invoice_notes_get``, ``invoice_notes_delete``.

    The path is not part of it, so that a tool keeps its name when the URLconf changes.
    """
    callback = endpoint.callback
    if endpoint.action is not None:
        basename = callback.initkwargs.get("basename") or camel_case_to_spaces(callback.cls.__name__).replace(" ", "_")
        methods = [method for method, action in callback.actions.items() if action == endpoint.action]
        several = len(set(methods) - {"head"}) > 1  # which the first request to a view adds
        return f"{basename}_{endpoint.action}_{endpoint.method.lower()}" if several else f"{basename}_{endpoint.action}"
    return f"{camel_case_to_spaces(callback.cls.__name__).replace(' ', '_')}_{endpoint.method.lower()}"
