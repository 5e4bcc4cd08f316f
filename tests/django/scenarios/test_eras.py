"""Exposed views in both eras of the protocol, under WSGI and under ASGI, as a client of this package sees them."""

from __future__ import annotations

import base64
import re
from typing import Any, ClassVar

import anyio
import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from ninja import NinjaAPI
from ninja.security import HttpBearer
from rest_framework import exceptions, permissions, serializers, throttling, viewsets
from rest_framework.decorators import action
from rest_framework.parsers import FormParser
from rest_framework.response import Response
from rest_framework.views import APIView

from ferrule import Client
from ferrule.protocol.errors import RemoteError
from tests.django.exposing.test_rest_framework import (
    Amount,
    BookViewSet,
    Cursors,
    Owned,
    books,
    place,
    routed,
    settings_of_media,
    shelf,
)
from tests.django.serving import served
from tests.django.shop.models import Book, Invoice, Shelf

__all__ = ["books", "settings_of_media", "shelf"]

pytestmark = [
    pytest.mark.parametrize("mode", ["legacy", "2026-07-28"]),
    pytest.mark.parametrize("host", ["wsgi", "asgi"]),
]


async def names(client: Client) -> set[str]:
    return {tool.name for tool in await client.list_tools()}


def test_lists_and_calls(host: str, mode: str, books: list[Book]) -> None:
    async def use(client: Client) -> None:
        tools = {tool.name: tool for tool in await client.list_tools()}
        actions = ("list", "create", "retrieve", "update", "partial_update", "destroy")
        assert set(tools) == {f"book_{each}" for each in actions}
        assert tools["book_retrieve"].annotations.read_only_hint is True
        assert tools["book_retrieve"].input_schema["required"] == ["id"]
        found = await client.call_tool("book_retrieve", {"id": books[0].pk})
        assert found.structured_content["title"] == "Emma"
        changed = await client.call_tool("book_partial_update", {"id": books[0].pk, "title": "Emma II"})
        assert changed.structured_content["title"] == "Emma II"
        missing = await client.call_tool("book_retrieve", {"id": 0})
        assert missing.is_error
        assert "404" in missing.text

    with served(host, routed(book=BookViewSet)) as site:
        site.mcp.expose(BookViewSet)
        site.run(use, mode)


def test_a_refused_object_is_an_error_and_a_hidden_tool_unknown(host: str, mode: str, alice: Any) -> None:
    other = User.objects.create_user("other")
    invoice = Invoice.objects.create(owner=other, title="x", amount=1)

    class OfStaff(Owned):
        def get_permissions(self) -> Any:
            return [permissions.IsAdminUser()] if self.action == "destroy" else super().get_permissions()

    async def use(client: Client) -> None:
        assert "owned_retrieve" in await names(client)
        assert "owned_destroy" not in await names(client)
        refused = await client.call_tool("owned_retrieve", {"id": invoice.pk})
        assert refused.is_error
        assert "Only the owner may do this" in refused.text
        with pytest.raises(RemoteError, match="Unknown tool: owned_destroy"):
            await client.call_tool("owned_destroy", {"id": invoice.pk})

    async def anonymous(client: Client) -> None:
        assert await names(client) == set()

    try:
        with served(host, routed(owned=OfStaff)) as site:
            site.mcp.expose(OfStaff)
            site.run(use, mode, alice)
            site.run(anonymous, mode)
    finally:
        other.delete()


def test_a_list_follows_the_permissions_of_the_user_and_the_tools_of_the_server(
    host: str, mode: str, alice: Any
) -> None:
    """Within one session; where a stream is open, the client is told that the tools have changed."""

    class Staff(BookViewSet):
        permission_classes = (permissions.IsAdminUser,)

    def added() -> str:
        """Say something."""
        return "here"

    async def use(client: Client) -> None:
        assert await names(client) == set()
        await User.objects.filter(pk=alice.pk).aupdate(is_staff=True)
        assert await names(client) == {"book_list"}
        if host == "asgi":
            async with client.listen(tools=True) as changes:
                site.mcp.add_tool(added)
                with anyio.fail_after(60):
                    assert (await anext(changes)).kind == "tools"
        else:
            site.mcp.add_tool(added)
        assert await names(client) == {"book_list", "added"}
        assert (await client.call_tool("added")).text == "here"

    with served(host, routed(book=Staff)) as site:
        site.mcp.expose(Staff, actions=["list"])
        assert site.tools() == {}
        site.mcp.add_tool(added)  # a list that has changed is announced as one that changes
        site.mcp.remove_tool("added")
        site.run(use, mode, alice)


def test_messages_of_validation_reach_the_model(host: str, mode: str, shelf: Shelf) -> None:
    async def use(client: Client) -> None:
        wrong = await client.call_tool("place_post", {"lines": [{"parts": [{"count": 0, "code": "A"}]}]})
        assert wrong.is_error
        text = re.sub(r"\[(\d+)\]", r".\1", wrong.text)
        assert "lines.0.parts.0.count: Ensure this value is greater than or equal to 1." in text
        assert "lines.0.parts.0.code: This value does not match the required pattern." in text

    with served(host) as site:
        site.mcp.expose(place, add_parameters={"place_post": {"lines": {"in": "body", "schema": {"type": "array"}}}})
        site.run(use, mode)


def test_a_cursor_leads_to_the_next_page(host: str, mode: str, books: list[Book]) -> None:
    """That of the view, in a page that is written as TOON, and that of the protocol for the list of tools."""

    class Paged(BookViewSet):
        pagination_class = Cursors

    async def use(client: Client) -> None:
        first = await client.call_tool("book_list", {})
        assert [each["title"] for each in first.structured_content["results"]] == ["Emma", "World"]
        assert "results[2]{id,title" in str(first.content[0].text)
        (cursor,) = re.findall(r'call again with \{"cursor":"([^"]+)"\}', str(first.content[-1].text))
        rest = await client.call_tool("book_list", {"cursor": cursor})
        assert [each["title"] for each in rest.structured_content["results"]] == ["Ulysses"]
        assert len(await names(client)) == 6

    with served(host, routed(book=Paged), page_size=2, text="toon") as site:
        site.mcp.expose(Paged)
        site.run(use, mode)


def test_a_view_that_fails_after_a_write_is_rolled_back(
    host: str, mode: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)

    class Failing(BookViewSet):
        def perform_create(self, serializer: Any) -> None:
            serializer.save()
            if serializer.instance.title == "bad":
                raise exceptions.ValidationError("Not this one")
            if serializer.instance.title == "worse":
                raise RuntimeError("of the project")

    async def use(client: Client) -> list[bool]:
        asked = [await client.call_tool("book_create", {"title": each, "shelf": shelf.pk}) for each in titles]
        assert "Not this one" in str(asked[0].text)
        assert "of the project" not in str(asked[1].text)
        return [each.is_error for each in asked]

    titles = ("bad", "worse", "good")
    with served(host, routed(book=Failing)) as site:
        site.mcp.expose(Failing)
        assert site.run(use, mode) == [True, True, False]
    assert [book.title for book in Book.objects.filter(shelf=shelf)] == ["good"]


def test_a_throttled_call_says_how_long_to_wait(host: str, mode: str, alice: Any) -> None:
    class Once(throttling.SimpleRateThrottle):
        rate = "1/hour"

        def get_cache_key(self, request: Any, view: Any) -> str:
            return f"once-{request.user.pk}-{host}-{mode}"

    class Slow(APIView):
        throttle_classes = (Once,)

        def get(self, request: Any) -> Response:
            """Answer."""
            return Response({"ok": True})

    async def use(client: Client) -> list[str]:
        return [str((await client.call_tool("slow_get")).text) for _ in range(2)]

    with served(host) as site:
        site.mcp.expose(Slow)
        first, second = site.run(use, mode, alice)
    assert "true" in first
    assert "429" in second
    assert "Try again after" in second


class _Node(serializers.Serializer[Any]):
    """Contains itself."""

    id = serializers.IntegerField()

    def get_fields(self) -> Any:
        return {**super().get_fields(), "inner": _Node(many=True, required=False)}


class _Bodies(viewsets.ViewSet):
    """Bodies of each form."""

    permission_classes = (permissions.AllowAny,)

    @extend_schema(request=inline_serializer("Entry", {"id": serializers.IntegerField()}, many=True), responses=dict)
    @action(detail=False, methods=["post"])
    def many(self, request: Any) -> Response:
        """Take a list."""
        return Response({"ids": [each["id"] for each in request.data]})

    @extend_schema(request=Amount, responses=dict)
    @action(detail=False, methods=["post"], parser_classes=[FormParser])
    def form(self, request: Any) -> Response:
        """Take a form."""
        return Response({"kind": request.content_type, "amount": request.data["amount"]})

    @extend_schema(
        request=inline_serializer("Named", {"id": serializers.IntegerField()}),
        parameters=[OpenApiParameter("id", int, OpenApiParameter.PATH)],
        responses=dict,
    )
    @action(detail=True, methods=["post"])
    def both(self, request: Any, pk: Any = None) -> Response:
        """Take one name twice."""
        return Response({"path": pk, "body": request.data["id"]})

    @extend_schema(request=_Node, responses=_Node)
    @action(detail=False, methods=["post"])
    def nested(self, request: Any) -> Response:
        """Take what contains itself."""
        return Response(request.data)


def test_lists_forms_equal_names_and_recursive_serializers(host: str, mode: str) -> None:
    async def use(client: Client) -> None:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert set(tools) == {"thing_many", "thing_form", "thing_both"}
        (body,) = tools["thing_many"].input_schema["properties"]
        found = await client.call_tool("thing_many", {body: [{"id": 1}, {"id": 2}]})
        assert found.structured_content == {"ids": [1, 2]}
        form = (await client.call_tool("thing_form", {"amount": 2})).structured_content
        assert form == {"kind": "application/x-www-form-urlencoded", "amount": "2"}
        in_path, in_body = sorted(tools["thing_both"].input_schema["properties"], key=lambda name: "body" in name)
        both = await client.call_tool("thing_both", {in_path: "7", in_body: 8})
        assert both.structured_content == {"path": "7", "body": 8}

    with served(host, routed(thing=_Bodies)) as site:
        site.mcp.expose(_Bodies, exclude="thing_nested")
        site.run(use, mode)


def test_a_file_is_uploaded(host: str, mode: str, shelf: Shelf, settings_of_media: None) -> None:
    class Covered(serializers.ModelSerializer[Book]):
        class Meta:
            model = Book
            fields = ("id", "title", "shelf", "cover")

    class Covers(BookViewSet):
        serializer_class: ClassVar[Any] = Covered

    file = {"base64": base64.b64encode(b"\x89PNG").decode(), "filename": "a.png"}

    async def use(client: Client) -> Any:
        return await client.call_tool("cover_create", {"title": "a", "shelf": shelf.pk, "cover": file})

    with served(host, routed(cover=Covers)) as site:
        site.mcp.expose(Covers)
        made = site.run(use, mode)
    with Book.objects.get(pk=made.structured_content["id"]).cover.open() as cover:
        assert cover.read() == b"\x89PNG"


def test_an_api_of_django_ninja_shows_what_its_auth_accepts(host: str, mode: str) -> None:
    class Key(HttpBearer):
        def authenticate(self, request: Any, token: str) -> Any:
            return token == "secret"

    api = NinjaAPI(urls_namespace="eras")
    api.get("/open", operation_id="open")(lambda request: {"open": True})
    api.get("/closed", operation_id="closed", auth=Key())(lambda request: {"open": False})

    async def use(client: Client) -> Any:
        return await names(client), (await client.call_tool("open")).structured_content

    with served(host, lambda: [path("api/", api.urls)]) as site:
        site.mcp.expose(api)
        assert site.run(use, mode) == ({"open"}, {"open": True})
        assert site.run(use, mode, authorization="Bearer secret")[0] == {"open", "closed"}
