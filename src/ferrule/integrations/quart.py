"""Quart applications with Quart-Schema, for `ferrule.expose.expose`.

The description is that of Quart-Schema; what ``hide`` keeps out of it is never a tool. Operations are named after their
endpoint, unless the author documents another id. ``expose(app, description=…)`` takes the document of another library.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.asgi_application import ASGIExposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.lifespan import ApplicationLife, life_of
from ferrule.expose.description.merge import renamed
from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.documents import load_document
from ferrule.expose.requests.routes import CheckedCaller, by_router
from ferrule.integrations.flask_routes import has_route, route_at
from ferrule.wire.json_types import is_object

__all__ = ["exposable"]


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a Quart application."""
    return _Quart(app)


class _Quart(ASGIExposable):
    """A Quart application. ``validate_response`` checks some answers, but not those of error handlers and hooks."""

    def __init__(self, app: Any) -> None:
        rules = by_router(
            lambda method, path: route_at(app.url_map, method, path),
            lambda method, path: has_route(app.url_map, method, path),
        )
        super().__init__(app, life_of(app, _observe), CheckedCaller(ASGICaller(app), rules))

    @property
    def title(self) -> str | None:
        """See `Exposable`."""
        return str(self.app.name)

    def version(self) -> object:
        """See `Exposable`. Rules are added only."""
        return sum(1 for _ in self.app.url_map.iter_rules())

    def describe(self) -> Description:
        """See `Exposable`.

        Raises:
            NotADescription: the application has no Quart-Schema.
        """
        extension = self.app.extensions.get("QUART_SCHEMA")
        if extension is None:
            raise NotADescription(
                "the application has no Quart-Schema (0.21 or newer): QuartSchema(app); or give "
                "expose(…, description=…) a document"
            )
        document = load_document(extension.openapi_provider.schema())[0]  # statuses are numbers there
        for item in document.get("paths", {}).values():
            for operation in item.values():
                body = operation.get("requestBody") if is_object(operation) else None
                if is_object(body):
                    body.setdefault("required", True)  # validate_request refuses a request without, and does not say so
        return renamed(read_description(document), self._endpoints())

    def _endpoints(self) -> dict[str, str]:
        """Return endpoints, where they are unique, by the id that Quart-Schema makes of method and endpoint."""
        made = {
            f"{str(method).lower()}_{rule.endpoint}": str(rule.endpoint)
            for rule in self.app.url_map.iter_rules()
            for method in rule.methods or ()
            if method not in ("HEAD", "OPTIONS")
        }
        counts = Counter(made.values())
        return {key: name for key, name in made.items() if counts[name] == 1}


def _observe(app: Any, life: ApplicationLife) -> None:
    """Record when the application's lifespan runs: the host runs it if the endpoint is served beside it."""

    async def began() -> None:
        life.began()

    async def ended() -> None:
        life.ended()

    app.before_serving_funcs.insert(0, began)
    app.after_serving_funcs.append(ended)
