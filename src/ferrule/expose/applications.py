"""Applications of this process: which framework made one, and `expose`, which makes a server of it.

The engine knows no framework. Each framework has a module in `ferrule.integrations`, named here and imported when an
application of that framework is exposed; what it offers to the engine is an `Exposable`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, Protocol, Unpack

from msgspec.structs import replace

from ferrule.app.server import MCPServer
from ferrule.expose.description.reader import Description
from ferrule.expose.documents import Source
from ferrule.expose.exchange import Caller
from ferrule.expose.exposure import Exposure
from ferrule.expose.openapi import read_openapi, settings_of
from ferrule.expose.settings import ExposeKeywords, ExposeSettings, ValidateOutput

__all__ = ["Exposable", "UnknownFramework", "exposable_of", "expose"]

logger = logging.getLogger(__name__)

_FRAMEWORKS = {
    "blacksheep.server.application:Application": "ferrule.integrations.blacksheep",
    "connexion.apps.asynchronous:AsyncApp": "ferrule.integrations.connexion",
    "connexion.apps.flask:FlaskApp": "ferrule.integrations.connexion",
    "connexion.apps.flask_app:FlaskApp": "ferrule.integrations.connexion",
    "connexion.middleware.main:ConnexionMiddleware": "ferrule.integrations.connexion",
    "fastapi.applications:FastAPI": "ferrule.integrations.fastapi",
    "flask.app:Flask": "ferrule.integrations.flask",
    "litestar.app:Litestar": "ferrule.integrations.litestar",
    "quart.app:Quart": "ferrule.integrations.quart",
    "starlette.applications:Starlette": "ferrule.integrations.starlette_api",
}
"""Class of an application, as ``module:name``, and the module of ours that has ``exposable(app)`` for it."""


class UnknownFramework(TypeError):
    """An object is not an application of a framework that can be exposed."""


class Exposable(Protocol):
    """An application, as the engine needs it."""

    @property
    def title(self) -> str | None:
        """Name of the application for people; ``None`` where it has none."""
        ...

    @property
    def caller(self) -> Caller:
        """Sends requests into the application."""
        ...

    @property
    def validate_output(self) -> ValidateOutput:
        """What is done with the schemas of answers, unless the user says otherwise."""
        ...

    def version(self) -> object:
        """Return a value that changes when the operations of the application change; cheap, since each list asks."""
        ...

    def describe(self) -> Description:
        """Return what the application offers now."""
        ...

    def started(self) -> AbstractAsyncContextManager[None]:
        """Return what runs the application's own start and end around the server, unless its host runs them."""
        ...


def exposable_of(app: Any) -> Exposable:
    """Return what the engine needs of an application.

    Raises:
        UnknownFramework: no framework that is known made it.
    """
    for kind in type(app).__mro__:
        module = _FRAMEWORKS.get(f"{kind.__module__}:{kind.__qualname__}")
        if module is not None:
            found: Exposable = import_module(module).exposable(app)
            return found
    known = sorted(name.rpartition(":")[2] for name in _FRAMEWORKS)
    raise UnknownFramework(
        f"{type(app).__module__}.{type(app).__qualname__} is not an application of {', '.join(known)}. For another "
        "framework give its OpenAPI document to from_openapi(…, caller=ASGICaller(app)) or WSGICaller(app)"
    )


def expose(
    app: Any,
    *,
    name: str | None = None,
    description: Callable[[], Source] | Source | None = None,
    server: Mapping[str, Any] | None = None,
    **options: Unpack[ExposeKeywords],
) -> MCPServer[Any]:
    """Return a server whose tools are operations of an application of this process.

    The application's own stack runs for each call: middleware, security, dependencies, validation, exception handlers.
    Its description is read when the server starts or is first asked, and again when its routes have changed.

    Args:
        app: the application.
        name: the name of the server; ``None`` for the title of the application.
        description: an OpenAPI document in the place of the framework's own, or a function that returns it, which is
            called again when the routes have changed. For frameworks whose descriptions another library makes.
        server: further options of `MCPServer`; ``tool_search`` is ``"auto"`` unless it says otherwise.
        options: which operations are exposed, and how; see `ExposeSettings`. Nothing is exposed without ``include=``.

    Raises:
        UnknownFramework: no framework that is known made ``app``.
        TypeError: ``include`` is missing, or an option does not exist.

    The start of the server, or its first list, fails with `NothingMatches` if a pattern matches no operation, and with
    `NotADescription` if the description cannot be read.
    """
    settings = settings_of("expose()", options)
    exposable = exposable_of(app)
    if "validate_output" not in options:
        # A foreign description proves nothing about responses.
        settings = replace(settings, validate_output="off" if description is not None else exposable.validate_output)
    given = dict(server or {})
    made = _LiveExposure(exposable, settings, description)
    given["lifespan"] = made.lifespan(given.get("lifespan"))
    given.setdefault("tool_search", "auto")
    if name is None:
        name = exposable.title or type(app).__name__
    return made.attach(MCPServer(name, **given))


class _LiveExposure:
    """The operations of an application on a server, read again when they change."""

    def __init__(
        self, exposable: Exposable, settings: ExposeSettings, description: Callable[[], Source] | Source | None
    ) -> None:
        self._exposable = exposable
        self._caller = exposable.caller
        self._settings = settings
        self._description = description
        self._exposure: Exposure | None = None
        self._version: object = None
        self._is_read = False

    def attach(self, server: MCPServer[Any]) -> MCPServer[Any]:
        self._exposure = Exposure(server, self._caller, self._settings)
        server.tools.serve()
        indexes: list[Any] = [server.tools.index]
        if self._settings.resources != ():
            server.resources.serve()
            indexes += [server.resources.fixed, server.resources.templates]
        for index in indexes:
            index.before_read = self.refresh
        return server

    def refresh(self) -> None:
        """Expose what the application offers now, if that has changed.

        Raises:
            NotADescription: it has never been read, and cannot be.
            NothingMatches: it has never been read, and a pattern matches no operation.
        """
        exposure = self._exposure
        version = self._exposable.version()
        if exposure is None or (self._is_read and version == self._version):
            return
        self._version = version
        if not self._is_read:
            exposure.update(self._described().operations)
            self._is_read = True
            return
        try:
            exposure.update(self._described().operations, strict=False)
        except Exception:
            # The routes changed while the server runs: what was exposed before is still what clients know.
            logger.exception("the application changed, and its description cannot be read any more")

    def _described(self) -> Description:
        given = self._description
        if given is None:
            return self._exposable.describe()
        return read_openapi(given() if callable(given) else given)

    def lifespan(self, own: Any) -> Any:
        @asynccontextmanager
        async def lifespan(app: MCPServer[Any]) -> AsyncGenerator[Any]:
            async with self._exposable.started():
                self.refresh()
                try:
                    if own is None:
                        yield {}
                    else:
                        async with own(app) as state:
                            yield state
                finally:
                    await self._caller.aclose()

        return lifespan
