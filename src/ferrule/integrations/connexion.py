"""Connexion applications, for `ferrule.expose.expose`: the description is the document that an application is made of.

Connexion 3 is an ASGI application, whichever framework serves its functions, and its validation and security are
middleware, so requests go through ASGI. Connexion 2 is a Flask application.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from os import PathLike
from typing import Any

from ferrule.expose.applications import Exposable
from ferrule.expose.asgi_application import ASGIExposable
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.lifespan import ApplicationLife, life_of
from ferrule.expose.description.merge import merge_descriptions, renamed
from ferrule.expose.description.reader import Description, NotADescription, read_description
from ferrule.expose.documents import load_document
from ferrule.expose.exchange import ApiRequest, Caller
from ferrule.expose.requests.routes import CheckedCaller, Route, Routes, routes_of
from ferrule.expose.settings import ValidateOutput
from ferrule.integrations.flask import exposable as flask_exposable
from ferrule.integrations.flask_routes import path_template

__all__ = ["exposable"]


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a Connexion application."""
    if hasattr(app, "middleware"):  # the applications of Connexion 3 hold their middleware
        return _Connexion(app, app.middleware)
    # The middleware of Connexion 3 alone has a list of them; Connexion 2 has neither.
    return _Connexion(app, app) if hasattr(app, "middlewares") else _Connexion2(app.app)


class _Connexion(ASGIExposable):
    """An application of Connexion 3, which checks responses only if the application is configured to."""

    def __init__(self, app: Any, middleware: Any) -> None:
        life = life_of(middleware, _observe)
        caller = ASGICaller(app, state=lambda: life.state)
        super().__init__(app, life, CheckedCaller(caller, self._names_another))
        self._middleware = middleware
        self._routes: tuple[object, Routes] = None, Routes(())

    def version(self) -> object:
        """See `Exposable`."""
        return tuple(id(api) for api in self._middleware.apis)

    def describe(self) -> Description:
        """See `Exposable`."""
        return merge_descriptions([_described(*_document(api)) for api in self._middleware.apis])

    def _names_another(self, request: ApiRequest) -> bool:
        """See `Routes.names_another`. Views of a Flask application beside the described operations count."""
        known, routes = self._routes
        version = self.version()
        if version != known:
            flask: Any = getattr(self.app, "app", None)  # `FlaskApp` has one, the others have not
            # An `AsyncApp` holds an application without rules.
            rules: Any = flask.url_map.iter_rules() if hasattr(flask, "url_map") else ()
            views = [Route(str(method), path_template(rule)) for rule in rules for method in rule.methods or ()]
            routes = Routes([*routes_of(self.describe().operations), *views])
            self._routes = version, routes
        return routes.names_another(request)


def _observe(middleware: Any, life: ApplicationLife) -> None:
    """Record when the application's lifespan runs: the host runs it if the endpoint is mounted in the application."""
    original = middleware.lifespan
    if original is None or middleware.middleware_stack is not None:
        return
    middleware.lifespan = life.observe(original)


class _Connexion2:
    """The Flask application of Connexion 2, described by the documents that it serves."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._flask = flask_exposable(app)

    @property
    def title(self) -> str | None:
        """The application's name for people; ``None`` without."""
        return str(self._app.name)

    @property
    def caller(self) -> Caller:
        """See `Exposable`."""
        return self._flask.caller

    @property
    def validate_output(self) -> ValidateOutput:
        """See `Exposable`."""
        return "off"

    def version(self) -> object:
        """See `Exposable`."""
        return self._flask.version()

    def describe(self) -> Description:
        """See `Exposable`.

        Raises:
            NotADescription: the application does not serve its document.
        """
        found = [
            _described(self._served(rule), rule.rule.removesuffix("/openapi.json"))
            for rule in self._app.url_map.iter_rules()
            if rule.rule.endswith("/openapi.json")
        ]
        if not found:
            raise NotADescription(
                "this application of Connexion 2 serves no openapi.json (a Swagger 2.0 document, or serve_spec=False); "
                "give the document to from_openapi(…, caller=WSGICaller(app.app))"
            )
        return merge_descriptions(found)

    def started(self) -> AbstractAsyncContextManager[None]:
        """See `Exposable`."""
        return nullcontext()

    def _served(self, rule: Any) -> dict[str, Any]:
        with self._app.test_request_context(rule.rule):
            # Only the view: the checks of who may read the document over HTTP do not run here.
            response = self._app.make_response(self._app.view_functions[rule.endpoint]())
            document: dict[str, Any] = load_document(response.get_data())[0]
            return document


def _document(api: Any) -> tuple[dict[str, Any], str]:
    """Return the document of an API of Connexion 3, and the prefix of its paths."""
    given = api.specification
    if isinstance(given, str | PathLike | dict):  # 3.0 keeps what it was given
        given = import_module("connexion.spec").Specification.load(given, arguments=api.kwargs.get("arguments"))
    prefix = api.base_path if api.base_path is not None else given.base_path
    return dict(given.raw), str(prefix or "").rstrip("/")


def _described(document: dict[str, Any], prefix: str) -> tuple[str, Description]:
    """Return prefix and description; operations are named after their function, without its module."""
    description = read_description(document)
    ids = [operation.operation_id for operation in description.operations if operation.operation_id]
    return prefix, renamed(description, {each: each.rpartition(".")[2] for each in ids})
