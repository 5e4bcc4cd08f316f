"""Flask applications: for `ferrule.expose.expose`, and with a server's endpoint in them (`mount`).

The description is that of the extension that the application uses (APIFlask, flask-smorest, Flask-RESTX); a view that
this leaves out is never a tool. Without an extension it is made of the URL rules, the converters, the hints and the
docstrings of views. The caller is the application as a WSGI server would call it, so ``before_request`` functions,
decorators, error handlers and teardown functions run.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import Context, copy_context
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from ferrule.app.server import MCPServer
from ferrule.expose.applications import Exposable
from ferrule.expose.callers.wsgi import WSGICaller
from ferrule.expose.description.merge import merge_descriptions
from ferrule.expose.description.reader import Description, read_description
from ferrule.expose.exchange import ApiRequest, ApiResponse, Caller, CallerUnavailable, Origin
from ferrule.expose.requests.routes import NAMES_ANOTHER_OPERATION, same_route
from ferrule.expose.settings import ValidateOutput
from ferrule.integrations.flask_extensions import extension_documents
from ferrule.integrations.flask_routes import READS, document_of_routes, has_route, path_template, route_at
from ferrule.transports.wsgi.endpoint import WSGIEndpoint
from ferrule.wire.json_types import is_object

__all__ = ["exposable", "mount"]


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a Flask application."""
    return _Flask(app)


def mount(app: Any, server: MCPServer[Any], path: str = "/mcp", **options: Any) -> WSGIEndpoint:
    """Serve a server's endpoint below a Flask application, and return the endpoint.

    The endpoint is in front of the application: its ``before_request`` functions do not run for requests to the
    endpoint itself, and do run for the requests that tools of `expose` make. With ``auth=`` of the server the metadata
    of the protected resource are served at the root of the application, too. Paths of health are the application's own,
    unless ``health_path`` and ``ready_path`` name them.

    Args:
        app: the application; ``app.wsgi_app`` is replaced.
        server: the server that is served.
        path: the path of the endpoint.
        options: the options of `MCPServer.wsgi`.

    Raises:
        TypeError: there is no such option.
    """
    given: dict[str, Any] = {"health_path": None, "ready_path": None, **options, "path": path}
    endpoint = server.wsgi(**given)
    app.wsgi_app = endpoint.beside(app.wsgi_app)
    return endpoint


class _Flask:
    def __init__(self, app: Any) -> None:
        self._app = app

    @property
    def title(self) -> str | None:
        """The application's name for people; ``None`` without."""
        return str(getattr(self._app, "title", None) or self._app.name)  # APIFlask has a title, Flask has none

    @property
    def caller(self) -> Caller:
        """See `Exposable`."""
        return _FlaskCaller(self._app)

    @property
    def validate_output(self) -> ValidateOutput:
        """See `Exposable`. Flask does not check responses against their description."""
        return "off"

    def version(self) -> object:
        """See `Exposable`."""
        return tuple(id(rule) for rule in self._app.url_map.iter_rules())

    def describe(self) -> Description:
        """See `Exposable`."""
        documents = extension_documents(self._app)
        if documents is None:
            documents = [document_of_routes(self._app)]
        names = _endpoint_names(self._app)
        for document in documents:
            _give_ids(document, names)
        description = merge_descriptions([("", read_description(document)) for document in documents])
        reads = _reads(documents)
        return replace(
            description,
            operations=tuple(
                replace(operation, reads=reads.get(operation.label, ())) for operation in description.operations
            ),
        )

    def started(self) -> AbstractAsyncContextManager[None]:
        """See `Exposable`. Flask has no start."""
        return nullcontext()


class _FlaskCaller:
    """Calls a Flask application; refuses a request that its URL rules would route to another view."""

    def __init__(self, app: Any) -> None:
        self._app = app
        root = str(app.config.get("APPLICATION_ROOT") or "/")
        self._caller = WSGICaller(app, script_name="" if root == "/" else root, context=_context)

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        if "{" in request.route:
            request = self._checked(request)
        name = self._app.config.get("SERVER_NAME")
        if origin.scope is None and name:  # no outer request names a host; versions before 3.1 refuse another one
            scheme = str(self._app.config.get("PREFERRED_URL_SCHEME", "http"))
            origin = replace(origin, host=str(name), scheme=scheme)
        return await self._caller.call(request, origin, max_bytes=max_bytes)

    async def aclose(self) -> None:
        """Do nothing; the application is not the caller's."""

    def _checked(self, request: ApiRequest) -> ApiRequest:
        """Return the request with slashes in values decoded if the URL rules allow them, so that its view gets it.

        Raises:
            CallerUnavailable: the URL rules route it to another view.
        """
        path = unquote(request.path)
        found = route_at(self._app.url_map, request.method, path)
        if found is None:
            return request
        if found != request.route and (
            not same_route(found, request.route) or has_route(self._app.url_map, request.method, request.route)
        ):
            raise CallerUnavailable(NAMES_ANOTHER_OPERATION)
        if "%2f" not in request.path.lower():
            return request
        if any(step in ("", ".", "..") for step in path.removesuffix("/").split("/")[1:]):
            raise CallerUnavailable("a value in the path must not begin with a slash or have a step '.' or '..'")
        return replace(request, path=request.path.replace("%2F", "/").replace("%2f", "/"))


def _context() -> Context:
    """Return the context variables of a request: those of the call, unless Flask's own are among them.

    Flask would take an application context that is there for the new request's own, and not end it.
    """
    from flask import has_app_context

    return Context() if has_app_context() else copy_context()


def _endpoint_names(app: Any) -> dict[tuple[str, str], str]:
    """Return names of operations by method and path: their endpoint, with the method where it serves several."""
    found: dict[tuple[str, str], str] = {}
    for rule in app.url_map.iter_rules():
        methods = {str(method) for method in rule.methods or ()} - {"HEAD", "OPTIONS"}
        for method in methods:
            name = rule.endpoint if len(methods) == 1 else f"{method.lower()}_{rule.endpoint}"
            found.setdefault((method, path_template(rule)), name.replace(".", "_"))
    return found


def _give_ids(document: dict[str, Any], names: dict[tuple[str, str], str]) -> None:
    """Name operations without an id after their endpoint."""
    for path, item in document.get("paths", {}).items():
        for method, operation in item.items():
            if is_object(operation) and method != "parameters":
                name = names.get((method.upper(), path))
                if name is not None:
                    operation.setdefault("operationId", name)


def _reads(documents: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    return {
        f"{method.upper()} {path}": tuple(operation[READS])
        for document in documents
        for path, item in document.get("paths", {}).items()
        for method, operation in item.items()
        if is_object(operation) and READS in operation
    }
