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

__all__ = ["StarletteExposable", "every_route", "exposable", "mounted_applications", "routes_version"]


def exposable(app: Any) -> Exposable:
    """Return what the engine needs of a Starlette application."""
    return StarletteExposable(app)


class StarletteExposable(ASGIExposable):
    """A Starlette application. Nothing compares its answers with what a docstring says."""

    def __init__(self, app: Any) -> None:
        life = life_of(app, _observe)
        root_path = str(getattr(app, "root_path", "") or "")  # FastAPI's only
        caller = ASGICaller(app, root_path=root_path, path_has_root=_path_has_root(), state=lambda: life.state)
        super().__init__(app, life, caller)

    def version(self) -> object:
        """See `Exposable`."""
        return routes_version([self.app])

    def describe(self) -> Description:
        """See `Exposable`."""
        from starlette.schemas import SchemaGenerator

        generator = SchemaGenerator({"openapi": "3.1.0", "info": {"title": "Starlette", "version": "0"}})
        return read_description(load_document(generator.get_schema(self.app.routes))[0])


def _observe(app: Any, life: ApplicationLife) -> None:
    """Make an application say when its lifespan runs: its host runs it where the endpoint is mounted in it."""
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
    """Yield path and application of what is mounted in an application or router."""
    for route in every_route(app):
        # Only mounts have an application and a path that takes more than itself.
        inner: Any = getattr(route, "app", None)  # only mounts have both
        if inner is not None and hasattr(route, "routes"):  # as above
            yield str(route.path), inner


class _Routes:
    """Routes, compared by what they are; kept, so that no new one can be taken for an old one."""

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
    """Return a value that differs once routes were added to applications, or to routers in them, or taken away."""
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
