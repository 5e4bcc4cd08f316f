"""Applications in this process: the detection of their framework, and `expose`, which makes a server from one.

This package does not depend on a framework. Each framework has a module in `ferrule.integrations`, which is named here
and imported when an application of that framework is exposed. It makes an `Exposable`.
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
from ferrule.expose.exposure import Exposure, refresh_before_reads
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
"""Class of an application, as ``module:name`` → the module of Ferrule with the function ``exposable(app)`` for it."""


class UnknownFramework(TypeError):
    """An object is not an application of a framework that can be exposed."""


class Exposable(Protocol):
    """An application in the form that `expose` uses."""

    @property
    def title(self) -> str | None:
        """The application's name for people; ``None`` without."""
        ...

    @property
    def caller(self) -> Caller:
        """The object that sends requests to the application."""
        ...

    @property
    def validate_output(self) -> ValidateOutput:
        """The default of the option ``validate_output`` of `ExposeSettings` for this application."""
        ...

    def version(self) -> object:
        """Return a value that changes when the operations of the application change; called for each list."""
        ...

    def describe(self) -> Description:
        """Return the description of the application's present operations."""
        ...

    def started(self) -> AbstractAsyncContextManager[None]:
        """Return a context that runs the application's own lifespan around the server's, unless the host runs it."""
        ...


def exposable_of(app: Any) -> Exposable:
    """Return the `Exposable` of an application.

    Raises:
        UnknownFramework: the application's class is not one of a supported framework.
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
    Its description is read when the server starts or gets its first request, and again when the routes have changed.

    Args:
        app: the application.
        name: the name of the server; ``None`` for the title of the application.
        description: an OpenAPI document in place of the framework's own, or a function that returns it, which is
            called again when the routes have changed. For frameworks whose descriptions another library makes.
        server: further options of `MCPServer`; the default of ``tool_search`` is ``"auto"``.
        options: the options of `ExposeSettings`. Nothing is exposed without ``include=``.

    Raises:
        UnknownFramework: the class of ``app`` is not one of a supported framework.
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
        refresh_before_reads(server, self._settings, self.refresh)
        return server

    def refresh(self) -> None:
        """Expose the application's present operations, if they have changed.

        Raises:
            NotADescription: the first reading of the description fails.
            NothingMatches: at the first reading, a pattern matches no operation.
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
            # The routes changed while the server runs: clients can still use the operations that were exposed before.
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
