"""Views of Django REST framework as tools, under WSGI and under ASGI."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.urls import include, path
from django.utils import translation
from rest_framework import (
    filters,
    generics,
    mixins,
    pagination,
    permissions,
    routers,
    serializers,
    throttling,
    viewsets,
)
from rest_framework.decorators import action, api_view, permission_classes
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from ferrule.django.exposing.targets import NothingExposed
from tests.django.serving import served
from tests.django.shop.models import Book, Invoice, Shelf

pytestmark = pytest.mark.parametrize("host", ["wsgi", "asgi"])


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    made = Shelf.objects.create(slug="top", label="Top")
    yield made
    made.delete()


@pytest.fixture
def books(shelf: Shelf) -> list[Book]:
    return [
        Book.objects.create(shelf=shelf, title=title, price=price, kind=kind)
        for title, price, kind in (("Emma", "3.50", "novel"), ("World", "20", "atlas"), ("Ulysses", "9", "novel"))
    ]


class BookSerializer(serializers.ModelSerializer[Book]):
    secret = serializers.CharField(write_only=True, required=False)
    caption = serializers.SerializerMethodField()

    class Meta:
        model = Book
        fields = ("id", "title", "kind", "price", "code", "shelf", "secret", "caption")
        read_only_fields = ("code",)

    def get_caption(self, book: Book) -> str:
        return f"{book.title} ({book.kind})"

    def create(self, validated_data: Any) -> Book:
        validated_data.pop("secret", None)
        return super().create(validated_data)


class BookViewSet(viewsets.ModelViewSet[Book]):
    queryset = Book.objects.order_by("id")
    serializer_class = BookSerializer
    permission_classes = (permissions.AllowAny,)


def routed(**viewsets_: Any) -> Any:
    def patterns() -> list[Any]:
        router = routers.DefaultRouter()
        for name, viewset in viewsets_.items():
            router.register(name, viewset, basename=name)
        return [path("api/", include(router.urls))]

    return patterns


# -- the user ----------------------------------------------------------------------------------------------------------


class _ByUser(viewsets.ModelViewSet[Invoice]):
    """Invoices."""

    class Short(serializers.ModelSerializer[Invoice]):
        class Meta:
            model = Invoice
            fields = ("id", "title", "amount")

    class Long(serializers.ModelSerializer[Invoice]):
        class Meta:
            model = Invoice
            fields = ("id", "title", "amount", "paid")

    def get_queryset(self) -> Any:
        user: Any = self.request.user
        return user.invoice_set.order_by("id")  # an anonymous user has none

    def get_serializer_class(self) -> Any:
        if self.action == "list":
            return self.Short
        user: Any = self.request.user
        return self.Long if user.invoice_set is not None else self.Short

    def get_permissions(self) -> Any:
        return [permissions.IsAdminUser()] if self.action == "destroy" else [permissions.IsAuthenticated()]

    def perform_create(self, serializer: Any) -> None:
        serializer.save(owner=self.request.user)


def test_methods_that_read_the_user_and_the_action_do_not_fail_without_a_user(host: str, alice: Any) -> None:
    """A description is made without a user."""
    with served(host, routed(bill=_ByUser)) as site:
        site.mcp.expose(_ByUser)
        tools = site.tools(alice)
        assert set(tools) == {"bill_list", "bill_create", "bill_retrieve", "bill_update", "bill_partial_update"}
        assert set(tools["bill_create"]["inputSchema"]["properties"]) == {"title", "amount", "paid"}
        assert tools["bill_retrieve"]["inputSchema"]["properties"]["id"]["type"] == "integer"
        made = site.data("bill_create", {"title": "a", "amount": "1.00", "paid": True}, alice)
        assert made["paid"] is True
        assert site.data("bill_list", {}, alice)["results"] == [{"id": made["id"], "title": "a", "amount": "1.00"}]
        assert site.tools() == {}


class _StaffFields(viewsets.GenericViewSet[Invoice], mixins.CreateModelMixin):
    permission_classes = (permissions.IsAuthenticated,)
    queryset = Invoice.objects.none()

    def get_serializer_class(self) -> Any:
        user: Any = self.request.user
        return _ByUser.Long if user.is_staff else _ByUser.Short

    def perform_create(self, serializer: Any) -> None:
        serializer.save(owner=self.request.user)


def test_a_description_that_depends_on_the_user_is_made_for_the_user_who_is_named(host: str, alice: Any) -> None:
    with served(host, routed(bill=_StaffFields)) as site:
        site.mcp.expose(_StaffFields)
        assert set(site.tools(alice)["bill_create"]["inputSchema"]["properties"]) == {"title", "amount"}
    with served(host, routed(bill=_StaffFields)) as site:
        site.mcp.expose(_StaffFields, describe_as=lambda: User(is_staff=True))
        assert set(site.tools(alice)["bill_create"]["inputSchema"]["properties"]) == {"title", "amount", "paid"}


# -- refusals ----------------------------------------------------------------------------------------------------------


class _Owner(permissions.BasePermission):
    message = "Only the owner may do this"

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return bool(obj.owner == request.user)


class Owned(viewsets.ModelViewSet[Invoice]):
    queryset = Invoice.objects.order_by("id")
    serializer_class = _ByUser.Long
    permission_classes = (permissions.IsAuthenticated, _Owner)


def test_a_refused_object_is_a_tool_error_with_the_reason(host: str, alice: Any) -> None:
    other = User.objects.create_user("other")
    invoice = Invoice.objects.create(owner=other, title="x", amount=1)
    try:
        with served(host, routed(owned=Owned)) as site:
            site.mcp.expose(Owned)
            text = site.problem("owned_retrieve", {"id": invoice.pk}, alice)
            assert "403" in text
            assert "Only the owner may do this" in text
    finally:
        other.delete()


class _Twice(throttling.SimpleRateThrottle):
    scope = "twice"
    rate = "2/hour"

    def get_cache_key(self, request: Any, view: Any) -> str:
        return f"twice-{request.user.pk}-{view.host}"


def test_a_throttled_call_says_how_long_to_wait(host: str, alice: Any) -> None:
    class Slow(APIView):
        throttle_classes = (_Twice,)
        permission_classes = (permissions.AllowAny,)

        def get(self, request: Any) -> Response:
            """Answer."""
            return Response({"ok": True})

    Slow.host = f"{host}{alice.pk}"  # type: ignore[attr-defined]
    with served(host) as site:
        site.mcp.expose(Slow)
        for _ in range(2):
            assert site.data("slow_get", {}, alice) == {"ok": True}
        text = site.problem("slow_get", {}, alice)
        assert "429" in text
        assert "Try again after" in text
        assert " s" in text.partition("Try again after")[2]


class _Line(serializers.Serializer[Any]):
    class Part(serializers.Serializer[Any]):
        count = serializers.IntegerField(min_value=1)
        code = serializers.RegexField("^[a-z]+$")

    parts = Part(many=True)


class _Order(serializers.Serializer[Any]):
    lines = _Line(many=True)

    def validate(self, attrs: Any) -> Any:
        raise serializers.ValidationError(
            {"lines": [{}, {"parts": [{"count": ["Out of stock", "Ask again tomorrow"]}]}], "non_field_errors": ["No"]}
        )


@api_view(["POST"])
@permission_classes([permissions.AllowAny])
def place(request: Any) -> Response:
    """Place an order."""
    order = _Order(data=request.data)
    order.is_valid(raise_exception=True)
    return Response(order.data)


def test_every_message_of_nested_validation_errors_reaches_the_model(host: str) -> None:
    with served(host) as site:
        site.mcp.expose(place, add_parameters={"place_post": {"lines": {"in": "body", "schema": {"type": "array"}}}})
        text = site.problem("place_post", {"lines": [{"parts": [{"count": 0, "code": "A"}]}, {"parts": 3}]})
        text = re.sub(r"\[(\d+)\]", r".\1", text)  # Django REST framework names the places of a list in either way
        assert "lines.0.parts.0.count: Ensure this value is greater than or equal to 1." in text
        assert "lines.0.parts.0.code: This value does not match the required pattern." in text
        assert "lines.1.parts" in text
        text = site.problem("place_post", {"lines": [{"parts": [{"count": 1, "code": "a"}]}]})
        for message in ("Out of stock", "Ask again tomorrow", "No"):
            assert message in text


# -- serializers -------------------------------------------------------------------------------------------------------


def test_inputs_have_no_read_only_fields_and_results_no_write_only_fields(host: str, shelf: Shelf) -> None:
    with served(host, routed(book=BookViewSet)) as site:
        site.mcp.expose(BookViewSet, validate_output="publish")
        tools = site.tools()
        assert set(tools["book_create"]["inputSchema"]["properties"]) == {"title", "kind", "price", "shelf", "secret"}
        assert tools["book_create"]["inputSchema"]["required"] == ["title", "shelf"]
        shown = tools["book_retrieve"]["outputSchema"]["properties"]
        assert set(shown) == {"id", "title", "kind", "price", "code", "shelf", "caption"}
        assert shown["caption"]["type"] == "string"
        made = site.data("book_create", {"title": "Emma", "shelf": shelf.pk, "secret": "x"})
        assert "secret" not in made
        assert site.data("book_retrieve", {"id": made["id"]})["caption"] == "Emma (novel)"


def test_choices_and_decimals_are_those_of_the_serializer(host: str, shelf: Shelf) -> None:
    with served(host, routed(book=BookViewSet)) as site:
        site.mcp.expose(BookViewSet)
        schema = site.tools()["book_create"]["inputSchema"]
        kind = schema["properties"]["kind"]
        kind = schema["$defs"][kind["$ref"].rpartition("/")[2]] if "$ref" in kind else kind
        assert kind["enum"] == ["novel", "atlas"]
        assert schema["properties"]["price"]["type"] == ["string", "number"]
        assert site.data("book_create", {"title": "a", "shelf": shelf.pk, "price": "1.25"})["price"] == "1.25"
        assert site.data("book_create", {"title": "a", "shelf": shelf.pk, "price": 1.25})["price"] == "1.25"
        assert "price" in site.problem("book_create", {"title": "a", "shelf": shelf.pk, "price": "x"})


def test_patch_is_partial(host: str, books: list[Book]) -> None:
    with served(host, routed(book=BookViewSet)) as site:
        site.mcp.expose(BookViewSet)
        schema = site.tools()["book_partial_update"]["inputSchema"]
        assert schema["required"] == ["id"]
        changed = site.data("book_partial_update", {"id": books[0].pk, "price": "4.00"})
        assert (changed["title"], changed["price"]) == ("Emma", "4.00")


class Cat(serializers.Serializer[Any]):
    name = serializers.CharField()
    lives = serializers.IntegerField()


class Dog(serializers.Serializer[Any]):
    name = serializers.CharField()
    tricks = serializers.ListField(child=serializers.CharField())


def test_polymorphic_serializers_are_alternatives(host: str) -> None:
    from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema

    class Pet(APIView):
        permission_classes = (permissions.AllowAny,)
        pets = PolymorphicProxySerializer(
            component_name="Pet", serializers={"cat": Cat, "dog": Dog}, resource_type_field_name="kind"
        )

        @extend_schema(request=pets, responses=pets)
        def post(self, request: Any) -> Response:
            """Keep a pet."""
            return Response(request.data)

    with served(host) as site:
        site.mcp.expose(Pet)
        arguments = site.tools()["pet_post"]["inputSchema"]["properties"]
        given = {"kind": "cat", "name": "Tom", "lives": 9}
        given = {"body": given} if set(arguments) == {"body"} else given
        assert site.data("pet_post", given) == {"kind": "cat", "name": "Tom", "lives": 9}


class _BookLink(serializers.HyperlinkedModelSerializer[Book]):
    class Meta:
        model = Book
        fields = ("url", "title", "shelf")
        extra_kwargs: ClassVar = {"url": {"view_name": "linked-detail"}, "shelf": {"view_name": "shelf-detail"}}


class _Linked(viewsets.ModelViewSet[Book]):
    queryset = Book.objects.order_by("id")
    serializer_class = _BookLink
    permission_classes = (permissions.AllowAny,)


class _Shelf(serializers.ModelSerializer[Shelf]):
    class Meta:
        model = Shelf
        fields = ("id", "slug", "label")


class ShelfViewSet(viewsets.ModelViewSet[Shelf]):
    queryset = Shelf.objects.order_by("id")
    serializer_class = _Shelf
    permission_classes = (permissions.AllowAny,)


def test_links_have_the_host_of_the_caller_and_can_be_given_back(host: str, books: list[Book]) -> None:
    with served(host, routed(linked=_Linked, shelf=ShelfViewSet)) as site:
        site.mcp.expose(_Linked)
        given = {"host": "127.0.0.1"} if host == "wsgi" else {}  # the asynchronous test client always names its own
        result = site.call("linked_retrieve", {"id": books[0].pk}, **given)
        link = result["structuredContent"]["shelf"]
        assert link.startswith(f"http://{given.get('host', 'testserver')}/api/shelf/")
        made = site.data("linked_create", {"title": "New", "shelf": link})
        assert made["title"] == "New"


def test_a_file_is_an_argument(host: str, shelf: Shelf, tmp_path: Any, settings_of_media: Any) -> None:
    class Covered(serializers.ModelSerializer[Book]):
        class Meta:
            model = Book
            fields = ("id", "title", "shelf", "cover")

    class Covers(viewsets.ModelViewSet[Book]):
        queryset = Book.objects.order_by("id")
        serializer_class = Covered
        permission_classes = (permissions.AllowAny,)

    class Uploads(Covers):
        parser_classes = (MultiPartParser,)

    for viewset in (Covers, Uploads):
        with served(host, routed(cover=viewset)) as site:
            site.mcp.expose(viewset)
            assert "base64" in str(site.tools()["cover_create"]["inputSchema"]["properties"]["cover"])
            file = {"base64": base64.b64encode(b"\x89PNG").decode(), "filename": "a.png"}
            made = site.data("cover_create", {"title": "a", "shelf": shelf.pk, "cover": file})
            with Book.objects.get(pk=made["id"]).cover.open() as cover:
                assert cover.read() == b"\x89PNG"
            changed = site.data("cover_partial_update", {"id": made["id"], "title": "b"})
            assert changed["title"] == "b"


@pytest.fixture
def settings_of_media(tmp_path: Any) -> Iterator[None]:
    from django.test import override_settings

    with override_settings(MEDIA_ROOT=str(tmp_path)):
        yield


class _FormLine(serializers.Serializer[Any]):
    title = serializers.CharField()
    sizes = serializers.DictField(child=serializers.IntegerField(), required=False)


class _Form(serializers.Serializer[Any]):
    scan = serializers.FileField(required=False, allow_null=True)
    facts = serializers.JSONField(required=False, allow_null=True)
    day = serializers.DateField(required=False, allow_null=True)
    is_open = serializers.BooleanField(default=True)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    owner = _FormLine(required=False)
    lines = _FormLine(many=True, required=False)


class _Forms(generics.GenericAPIView[Any]):
    serializer_class = _Form
    permission_classes = (permissions.AllowAny,)

    def post(self, request: Any) -> Response:
        """Return what was understood."""
        found = self.get_serializer(data=request.data)
        found.is_valid(raise_exception=True)
        scan = found.validated_data.pop("scan", "none")
        return Response({**found.validated_data, "scan": scan and getattr(scan, "name", scan)})


@pytest.mark.parametrize(
    "arguments",
    [
        {"facts": None, "day": None, "scan": None},
        {"facts": [], "tags": []},
        {"facts": "text", "owner": {"title": "a", "sizes": {"b": 1}}},
        {"facts": {"a": [None]}, "lines": [{"title": "a"}, {"title": "b", "sizes": {}}], "is_open": False},
    ],
)
def test_a_form_with_a_file_is_sent_as_json_without_one(host: str, arguments: Any) -> None:
    """Parts have no null, no empty list and no objects; a boolean that is left out is false in a form."""
    with served(host, lambda: [path("forms/", _Forms.as_view())]) as site:
        site.mcp.expose(_Forms)
        assert site.data("forms_post", arguments) == {"scan": "none", "is_open": True, **arguments}


def test_values_beside_a_file_are_written_as_forms_have_them(host: str) -> None:
    read = _FormLine(data=QueryDict("title=a&sizes.b=1"))
    assert read.is_valid()
    sizes = read.validated_data["sizes"]  # Django REST framework 3.15 loses the members of such a field in a form
    arguments: dict[str, Any] = {
        "facts": "text",
        "day": None,
        "is_open": True,
        "tags": ["a", "b"],
        "owner": {"title": "a", "sizes": sizes},
        "lines": [{"title": "a", "sizes": sizes}, {"title": "b", "sizes": sizes}],
    }
    with served(host, lambda: [path("forms/", _Forms.as_view())]) as site:
        site.mcp.expose(_Forms)
        assert site.tools()["forms_post"]["inputSchema"]["properties"]["scan"]["type"] == ["object", "null"]
        for facts in ("text", None, [], {"a": None}):
            given = {**arguments, "facts": facts}
            assert site.data("forms_post", {**given, "scan": {"text": "x"}}) == {**given, "scan": "file"}


def test_descriptions_are_in_the_language_of_the_project(host: str) -> None:
    """They are made by the first request, and all callers get the same ones."""
    with served(host, routed(book=BookViewSet)) as site, translation.override("de"):
        site.mcp.expose(BookViewSet)
        shown = site.send("tools/list", {}, **{"accept-language": "de"}).message["result"]["tools"]
        (found,) = [each for each in shown if each["name"] == "book_retrieve"]
        assert found["inputSchema"]["properties"]["id"]["description"].startswith("A unique integer value")


# -- actions and routes ------------------------------------------------------------------------------------------------


class Amount(serializers.Serializer[Any]):
    amount = serializers.IntegerField(min_value=1)


class _Actions(BookViewSet):
    @action(detail=True, methods=["post"], serializer_class=Amount, url_path="copy-it/now")
    def copy(self, request: Any, pk: Any = None) -> Response:
        """Copy a book."""
        given = self.get_serializer(data=request.data)
        given.is_valid(raise_exception=True)
        return Response({"copied": self.get_object().title, "times": given.validated_data["amount"]})

    @action(detail=False, methods=["get", "delete"], pagination_class=None, filter_backends=())
    def old(self, request: Any) -> Response:
        """List or delete old books."""
        return Response([] if request.method == "GET" else None, status=200 if request.method == "GET" else 204)

    @old.mapping.post
    def make_old(self, request: Any) -> Response:
        """Make books old."""
        return Response({"made": 1})


def test_actions_are_tools_with_their_own_serializer_and_methods(host: str, books: list[Book]) -> None:
    with served(host, routed(book=_Actions)) as site:
        site.mcp.expose(_Actions, actions=["copy", "old", "make_old"])
        tools = site.tools()
        assert set(tools) == {"book_copy", "book_make_old", "book_old_get", "book_old_delete"}
        assert set(tools["book_copy"]["inputSchema"]["properties"]) == {"id", "amount"}
        found = site.data("book_copy", {"id": books[0].pk, "amount": 2})
        assert found == {"copied": "Emma", "times": 2}
        reads = [name for name, tool in tools.items() if tool["annotations"].get("readOnlyHint")]
        assert len(reads) == 1
        assert site.data(reads[0], {}) == []


def test_an_action_that_does_not_exist_is_refused_where_it_is_named(host: str) -> None:
    with served(host, routed(book=_Actions)) as site:
        with pytest.raises(NothingExposed, match="did you mean 'retrieve'"):
            site.mcp.expose(_Actions, actions=["retrive"])


@pytest.mark.parametrize("view", [place, generics.GenericAPIView])
@pytest.mark.parametrize("actions", [["list"], []])
def test_actions_of_a_view_that_has_none_are_refused(host: str, view: Any, actions: list[str]) -> None:
    """They would choose nothing: all methods of the view would be exposed."""
    with served(host) as site, pytest.raises(TypeError, match=r"actions= is for viewsets, and .* is another view"):
        site.mcp.expose(view, actions=actions)


def test_actions_are_a_list(host: str) -> None:
    with served(host) as site, pytest.raises(TypeError, match=r"actions= is a list of names, such as \['list'\]"):
        site.mcp.expose(BookViewSet, actions="list")


class _BySlug(ShelfViewSet):
    lookup_field = "slug"
    lookup_value_regex = "[a-z]+"


def test_a_lookup_field_is_the_argument(host: str, shelf: Shelf) -> None:
    with served(host, routed(shelf=_BySlug)) as site:
        site.mcp.expose(_BySlug)
        assert site.tools()["shelf_retrieve"]["inputSchema"]["required"] == ["slug"]
        assert site.data("shelf_retrieve", {"slug": "top"})["id"] == shelf.pk


class _ByAnything(ShelfViewSet):
    lookup_field = "label"
    lookup_value_regex = ".+"


def test_a_lookup_that_takes_slashes_is_given_them(host: str, shelf: Shelf) -> None:
    Shelf.objects.filter(pk=shelf.pk).update(label="a/b.c%d e?f#g")
    with served(host, routed(shelf=_ByAnything)) as site:
        site.mcp.expose(_ByAnything)
        assert site.data("shelf_retrieve", {"label": "a/b.c%d e?f#g"})["slug"] == "top"
        for value in ("a/../b", "/a", "..", "a/.."):
            assert "of the path" in site.problem("shelf_retrieve", {"label": value})


def test_a_value_chooses_no_format(host: str, shelf: Shelf) -> None:
    """A router has each path with a suffix, too; ``.api`` would answer with a page for browsers."""

    class BySlug(ShelfViewSet):
        lookup_field = "slug"

    with served(host, routed(shelf=BySlug)) as site:
        site.mcp.expose(BySlug)
        assert "another operation" in site.problem("shelf_retrieve", {"slug": "top.api"})


class _Nested(BookViewSet):
    def get_queryset(self) -> Any:
        return super().get_queryset().filter(shelf=self.kwargs["shelf_pk"])


def test_nested_routers_take_the_parent_as_an_argument(host: str, books: list[Book], shelf: Shelf) -> None:
    from rest_framework_nested.routers import NestedSimpleRouter

    def by_package() -> list[Any]:
        router = routers.SimpleRouter()
        router.register("shelves", ShelfViewSet)
        nested = NestedSimpleRouter(router, "shelves", lookup="shelf")
        nested.register("books", _Nested, basename="shelf-books")
        return [path("", include(router.urls)), path("", include(nested.urls))]

    def by_hand() -> list[Any]:
        router = routers.SimpleRouter()
        router.register("books", _Nested, basename="shelf-books")
        return [path("shelves/<int:shelf_pk>/", include(router.urls))]

    for patterns in (by_package, by_hand):
        with served(host, patterns) as site:
            site.mcp.expose(_Nested)
            tools = site.tools()
            assert set(tools["shelf-books_retrieve"]["inputSchema"]["required"]) == {"shelf_pk", "id"}
            found = site.data("shelf-books_list", {"shelf_pk": shelf.pk})
            assert found["count"] == 3
            assert site.data("shelf-books_retrieve", {"shelf_pk": shelf.pk, "id": books[1].pk})["title"] == "World"


def test_a_value_that_leads_to_another_view_is_refused(host: str, books: list[Book]) -> None:
    """``/shelf/old/`` is another view than ``/shelf/{slug}/``."""

    class Shelves(ShelfViewSet):
        lookup_field = "slug"
        lookup_value_regex = "[^/]+"

        @action(detail=False)
        def me(self, request: Any) -> Response:
            """Return what is mine."""
            return Response({"secret": 1})

    with served(host, routed(shelf=Shelves)) as site:
        site.mcp.expose(Shelves, actions=["retrieve"])
        assert "another operation" in site.problem("shelf_retrieve", {"slug": "me"})
        assert site.data("shelf_retrieve", {"slug": "top"})["slug"] == "top"


def test_a_viewset_on_two_routes_is_two_tools_each(host: str) -> None:
    def patterns() -> list[Any]:
        made: list[Any] = []
        for prefix in ("books", "old-books"):
            router = routers.SimpleRouter()
            router.register(prefix, BookViewSet, basename="book")
            made.append(path("api/", include(router.urls)))
        return made

    with served(host, patterns) as site:
        site.mcp.expose(BookViewSet, actions=["list"])
        assert set(site.tools()) == {"get_api_books", "get_api_old-books"}
    with served(host, patterns) as site:
        site.mcp.expose(BookViewSet, actions=["list"], prefix="/api/old-books/")
        assert set(site.tools()) == {"book_list"}


def test_views_in_no_urlconf_get_an_address(host: str, books: list[Book]) -> None:
    class Total(generics.GenericAPIView[Book]):
        queryset = Book.objects.all()
        permission_classes = (permissions.AllowAny,)

        def get(self, request: Any) -> Response:
            """Count books."""
            return Response({"count": self.get_queryset().count(), "at": request.path})

    with served(host) as site:
        site.mcp.expose(Total)
        site.mcp.expose(BookViewSet, actions=["list"])
        site.mcp.expose(place)
        assert set(site.tools()) == {"total_get", "bookviewset_list", "place_post"}
        assert site.data("total_get", {})["count"] == 3
        assert APIClient().get("/ferrule/total/").status_code == 404


def test_generic_views_with_arguments_in_their_path(host: str, books: list[Book]) -> None:
    class Detail(generics.RetrieveUpdateDestroyAPIView[Book]):
        queryset = Book.objects.all()
        serializer_class = BookSerializer
        permission_classes = (permissions.AllowAny,)
        lookup_field = "code"

    with served(host, lambda: [path("books/<uuid:code>/", Detail.as_view())]) as site:
        site.mcp.expose(Detail)
        assert set(site.tools()) == {"detail_get", "detail_put", "detail_patch", "detail_delete"}
        assert site.data("detail_get", {"code": str(books[0].code)})["title"] == "Emma"


def test_names_stay_the_same_after_the_first_request(host: str) -> None:
    """A viewset's view adds ``head`` to its methods with the first request."""
    router = routers.SimpleRouter()
    router.register("books", BookViewSet, basename="book")
    for _ in range(2):
        with served(host, lambda: [path("a/", include(router.urls))]) as site:
            site.mcp.expose(router)
            assert site.data("book_list", {})["count"] == 0


def test_a_router_offers_its_own_routes_only(host: str) -> None:
    router = routers.DefaultRouter()
    router.register("books", BookViewSet, basename="book")
    other = routers.DefaultRouter()
    other.register("further", BookViewSet, basename="further")
    with served(host, lambda: [path("a/", include(router.urls)), path("b/", include(other.urls))]) as site:
        site.mcp.expose(router)
        assert {name.partition("_")[0] for name in site.tools()} == {"book"}


def test_exposing_does_not_change_the_class(host: str, books: list[Book]) -> None:
    def facts(kind: Any) -> dict[str, Any]:
        # Python adds an empty `__annotations__` where something reads it.
        return {each.__qualname__: {**vars(each), "__annotations__": None} for each in kind.__mro__}

    with served(host, routed(book=_Actions)) as site:
        before = facts(_Actions)  # `as_view()` of Django REST framework has set attributes
        site.mcp.expose(_Actions)
        site.tools()
        site.data("book_list", {})
    assert facts(_Actions) == before


# -- lists -------------------------------------------------------------------------------------------------------------


class _Filtered(BookViewSet):
    from django_filters.rest_framework import DjangoFilterBackend

    filter_backends = (DjangoFilterBackend, filters.SearchFilter, filters.OrderingFilter)
    filterset_fields: ClassVar = {"kind": ["exact", "in"], "price": ["gte"]}
    search_fields = ("title",)
    ordering_fields = ("price",)


def test_filters_search_and_ordering_are_arguments(host: str, books: list[Book]) -> None:
    with served(host, routed(book=_Filtered)) as site:
        site.mcp.expose(_Filtered, actions=["list"])
        arguments = site.tools()["book_list"]["inputSchema"]["properties"]
        assert set(arguments) == {"kind", "kind__in", "price__gte", "search", "ordering", "page"}
        titles = [
            [book["title"] for book in site.data("book_list", given)["results"]]
            for given in (
                {"kind": "atlas"}, {"price__gte": 9, "ordering": "-price"}, {"search": "emm"},
                {"kind__in": ["atlas", "novel"], "ordering": "price"},
            )
        ]  # fmt: skip
        assert titles == [["World"], ["World", "Ulysses"], ["Emma"], ["Emma", "Ulysses"]]


class _Pages(pagination.PageNumberPagination):
    page_size = 2


class _Limits(pagination.LimitOffsetPagination):
    default_limit = 2


class Cursors(pagination.CursorPagination):
    page_size = 2
    ordering = "id"


@pytest.mark.parametrize("pages", [_Pages, _Limits, Cursors])
@pytest.mark.parametrize("text", ["json", "toon"])
def test_each_pagination_class_says_how_to_get_the_next_page(
    host: str, pages: Any, text: str, books: list[Book]
) -> None:
    class Paged(BookViewSet):
        pagination_class = pages

    with served(host, routed(book=Paged), text=text) as site:
        site.mcp.expose(Paged, actions=["list"])
        result = site.call("book_list", {})
        assert [book["title"] for book in result["structuredContent"]["results"]] == ["Emma", "World"]
        texts = [part["text"] for part in result["content"]]
        if text == "toon":
            assert "results[2]{id,title" in texts[0]
        help_ = next(each for each in texts if each.startswith("Next page: call again with "))
        import json

        given = json.loads(help_.removeprefix("Next page: call again with ").partition(" and the other")[0])
        rest = site.data("book_list", given)
        assert [book["title"] for book in rest["results"]] == ["Ulysses"]
