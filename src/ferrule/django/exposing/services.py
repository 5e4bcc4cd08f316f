"""Service and selector specifications as views, so that they become tools as other views do.

A specification is an object that bundles how one operation is done: a function, the serializers of its input and
output, and permissions, as the packages ``djangorestframework-services`` and ``djangorestframework-mcp-server`` have
them. It is known by its attributes; neither package is needed. The view of a specification authenticates, throttles,
validates and answers as any view of Django REST framework does.
"""

# Specifications are objects of any class, whose members are not typed.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast, get_type_hints
from uuid import UUID

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.openapi import AutoSchema
from rest_framework import exceptions, serializers
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

__all__ = ["view_of"]

_GIVEN = frozenset({"data", "instance", "request", "result", "serializer", "user", "view"})
"""Parameters of functions that the view gives; others of a selector are arguments of the tool."""

_REFUSED = ("affordances", "collection_selector_spec", "many", "response_finalizer")
"""Members of a specification that change what it does, and are not known here."""

_FIELDS: dict[Any, type[serializers.Field[Any, Any, Any, Any]]] = {
    bool: serializers.BooleanField,
    date: serializers.DateField,
    datetime: serializers.DateTimeField,
    float: serializers.FloatField,
    int: serializers.IntegerField,
    UUID: serializers.UUIDField,
}
_STATUS = {"ServiceNotFound": 404, "ServiceConflict": 409, "ActionUnavailable": 409, "ServiceError": 422}
"""Statuses of exceptions of services, by the name of their class."""


def view_of(name: str, spec: Any) -> type[GenericAPIView[Any]]:
    """Return the class of a view that does what a specification says.

    Args:
        name: the name of the tool.
        spec: a specification: it has ``service``, or ``selector``.

    Raises:
        TypeError: it is no specification, or has something that is not known here.
    """
    found = [each for each in _REFUSED if _member(spec, each)]
    if found:
        raise TypeError(f"the specification {name!r} has {', '.join(found)}, which is not supported; write a view")
    if callable(_member(spec, "service")):
        return _service_view(name, spec)
    if callable(_member(spec, "selector")):
        return _selector_view(name, spec)
    raise TypeError(f"{spec!r} is no specification: it has neither a service nor a selector")


class _SpecSchema(AutoSchema):
    """Describes the view of a specification.

    It is the view's own: ``@extend_schema`` has an effect only where the project's ``DEFAULT_SCHEMA_CLASS`` is that of
    drf-spectacular.
    """

    def __init__(
        self, name: str, function: Any, arguments: Any, request: Any, response: Any, *, is_list: bool = False
    ) -> None:
        super().__init__()
        self._name = name
        self._text = inspect.getdoc(function) or ""
        self._arguments = arguments
        self._request = request
        self._response = response
        self._is_list = is_list

    def get_operation_id(self) -> str:
        """Return the name of the tool."""
        return self._name

    def get_description(self) -> str:  # type: ignore[override]  # as drf-spectacular has it
        """Return the docstring of the function."""
        return self._text

    def get_override_parameters(self) -> Any:
        """Return the arguments in the query."""
        return [] if self._arguments is None else [self._arguments]

    def get_request_serializer(self) -> Any:
        """Return the input serializer."""
        return self._request

    def get_response_serializers(self) -> Any:
        """Return the output serializer."""
        return self._response(many=True) if self._is_list and self._response is not None else self._response


class _SpecView(GenericAPIView[Any]):
    """Runs the functions of a specification."""

    spec: Any = None
    parameters: type[serializers.Serializer[Any]] | None = None

    def get_queryset(self) -> Any:
        """Return nothing: a selector finds the objects."""
        return None

    def get_permissions(self) -> Any:
        """Return the permissions of the specification, or the project's."""
        given = _member(self.spec, "permission_classes")
        return super().get_permissions() if given is None else [each() for each in given]

    def pool(self) -> dict[str, Any]:
        """Return what functions may ask for.

        Raises:
            ValidationError: an argument is wrong.
        """
        pool: dict[str, Any] = {"request": self.request, "user": self.request.user, "view": self}
        if self.parameters is not None:
            given = self.parameters(data=self.request.query_params)
            given.is_valid(raise_exception=True)
            self.kwargs = {**self.kwargs, **given.validated_data}
        provider = _member(self.spec, "kwargs")
        more = {} if provider is None else _call(provider, pool)
        return {**self.kwargs, **more, **pool}

    def found(self, spec: Any, pool: Mapping[str, Any]) -> Any:
        """Return what a selector finds.

        Raises:
            Http404: it is one object, and there is none.
        """
        rows = _call(spec.selector, pool)
        if isinstance(rows, QuerySet):
            rows = self._shaped(spec, rows)
        if _is_list(spec):
            return rows
        found = rows.first() if isinstance(rows, QuerySet) else rows
        if found is None and not _member(spec, "allow_none", False):
            raise Http404
        return found

    def _shaped(self, spec: Any, rows: QuerySet[Any]) -> QuerySet[Any]:
        for name in ("select_related", "prefetch_related"):
            given = _member(spec, name)
            if given:
                rows = getattr(rows, name)(*given)
        annotations = _member(spec, "annotations")
        if annotations:
            rows = rows.annotate(**annotations)
        extend = _member(spec, "extend_queryset")
        return rows if extend is None else extend(rows, self, self.request)

    def rendered(self, spec: Any, value: Any, *, many: bool) -> Any:
        """Return a value as the output serializer of a specification has it."""
        serializer = _output_serializer(spec)
        if value is None or serializer is None:
            return value
        context = self.get_serializer_context()
        provider = _member(spec, "output_serializer_context")
        if provider is not None:
            pool = {"view": self, "request": self.request, "page": value, "instance": value, "result": value}
            context = {**context, **_call(provider, pool)}
        return serializer(value, many=many, context=context).data

    def handle_exception(self, exc: Exception) -> Response:
        """Answer an exception of a service as what it means."""
        return super().handle_exception(_meant(exc))


def _service_view(name: str, spec: Any) -> type[GenericAPIView[Any]]:
    instance_spec = _member(spec, "instance_selector_spec")
    output_spec = _member(spec, "output_selector_spec") or spec
    input_serializer = _member(spec, "input_serializer")
    arguments = _arguments_of(name, [] if instance_spec is None else [instance_spec.selector], spec)

    class ServiceView(_SpecView):
        schema = _SpecSchema(name, spec.service, arguments, input_serializer, _output_serializer(output_spec))

        def post(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            pool = self.pool()
            with transaction.atomic() if _member(spec, "atomic", True) else nullcontext():
                if instance_spec is not None:
                    pool["instance"] = self.found(instance_spec, pool)
                    self.check_object_permissions(request, pool["instance"])
                pool = {**pool, **self.validated(pool)}
                for condition in _member(spec, "preconditions") or ():
                    _call(condition, pool)
                result = pool["result"] = _call(spec.service, pool)
                if output_spec is not spec and output_spec.selector is not None and result is not None:
                    result = self.found(output_spec, {**pool, "instance": result})
                # Within the transaction: an answer that cannot be made is a call that was not done.
                return Response(self.rendered(output_spec, result, many=_is_list(output_spec)))

        def validated(self, pool: dict[str, Any]) -> dict[str, Any]:
            if input_serializer is None:
                return {"data": self.request.data}
            provider = _member(spec, "input_data")
            more = {} if provider is None else _call(provider, pool)
            body: Any = self.request.data
            context = _member(spec, "input_serializer_context")
            given = input_serializer(
                pool.get("instance") if issubclass(input_serializer, serializers.ModelSerializer) else None,
                data={**body, **more} if more else body,
                partial=bool(_member(spec, "partial", False)),
                context={**self.get_serializer_context(), **({} if context is None else _call(context, pool))},
            )
            given.is_valid(raise_exception=True)
            return {"data": given.validated_data, "serializer": given}

    ServiceView.parameters = arguments
    return _named(ServiceView, name, spec)


def _selector_view(name: str, spec: Any) -> type[GenericAPIView[Any]]:
    arguments = _arguments_of(name, [spec.selector], spec)
    is_list = _is_list(spec)
    output = _output_serializer(spec)

    class SelectorView(_SpecView):
        schema = _SpecSchema(name, spec.selector, arguments, None, output, is_list=is_list)

        def get(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            found = self.found(spec, self.pool())
            if not is_list:
                if found is not None:
                    self.check_object_permissions(request, found)
                return Response(self.rendered(spec, found, many=False))
            if not isinstance(found, QuerySet):
                return Response(self.rendered(spec, found, many=True))
            page = self.paginate_queryset(self.filter_queryset(found))
            if page is None:
                return Response(self.rendered(spec, found, many=True))
            return self.get_paginated_response(self.rendered(spec, page, many=True))

    made: Any = SelectorView
    filters = _member(spec, "filter_set")
    if filters is not None:
        from django_filters.rest_framework import DjangoFilterBackend  # type: ignore[import-untyped]

        made.filter_backends = (DjangoFilterBackend,)
        made.filterset_class = filters
        made.queryset = filters._meta.model._default_manager.none()  # for the description of the filters
    if not is_list:
        made.pagination_class = None
    made.parameters = arguments
    return _named(made, name, spec)


def _named(view: Any, name: str, spec: Any) -> type[GenericAPIView[Any]]:
    view.spec = spec
    view.__name__ = view.__qualname__ = name
    return cast("type[GenericAPIView[Any]]", view)


def _is_list(spec: Any) -> bool:
    kind = _member(spec, "kind")
    return str(getattr(kind, "value", kind)) == "list"  # a member of an enum, or a text


def _output_serializer(spec: Any) -> Any:
    return _member(spec, "output_serializer")


def _member(spec: Any, name: str, default: Any = None) -> Any:
    """Return a member of a specification; the default where it lacks it, as a specification of any class may."""
    return getattr(spec, name, default)


def _call(function: Callable[..., Any], pool: Mapping[str, Any]) -> Any:
    """Call a function with what it asks for."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return function(**pool)
    wanted = {each.name: pool[each.name] for each in parameters if each.name in pool}
    data = pool.get("data")
    if isinstance(data, Mapping):  # a service may name members of its input
        wanted.update(
            {each.name: data[each.name] for each in parameters if each.name not in pool and each.name in data}
        )
    return function(**wanted)


def _arguments_of(name: str, functions: list[Any], spec: Any) -> type[serializers.Serializer[Any]] | None:
    """Return a serializer of the arguments that selectors take, and of those that a specification reads."""
    provided = _member(spec, "kwargs")
    fields: dict[str, Any] = {}
    for function in functions:
        hints = get_type_hints(function)
        for each in inspect.signature(function).parameters.values():
            if each.name in _GIVEN or each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
                continue
            is_required = each.default is each.empty and provided is None
            fields[each.name] = _field(hints.get(each.name), required=is_required)
    for read in _member(spec, "reads") or ():
        kinds = {"integer": int, "number": float, "boolean": bool}
        fields[read.name] = _field(kinds.get(read.type), required=bool(_member(read, "required", False)))
    if not fields:
        return None
    return type(f"{name.title().replace('_', '')}Arguments", (serializers.Serializer,), fields)


def _field(hint: Any, *, required: bool) -> Any:
    # Unions such as `int | None` have arguments, plain classes none.
    kind = next((each for each in getattr(hint, "__args__", ()) if each is not type(None)), hint)
    if kind is Decimal:
        return serializers.DecimalField(max_digits=None, decimal_places=None, required=required)
    if kind is str:
        return serializers.CharField(required=required, allow_blank=True)
    return _FIELDS.get(kind, serializers.CharField)(required=required)


def _meant(error: Exception) -> Exception:
    """Return an exception of a service as one of Django REST framework; others as they are."""
    if isinstance(error, DjangoValidationError):
        return exceptions.ValidationError(serializers.as_serializer_error(error))
    for kind in type(error).__mro__:
        if kind.__name__ == "ServiceValidationError":
            # A class of the project with this name may have no details.
            return exceptions.ValidationError(getattr(error, "detail", str(error)))
        if kind.__name__ in _STATUS and not issubclass(kind, exceptions.APIException):
            made = exceptions.APIException(str(error))
            made.status_code = _STATUS[kind.__name__]
            return made
    return error
