"""Litestar applications, for `ferrule.expose.expose`.

The description is the application's own (``app.openapi_schema``). A handler with ``include_in_schema=False`` is not in
it, so it is never a tool. Operations whose id Litestar made are named after their function.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.asgi_application import ASGIExposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.lifespan import ApplicationLife, life_of
from ferrule.expose.description.merge import renamed
from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.documents import load_document

__all__ = ["exposable"]


def exposable(app: Any) -> Exposable:
    """Return what the engine needs of a Litestar application."""
    return _Litestar(app)


class _Litestar(ASGIExposable):
    """A Litestar application. It sends what a handler returned, of whatever type it is."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, life_of(app, _observe), ASGICaller(app))

    @property
    def title(self) -> str | None:
        """See `Exposable`."""
        config = self.app.openapi_config
        return None if config is None else str(config.title)

    def version(self) -> object:
        """See `Exposable`. ``app.register`` is the one way to add handlers later, and none takes one away."""
        # Routes of all protocols; those of HTTP have a path format.
        return sum(len(route.methods) for route in self.app.routes if hasattr(route, "path_format"))

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


def _observe(app: Any, life: ApplicationLife) -> None:
    """Make an application say when it runs: its host runs it where the endpoint is mounted in it."""
    app.on_startup.append(life.began)
    app.on_shutdown.append(life.ended)
