"""Starlette applications, for `ferrule.expose.expose`.

A Starlette application has no description by itself. That of its ``SchemaGenerator`` is used, from the YAML in the
docstrings of endpoints, which needs PyYAML; ``expose(app, description=…)`` takes one of another library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.asgi_application import ASGIExposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.lifespan import ApplicationLife, life_of
from ferrule.expose.description.reader import Description, read_description
from ferrule.expose.documents import load_document
from ferrule.expose.requests.routes import CheckedCaller, by_router

__all__ = ["StarletteExposable", "every_route", "exposable", "mounted_applications", "routes_version"]


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a Starlette application."""
    return StarletteExposable(app)


class StarletteExposable(ASGIExposable):
    """A Starlette application. Starlette does not check responses against the descriptions in docstrings."""

    def __init__(self, app: Any) -> None:
        life = life_of(app, _observe)
        root_path = str(getattr(app, "root_path", "") or "")  # FastAPI's only
        caller = ASGICaller(app, root_path=root_path, path_has_root=_path_has_root(), state=lambda: life.state)
        names_another = by_router(
            lambda method, path: _route_at(app, method, path), lambda method, path: _has_route(app, method, path)
        )
        super().__init__(app, life, CheckedCaller(caller, names_another))

    def version(self) -> object:
        """See `Exposable`."""
        return routes_version([self.app])

    def describe(self) -> Description:
        """See `Exposable`."""
        from starlette.schemas import SchemaGenerator

        generator = SchemaGenerator({"openapi": "3.1.0", "info": {"title": "Starlette", "version": "0"}})
        return read_description(load_document(generator.get_schema(self.app.routes))[0])


def _route_at(app: Any, method: str, path: str) -> str | None:
    """Return the path, with variables in braces, of the route that gets a request; ``None`` where there is none."""
    from starlette.routing import WebSocketRoute

    for route in every_route(app):
        pattern: Any = getattr(route, "path_regex", None)  # routes by host have none
        match = None if pattern is None else pattern.match(path)
        if match is None:
            continue
        inner: Any = getattr(route, "app", None)  # only mounts have both
        if inner is not None and hasattr(route, "routes"):  # as above
            rest = match.groupdict().get("path", "")
            # What is mounted may be any ASGI application, such as one for static files.
            deeper = _route_at(inner, method, f"/{rest}") if hasattr(inner, "routes") else None
            return f"{route.path}{deeper or '/{path}'}"
        # FastAPI's view of a route, newly, has methods for a websocket, too: none, which would mean all.
        if isinstance(getattr(route, "original_route", route), WebSocketRoute):
            continue
        if route.methods is None or method in route.methods:
            return str(route.path_format)
    return None


def _has_route(app: Any, method: str, path: str) -> bool:
    """Return whether an application has a route of a method and a path, mounted applications not looked at."""
    return any(
        # Mounts and routes by host have neither.
        getattr(route, "path_format", None) == path and method in (getattr(route, "methods", None) or ())
        for route in every_route(app)
    )


def _observe(app: Any, life: ApplicationLife) -> None:
    """Record when the application's lifespan runs: the host runs it if the endpoint is mounted in the application."""
    app.router.lifespan_context = life.observe(app.router.lifespan_context, keep_state=True)


def _path_has_root() -> bool:
    """Return whether this Starlette takes the prefix off ``path`` by itself, as ASGI says (0.33 and newer)."""
    from starlette import _utils

    return hasattr(_utils, "get_route_path")  # since Starlette 0.33


def every_route(app: Any) -> Iterator[Any]:
    """Yield the routes of an application, those of included routers as they are there, without those of mounts."""
    try:
        from fastapi.routing import iter_route_contexts  # FastAPI keeps included routers as they are, newly
    except ImportError:
        yield from app.routes
        return
    yield from iter_route_contexts(app.routes)


def mounted_applications(app: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and application of each mount in an application or router."""
    for route in every_route(app):
        # Only mounts have an application and a path that takes more than itself.
        inner: Any = getattr(route, "app", None)  # only mounts have both
        if inner is not None and hasattr(route, "routes"):  # as above
            yield str(route.path), inner


class _Routes:
    """A list of routes, compared by identity; it keeps them, so that a new route cannot get the id of an old one."""

    def __init__(self, routes: list[Any]) -> None:
        self.routes = routes

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Routes)
            and len(other.routes) == len(self.routes)
            and all(one is another for one, another in zip(self.routes, other.routes, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


def routes_version(apps: list[Any]) -> object:
    """Return a value that changes when routes are added to applications or their routers, or removed."""
    found: list[Any] = []
    todo: list[Any] = [route for app in apps for route in app.routes]
    while todo:
        route = todo.pop()
        found.append(route)
        # A router that FastAPI keeps as it is where it is included; routes that are added to it count.
        router: Any = getattr(route, "original_router", None)
        if router is not None:
            todo.extend(router.routes)
    return _Routes(found)
