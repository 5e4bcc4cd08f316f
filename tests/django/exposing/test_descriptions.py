"""Versions, media types and ``@extend_schema`` in the description of views, under WSGI and under ASGI."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import include, path, re_path
from drf_spectacular.generators import SchemaGenerator
from rest_framework import permissions, serializers, versioning, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.views import APIView

from ferrule.django.exposing.targets import NothingExposed
from tests.django.exposing.test_rest_framework import Amount, BookSerializer, BookViewSet, books, routed, shelf
from tests.django.serving import served
from tests.django.shop.models import Book

__all__ = ["books", "shelf"]

pytestmark = pytest.mark.parametrize("host", ["wsgi", "asgi"])


# -- versions and media types ------------------------------------------------------------------------------------------


def _versioned(kind: Any) -> Any:
    class Versioned(viewsets.GenericViewSet[Any]):
        permission_classes = (permissions.AllowAny,)
        versioning_class = kind

        def list(self, request: Any, **kwargs: Any) -> Response:
            """Return the version."""
            return Response({"version": request.version})

    return Versioned


class _Header(versioning.AcceptHeaderVersioning):
    allowed_versions = ("1", "2")


class _Names(versioning.NamespaceVersioning):
    allowed_versions = ("1", "2")


def test_a_version_in_the_path_is_fixed_or_an_argument(host: str) -> None:
    class Two(versioning.URLPathVersioning):
        allowed_versions = ("v1", "v2")

    class Default(Two):
        default_version = "v1"

    for kind, version, arguments, given, found in (
        (Two, None, {"version"}, {"version": "v2"}, "v2"),
        (Two, "v2", set(), {}, "v2"),
        (Default, None, set(), {}, "v1"),
    ):
        viewset = _versioned(kind)

        def patterns(viewset: Any = viewset) -> list[Any]:
            return [re_path(r"^(?P<version>v\d)/things/$", viewset.as_view({"get": "list"}))]

        with served(host, patterns) as site:
            site.mcp.expose(viewset, version=version)
            (name,) = site.tools()
            assert set(site.tools()[name]["inputSchema"]["properties"]) == arguments
            assert site.data(name, given) == {"version": found}


def test_versions_in_headers_queries_and_namespaces_are_asked_for(host: str) -> None:
    class Query(versioning.QueryParameterVersioning):
        allowed_versions = ("1", "2")

    for kind in (_Header, Query):
        viewset = _versioned(kind)
        with served(host, routed(thing=viewset)) as site:
            site.mcp.expose(viewset, version="2")
            assert site.data("thing_list", {}) == {"version": "2"}
    viewset = _versioned(_Names)

    def patterns() -> list[Any]:
        urls = [path("things/", viewset.as_view({"get": "list"}))]
        return [path(f"v{each}/", include((urls, "things"), namespace=each)) for each in ("1", "2")]

    with served(host, patterns) as site:
        site.mcp.expose(viewset, version="2")
        (name,) = site.tools()
        assert site.data(name, {}) == {"version": "2"}
    with served(host, patterns) as site:
        site.mcp.expose(viewset)
        assert len(site.tools()) == 2


def test_a_version_that_no_view_takes_is_refused(host: str) -> None:
    """The views would answer in their default version, or not at all."""

    class Path(versioning.URLPathVersioning):
        allowed_versions = ("1", "2")

    for kind, version, said in (
        (None, "1", "it has no versioning class"),
        (versioning.HostNameVersioning, "1", "it has no versioning class"),
        (Path, "1", "it has no versioning class that finds the version in its path"),
        (_Header, "3", "its versions are 1, 2"),
        (_Names, "3", "its versions are 1, 2"),
    ):
        viewset = _versioned(kind)
        with served(host, routed(thing=viewset)) as site:
            site.mcp.expose(viewset, version=version)
            assert site.tools() == {}
            (failure,) = site.mcp.exposures.failures
            assert isinstance(failure, NothingExposed)
            assert f"version='{version}' has no effect" in str(failure)
            assert said in str(failure)


def test_a_view_that_renders_no_json_answers_text(host: str) -> None:
    from rest_framework.renderers import BaseRenderer

    class CSV(BaseRenderer):
        media_type = "text/csv"
        format = "csv"

        def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
            return data

    class Export(APIView):
        renderer_classes = (CSV,)
        permission_classes = (permissions.AllowAny,)

        def get(self, request: Any) -> Response:
            """Export."""
            return Response("a,b\n1,2\n")

    with served(host) as site:
        site.mcp.expose(Export)
        assert site.call("export_get", {})["content"][0]["text"] == "a,b\n1,2\n"


# -- what the project says itself --------------------------------------------------------------------------------------


def test_extend_schema_excludes_names_and_takes_no_body(host: str, books: list[Book]) -> None:
    from drf_spectacular.utils import extend_schema

    class Said(BookViewSet):
        @extend_schema(exclude=True)
        def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            return super().list(request, *args, **kwargs)

        @extend_schema(operation_id="read_a_book", description="Read it.")
        def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Response:
            return super().retrieve(request, *args, **kwargs)

        @extend_schema(request=None, responses=Amount)
        @action(detail=True, methods=["post"])
        def sell(self, request: Any, pk: Any = None) -> Response:
            """Sell a book."""
            return Response({"amount": 1})

    with served(host, routed(book=Said)) as site:
        site.mcp.expose(Said, actions=["list", "retrieve", "sell"])
        tools = site.tools()
        assert set(tools) == {"read_a_book", "book_sell"}
        assert tools["read_a_book"]["description"] == "Read it."
        assert set(tools["book_sell"]["inputSchema"]["properties"]) == {"id"}
        assert site.data("book_sell", {"id": books[0].pk}) == {"amount": 1}


def test_a_view_that_cannot_be_described_does_not_take_the_others_with_it(host: str) -> None:
    class Broken(serializers.Serializer[Any]):
        def get_fields(self) -> Any:
            raise RuntimeError("no fields today")

    class Half(BookViewSet):
        def get_serializer_class(self) -> Any:
            return Broken if self.action == "create" else BookSerializer

    with served(host, routed(book=Half)) as site:
        site.mcp.expose(Half, actions=["list", "create"])
        assert set(site.tools()) == {"book_list"}


def test_settings_of_the_description_do_not_change_requests(host: str, books: list[Book]) -> None:
    from drf_spectacular.settings import patched_settings

    with patched_settings({"SCHEMA_PATH_PREFIX": "/api", "SCHEMA_PATH_PREFIX_TRIM": True}):
        with served(host, routed(book=BookViewSet)) as site:
            site.mcp.expose(BookViewSet)
            assert site.data("book_retrieve", {"id": books[0].pk})["title"] == "Emma"


def test_a_view_without_a_serializer_is_said_to_have_no_arguments(host: str, caplog: pytest.LogCaptureFixture) -> None:
    """drf-spectacular says that it ignores the view, which is offered all the same."""

    class Plain(APIView):
        permission_classes = (permissions.AllowAny,)

        def post(self, request: Any) -> Response:
            """Do something."""
            return Response({"done": True})

    with served(host, lambda: [path("plain/", Plain.as_view())]) as site:
        site.mcp.expose(Plain)
        assert site.data("plain_post", {}) == {"done": True}
    (said,) = [each.message for each in caplog.records if "serializer" in each.message]
    assert "Plain]: it has no serializer_class: no argument for a body" in said


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_decimals_and_durations_may_be_numbers_as_over_http(host: str) -> None:
    """The fields take them, and the view gets what was sent; what a field refuses is refused."""

    class Part(serializers.Serializer[Any]):
        weight = serializers.DecimalField(max_digits=5, decimal_places=2)

    class Order(serializers.Serializer[Any]):
        price = serializers.DecimalField(max_digits=5, decimal_places=2)
        takes = serializers.DurationField(allow_null=True)
        parts = Part(many=True)
        prices = serializers.ListField(child=serializers.DecimalField(max_digits=5, decimal_places=2))

    got: list[Any] = []

    class Orders(viewsets.GenericViewSet[Any]):
        permission_classes = (permissions.AllowAny,)
        serializer_class = Order

        def create(self, request: Any) -> Response:
            """Return the order."""
            got.append(dict(request.data))
            order = self.get_serializer(data=request.data)
            order.is_valid(raise_exception=True)
            return Response(order.data)

    with served(host, routed(order=Orders)) as site:
        site.mcp.expose(Orders)
        properties = site.tools()["order_create"]["inputSchema"]["properties"]
        assert properties["price"]["type"] == ["string", "number"]
        assert properties["takes"]["type"] == ["string", "number", "null"]
        sent = {"price": 1.5, "takes": 90, "parts": [{"weight": 2}], "prices": [1, "2.25"]}
        expected = {"price": "1.50", "takes": "00:01:30", "parts": [{"weight": "2.00"}], "prices": ["1.00", "2.25"]}
        assert site.data("order_create", sent) == expected
        assert got == [sent]
        assert site.data("order_create", {**sent, "price": "1.5", "takes": None}) == {
            **expected,
            "takes": None,
        }
        assert "no more than 2 decimal places" in site.problem("order_create", {**sent, "price": 1.555})
        for wrong in (True, [1], "1.555"):
            assert "`price`" in site.problem("order_create", {**sent, "price": wrong})
        # The project's own description of the view stays as it is, and answers have texts.
        document = SchemaGenerator().get_schema(request=None, public=True)
        assert document["components"]["schemas"]["Order"]["properties"]["price"]["type"] == "string"
