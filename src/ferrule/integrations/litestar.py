"""Litestar applications, for `ferrule.expose.expose`.

The description is the application's own (``app.openapi_schema``). A handler with ``include_in_schema=False`` is not in
it, so it is never a tool. Operations whose id Litestar made are named after their function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.asgi_application import ASGIExposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.lifespan import ApplicationLife, life_of
from ferrule.expose.description.merge import renamed
from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.documents import load_document
from ferrule.expose.exchange import ApiRequest
from ferrule.expose.requests.routes import CheckedCaller, Route, Routes

__all__ = ["exposable"]


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a Litestar application."""
    return _Litestar(app)


class _Litestar(ASGIExposable):
    """A Litestar application. Litestar does not check the return values of handlers against their declared types."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, life_of(app, _observe), CheckedCaller(ASGICaller(app), self._names_another))
        self._routes: tuple[object, Routes] = None, Routes(())

    @property
    def title(self) -> str | None:
        """See `Exposable`."""
        config = self.app.openapi_config
        return None if config is None else str(config.title)

    def version(self) -> object:
        """See `Exposable`. ``app.register`` is the one way to add handlers later, and none takes one away."""
        # Routes of all protocols; those of HTTP have a path format.
        return sum(len(route.methods) for route in self.app.routes if hasattr(route, "path_format"))

    def _names_another(self, request: ApiRequest) -> bool:
        """See `Routes.names_another`. Litestar prefers text to variables, as OpenAPI says."""
        known, routes = self._routes
        version = self.version()
        if version != known:
            routes = Routes(_routes(self.app))
            self._routes = version, routes
        return routes.names_another(request)

    def describe(self) -> Description:
        """See `Exposable`.

        Raises:
            NotADescription: the application describes nothing (``openapi_config=None``).
        """
        if self.app.openapi_config is None:
            raise NotADescription("the application has openapi_config=None; give expose(…, description=…) a document")
        description = read_description(load_document(self.app.openapi_schema.to_schema())[0])
        names = self._function_names()
        wanted = {
            operation.operation_id: names[operation.method, operation.path]
            for operation in description.operations
            if operation.operation_id is not None and (operation.method, operation.path) in names
        }
        return renamed(description, wanted)

    def _function_names(self) -> dict[tuple[str, str], str]:
        """Return the function's name by method and path, where Litestar made the id and the name is unique."""
        made_by_default: Any = import_module("litestar._openapi.utils").default_operation_id_creator
        found = {
            (str(method), str(route.path_format)): str(handler.handler_name)
            for route in self.app.routes
            for handler in getattr(route, "route_handlers", ())  # of HTTP; others have one handler
            # Handlers of websockets and ASGI applications have none of these.
            if getattr(handler, "operation_id", None) is None and getattr(handler, "include_in_schema", True)
            for method in getattr(handler, "http_methods", ())  # as above
            if method != "OPTIONS"
        }
        if self.app.openapi_config.operation_id_creator is not made_by_default:
            return {}
        counts = Counter(found.values())
        return {key: name for key, name in found.items() if counts[name] == 1}


def _routes(app: Any) -> Iterator[Route]:
    """Yield all routes, those of no description too, and the paths that other applications are mounted at."""
    kinds: Any = import_module("litestar.routes")
    for route in app.routes:
        if isinstance(route, kinds.HTTPRoute):
            several = {part.name for part in route.path_components if getattr(part, "type", None) is Path}  # or a text
            for method in route.methods:
                yield Route(str(method), str(route.path_format), frozenset(several))
        elif isinstance(route, kinds.ASGIRoute):
            yield Route("*", f"{str(route.path).rstrip('/')}/{{path}}", frozenset({"path"}))


def _observe(app: Any, life: ApplicationLife) -> None:
    """Record when the application's lifespan runs: the host runs it if the endpoint is mounted in the application."""
    app.on_startup.append(life.began)
    app.on_shutdown.append(life.ended)
