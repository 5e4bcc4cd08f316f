"""Service and selector specifications as tools, under WSGI and under ASGI."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django_filters import FilterSet
from rest_framework import permissions, serializers

from tests.django.exposing.test_rest_framework import BookSerializer
from tests.django.serving import served
from tests.django.shop.models import Book, Shelf

pytestmark = pytest.mark.parametrize("host", ["wsgi", "asgi"])


class Spec(SimpleNamespace):
    """A specification of a project's own; the published ones are dataclasses with more members."""

    permission_classes = (permissions.AllowAny,)


class ServiceError(Exception):
    """The name by which the published package's exceptions are known."""


class NewBook(serializers.Serializer[Any]):
    title = serializers.CharField()
    shelf = serializers.SlugRelatedField(slug_field="slug", queryset=Shelf.objects.all())
    price = serializers.DecimalField(max_digits=8, decimal_places=2, min_value=Decimal(0))


def buy_book(*, data: Any, user: Any) -> Book:
    """Buy a book for a shelf."""
    book = Book.objects.create(**data)
    if book.price > 100:
        raise ServiceError("Too dear")
    if book.title == "bad":
        raise ValidationError({"title": ["Not this one"]})
    return book


def find_book(*, pk: int) -> Any:
    """Find a book."""
    return Book.objects.filter(pk=pk)


def books(*, user: Any, at_least: Decimal = Decimal(0)) -> Any:
    """List books."""
    return Book.objects.filter(price__gte=at_least).order_by("id")


class Filters(FilterSet):
    class Meta:
        model = Book
        fields = ("kind",)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    made = Shelf.objects.create(slug="low")
    yield made
    made.delete()


def test_a_service_validates_runs_and_answers(host: str, shelf: Shelf) -> None:
    with served(host) as site:
        site.mcp.add_service(
            "buy_book", Spec(service=buy_book, input_serializer=NewBook, output_serializer=BookSerializer)
        )
        tool = site.tools()["buy_book"]
        assert tool["description"] == "Buy a book for a shelf."
        assert set(tool["inputSchema"]["required"]) == {"title", "shelf", "price"}
        made = site.data("buy_book", {"title": "a", "shelf": "low", "price": "1"})
        assert made["price"] == "1.00"
        assert "price: Ensure this value" in site.problem("buy_book", {"title": "a", "shelf": "low", "price": "-1"})
        assert "title: Not this one" in site.problem("buy_book", {"title": "bad", "shelf": "low", "price": "1"})
        assert "Too dear" in site.problem("buy_book", {"title": "b", "shelf": "low", "price": "101"})
        assert Book.objects.filter(shelf=shelf).count() == 1  # what failed is rolled back


def test_selectors_take_arguments_filters_and_pages(host: str, shelf: Shelf) -> None:
    for number in range(3):
        Book.objects.create(shelf=shelf, title=f"t{number}", price=number, kind="atlas" if number else "novel")
    with served(host) as site:
        site.mcp.add_service(
            "books", Spec(selector=books, kind="list", output_serializer=BookSerializer, filter_set=Filters)
        )
        site.mcp.add_service("book", Spec(selector=find_book, kind="retrieve", output_serializer=BookSerializer))
        tools = site.tools()
        assert set(tools["books"]["inputSchema"]["properties"]) == {"at_least", "kind", "page"}
        assert tools["book"]["inputSchema"]["required"] == ["pk"]
        assert tools["book"]["annotations"]["readOnlyHint"] is True
        assert [each["title"] for each in site.data("books", {"at_least": "1"})["results"]] == ["t1", "t2"]
        found = site.data("books", {"kind": "novel"})["results"]
        assert [each["title"] for each in found] == ["t0"]
        assert site.data("book", {"pk": found[0]["id"]})["title"] == "t0"
        assert "404" in site.problem("book", {"pk": 0})


def test_a_service_changes_the_object_that_its_selector_finds(host: str, shelf: Shelf) -> None:
    def rename(*, instance: Book, data: Any) -> Book:
        """Rename a book."""
        instance.title = data["title"]
        instance.save()
        return instance

    class Title(serializers.Serializer[Any]):
        title = serializers.CharField()

    book = Book.objects.create(shelf=shelf, title="old")
    with served(host) as site:
        site.mcp.add_service(
            "rename",
            Spec(
                service=rename,
                input_serializer=Title,
                instance_selector_spec=Spec(selector=find_book, kind="retrieve"),
                output_selector_spec=Spec(kind="retrieve", selector=None, output_serializer=BookSerializer),
            ),
        )
        assert set(site.tools()["rename"]["inputSchema"]["required"]) == {"pk", "title"}
        assert site.data("rename", {"pk": book.pk, "title": "new"})["title"] == "new"
        assert "404" in site.problem("rename", {"pk": 0, "title": "new"})


def test_permissions_of_a_specification_decide_who_sees_it(host: str, alice: Any) -> None:
    with served(host) as site:
        site.mcp.add_service("books", Spec(selector=books, kind="list", permission_classes=(permissions.IsAdminUser,)))
        site.mcp.add_service("book", Spec(selector=find_book, kind="retrieve", permission_classes=None))
        assert site.tools() == {}
        assert set(site.tools(alice)) == {"book"}


def test_what_is_not_supported_is_refused(host: str) -> None:
    with served(host) as site:
        with pytest.raises(TypeError, match="neither a service nor a selector"):
            site.mcp.add_service("x", Spec())
        with pytest.raises(TypeError, match="affordances"):
            site.mcp.add_service("x", Spec(service=buy_book, affordances=(1,)))
