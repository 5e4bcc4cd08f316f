"""FastAPI applications, for `ferrule.expose.expose`.

The description is the application's own (``app.openapi()``), with those of mounted FastAPI applications. A route with
``include_in_schema=False`` is in none, so it is never a tool. Operations without an id of the author's own are named
after their function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.description.merge import merge_descriptions, renamed
from ferrule.expose.description.reader import Description, read_description
from ferrule.expose.exchange import Caller
from ferrule.expose.settings import ValidateOutput

__all__ = ["exposable"]

_MAX_NESTING = 8
"""Applications mounted in each other whose descriptions are read."""


def exposable(app: Any) -> Exposable:
    """Return what the engine needs of a FastAPI application."""
    return _FastAPI(app)


class _FastAPI:
    """A FastAPI application; its lifespan runs once, whoever starts it first."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._running = 0
        self._state: dict[str, Any] | None = None
        self._original = app.router.lifespan_context
        # The host runs the lifespan where the endpoint is mounted in the application; this shows that it does.
        app.router.lifespan_context = self._counted

    @property
    def caller(self) -> Caller:
        """See `Exposable`."""
        return ASGICaller(self._app, root_path=str(self._app.root_path or ""), state=lambda: self._state)

    @property
    def validate_output(self) -> ValidateOutput:
        """See `Exposable`. FastAPI makes each answer fit its response model, so schemas of answers are true."""
        return "publish"

    def version(self) -> object:
        """See `Exposable`."""
        return _version(self._app, 0)

    def describe(self) -> Description:
        """See `Exposable`."""
        return merge_descriptions(_descriptions(self._app, "", 0))

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[None]:
        """See `Exposable`."""
        if self._running:
            yield
            return
        async with self._counted(self._app):
            yield

    @asynccontextmanager
    async def _counted(self, app: Any) -> AsyncGenerator[Any]:
        async with self._original(app) as state:
            self._running += 1
            self._state = dict(state) if state else None
            try:
                yield state
            finally:
                self._running -= 1


def _version(app: Any, depth: int) -> tuple[object, ...]:
    routes: list[Any] = app.routes
    inner = (_version(mounted, depth + 1) for _, mounted in _mounted(app)) if depth < _MAX_NESTING else ()
    return (len(routes), *(id(route) for route in routes), *inner)


def _mounted(app: Any) -> list[tuple[str, Any]]:
    """Return path and application of those FastAPI applications that are mounted in one."""
    from fastapi import FastAPI

    found: list[tuple[str, Any]] = []
    for route in app.routes:
        # Only mounts have an application; a plain route has an endpoint.
        inner: Any = getattr(route, "app", None)
        if isinstance(inner, FastAPI) and inner is not app:
            found.append((str(route.path), inner))
    return found


def _descriptions(app: Any, prefix: str, depth: int) -> list[tuple[str, Description]]:
    # The application keeps its description; it is made anew, since it was made of the routes of that time.
    app.openapi_schema = None
    description = renamed(read_description(app.openapi()), _function_names(app))
    found = [(prefix, description)]
    if depth < _MAX_NESTING:
        for path, inner in _mounted(app):
            found += _descriptions(inner, prefix + path, depth + 1)
    return found


def _function_names(app: Any) -> dict[str, str]:
    """Return the name of the function by operation id, for routes whose id FastAPI made, where the name is unique."""
    routes = [route for route in app.routes if getattr(route, "unique_id", None)]  # plain Starlette routes have none
    names = Counter(route.name for route in routes)
    return {route.unique_id: route.name for route in routes if route.operation_id is None and names[route.name] == 1}
