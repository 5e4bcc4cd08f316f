"""Which operation a request would reach; values that lead to another one are refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from ferrule import Client
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.openapi import from_openapi
from ferrule.expose.operations import Operation, Parameter
from ferrule.expose.requests.build import InvalidArgument, build_request
from ferrule.expose.requests.routes import MAX_PATH_CHARS, Route, Routes
from tests.expose.callers_for_tests import AnsweringCaller
from tests.expose.documents import document

pytestmark = pytest.mark.anyio


def request(path: str, route: str, method: str = "GET") -> ApiRequest:
    return ApiRequest(method=method, path=path, route=route)


def routes(*paths: str, ignore_case: bool = False) -> Routes:
    return Routes([Route("GET", path) for path in paths], ignore_case=ignore_case)


@pytest.mark.parametrize(
    ("path", "route", "others"),
    [
        ("/users/me", "/users/{id}", ["/users/me"]),
        ("/users/%6De", "/users/{id}", ["/users/me"]),
        ("/users/me/", "/users/{id}/", ["/users/me"]),
        ("/users/5%2Fkeys", "/users/{id}", ["/users/{id}/keys"]),
        ("/users/%2Fme", "/users/{id}", ["/users/me"]),
        ("/users/me%2F%2Fkeys", "/users/{id}", ["/users/me/keys"]),
        ("/users/me%2F", "/users/{id}", ["/users/me"]),
        ("/users/list", "/users/{id}", ["/{kind}/list"]),
        ("/users/5", "/{kind}/{id}", ["/users/{id}"]),
        ("/files/a.json", "/files/{name}", ["/files/{name}.json"]),
        ("/files/y-x", "/files/{a}-x", ["/files/y-{b}"]),
        ("/users/5%3Astop", "/users/{id}", ["/users/{id}:stop"]),
        ("/a/1-2-3-4", "/a/{id}", ["/a/1-{b}-{c}-{d}"]),
        ("/a%20b/me", "/a b/{id}", ["/a b/me"]),
    ],
)
def test_a_value_that_names_another_route(path: str, route: str, others: list[str]) -> None:
    """Whether its router decodes first, joins slashes, or prefers the one or the other of two that fit."""
    assert routes(route, *others).names_another(request(path, route))


@pytest.mark.parametrize(
    ("path", "route", "others"),
    [
        ("/users/mel", "/users/{id}", ["/users/me", "/users/me/keys"]),
        ("/users/me", "/users/{id}", ["/users/{name}"]),
        ("/users/5", "/users/{id}", ["/{kind}/{id}", "/users"]),
        ("/users/a%2Fb", "/users/{id}", ["/users/{id}/keys"]),
        ("/files/a.txt", "/files/{name}", ["/files/{name}.json"]),
        ("/files/a.json", "/files/{name}.json", ["/files/{name}"]),
        ("/users/me", "/users/me", ["/users/{id}"]),
    ],
)
def test_a_value_that_names_none(path: str, route: str, others: list[str]) -> None:
    assert not routes(route, *others).names_another(request(path, route))


def test_other_methods_are_no_rivals_and_mounted_applications_are() -> None:
    known = Routes([
        Route("GET", "/users/{id}"),
        Route("POST", "/users/me"),
        Route("*", "/users/static/{path}", frozenset({"path"})),
    ])  # fmt: skip
    assert not known.names_another(request("/users/me", "/users/{id}"))
    assert known.names_another(request("/users/static%2Fa%2Fb", "/users/{id}"))


def test_capitals() -> None:
    """It is not known whether an API over HTTP distinguishes them."""
    assert not routes("/users/{id}", "/users/me").names_another(request("/users/ME", "/users/{id}"))
    both = routes("/users/{id}", "/users/me", ignore_case=True)
    assert both.names_another(request("/users/ME", "/users/{id}"))


def test_a_value_with_slashes_that_are_its_own() -> None:
    long = frozenset({"path"})
    known = Routes([Route("GET", "/files/{path}", long), Route("GET", "/files/{id}/raw"), Route("GET", "/files/all")])
    assert not known.names_another(request("/files/a/b/c", "/files/{path}"))
    assert known.names_another(request("/files/a/raw", "/files/{path}"))
    assert known.names_another(request("/files/all", "/files/{path}"))


def test_a_comparison_takes_steps_in_proportion_to_the_path() -> None:
    """Patterns of many variables in one step would take the cube of its length, or worse."""
    known = routes("/a/{x}", "/a/{b}-{c}-{d}-{e}-{f}!")
    path = f"/a/{'-' * (MAX_PATH_CHARS - 10)}"
    assert not known.names_another(request(path, "/a/{x}"))


# -- against a router ----------------------------------------------------------------------------------------------

TEMPLATES = ["/{a}", "/{a}/{b}", "/x/{b}", "/{a}/y", "/x/y", "/x/{b}/y", "/x/{b}.y", "/x/x-{b}", "/{a}/x/{b}", "/y"]
VALUES = st.one_of(
    st.sampled_from(
        ["x", "y", "x/y", "x.y", "x-x", "X", "..", ".", "/x", "x/", "%2e%2e", "%2F", "x/x/y", "a", "\\..\\"]
    ),
    st.text("xy/.-%2eF", max_size=6),
    st.text(max_size=4),
)


@settings(max_examples=1500, deadline=None)
@given(
    template=st.sampled_from(TEMPLATES[:5] + TEMPLATES[5:9]),
    others=st.permutations(TEMPLATES),
    values=st.tuples(VALUES, VALUES),
)
def test_a_router_gives_no_request_that_passes_to_another_route(
    template: str, others: list[str], values: tuple[str, str]
) -> None:
    """In whichever order it has them, and whether it splits a path before it decodes it or after."""
    operation = Operation(
        name="it",
        method="GET",
        path=template,
        parameters=tuple(
            Parameter(name=name, argument=name, location="path", required=True, style="simple")
            for name in ("a", "b")
            if f"{{{name}}}" in template
        ),
    )
    try:
        made = build_request(operation, dict(zip("ab", values, strict=True)))
    except InvalidArgument:
        return
    if routes(*others).names_another(made):
        return
    for path in {made.path, unquote(made.path)}:
        for order in (others, sorted(others, key=lambda each: each.count("{"))):
            taken = routed(order, path)
            # Of two that fit with variables in the same places, the first one takes it, which says nothing of values.
            assert taken is None or is_wider(taken, template), (template, path, taken)


def routed(order: list[str], path: str) -> str | None:
    scope: Any = {"type": "http", "method": "GET", "path": path}
    return next((each for each in order if StarletteRoute(each, print).matches(scope)[0] is Match.FULL), None)


def is_wider(one: str, other: str) -> bool:
    """Whether a route has variables wherever another one has them, and more."""
    steps = list(zip(one.split("/"), other.split("/"), strict=False))
    return len(one.split("/")) == len(other.split("/")) and all(a == b or a in ("{a}", "{b}") for a, b in steps)


# -- from a document -----------------------------------------------------------------------------------------------


async def test_a_tool_of_a_document_never_calls_another_operation() -> None:
    """Nor one that is not exposed, nor one that cannot be."""
    path = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    paths = {
        "/users/{id}": {"get": {"operationId": "it", "parameters": path}},
        "/users/me": {"get": {"operationId": "me"}},
        "/users/broken": {"get": {"operationId": "broken", "parameters": [{"in": "query"}]}},
    }
    caller = AnsweringCaller()
    server = from_openapi(document(paths), base_url="https://api.example", caller=caller, include="it")
    async with Client(server) as client:
        for value in ("me", "Me", "broken", "../users/me", "x" * 9000):
            result = await client.call_tool("it", {"id": value})
            assert result.is_error, value
        assert caller.requests == []
        assert not (await client.call_tool("it", {"id": "mel"})).is_error
    assert [made.path for made in caller.requests] == ["/users/mel"]
