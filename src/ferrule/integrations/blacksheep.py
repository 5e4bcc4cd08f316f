"""BlackSheep applications, for `ferrule.expose.expose`.

The description is that of an ``OpenAPIHandler`` that is bound to the application. BlackSheep makes it when the
application starts, so it is read from the application's own path then, and holds as long as the application runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.asgi_application import ASGIExposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.lifespan import ApplicationLife, life_of
from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.documents import MAX_DOCUMENT_BYTES, load_document
from ferrule.expose.exchange import ApiRequest, Origin
from ferrule.expose.requests.routes import CheckedCaller, Route, Routes

__all__ = ["exposable"]

_HANDLER = "get_open_api_json"
"""Name of the function with which BlackSheep serves the description."""


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a BlackSheep application."""
    return _BlackSheep(app)


class _BlackSheep(ASGIExposable):
    """A BlackSheep application. BlackSheep does not check responses against the declared types of handlers."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, life_of(app, _observe), CheckedCaller(ASGICaller(app), self._names_another))
        self._document: bytes | None = None
        self._routes: Routes | None = None

    def version(self) -> object:
        """See `Exposable`."""
        return self._document

    def describe(self) -> Description:
        """See `Exposable`.

        Raises:
            NotADescription: no ``OpenAPIHandler`` is bound to the application, or its document is not public.
        """
        if self._document is None:
            raise NotADescription(
                "the application serves no description that may be read: bind an OpenAPIHandler to it before it "
                "starts, or give expose(…, description=…) a document"
            )
        return read_description(load_document(self._document)[0])

    def _names_another(self, request: ApiRequest) -> bool:
        """See `Routes.names_another`. BlackSheep's patterns take capitals for small letters, and add no route later."""
        if self._routes is None:
            self._routes = Routes(_routes(self.app), ignore_case=True)
        return self._routes.names_another(request)

    def started(self) -> AbstractAsyncContextManager[None]:
        """See `Exposable`."""
        return self._started()

    @asynccontextmanager
    async def _started(self) -> AsyncGenerator[None]:
        async with self._life.started():
            for path in self._paths():
                request = ApiRequest(method="GET", path=path)
                answer = await self._caller.call(request, Origin(), max_bytes=MAX_DOCUMENT_BYTES)
                if answer.status == 200:
                    self._document = answer.body
                    break
            yield

    def _paths(self) -> list[str]:
        router = self.app.router
        routes: Any = router.iter_all() if hasattr(router, "iter_all") else iter(router)  # older ones are iterable
        return [
            bytes(route.pattern).decode()
            for route in routes
            if getattr(route.handler, "__name__", None) == _HANDLER  # a handler may be any callable
        ]


def _routes(app: Any) -> Iterator[Route]:
    """Yield all routes, those of no description too."""
    for method, route in app.router.iter_with_methods():
        # One star may be any number of steps.
        path = str(route.mustache_pattern).replace("*", "{tail}")
        yield Route(str(method), path, frozenset({"tail"}))


def _observe(app: Any, life: ApplicationLife) -> None:
    """Record when the application's lifespan runs: the host runs it if the endpoint is mounted in the application."""

    async def began(_: Any) -> None:
        life.began()

    async def ended(_: Any) -> None:
        life.ended()

    app.on_start += began
    app.on_stop += ended
