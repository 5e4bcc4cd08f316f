"""The documents that extensions of Flask make: APIFlask, flask-smorest, Flask-RESTX."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ferrule.expose.description.reader import NotADescription
from ferrule.expose.documents import load_document
from ferrule.integrations.swagger2 import openapi_of_swagger
from ferrule.wire.json_types import is_object

__all__ = ["extension_documents"]


def extension_documents(app: Any) -> list[dict[str, Any]] | None:
    """Return the OpenAPI documents of an application's extensions; ``None`` if it uses none that makes one.

    Raises:
        NotADescription: an extension fails to describe the application.
    """
    found = [*_apiflask(app), *_smorest(app), *_restx(app)]
    return found or None


def _apiflask(app: Any) -> list[dict[str, Any]]:
    if not any(kind.__module__ == "apiflask.app" for kind in type(app).__mro__):
        return []
    # The application keeps the document that it made first.
    document = app._get_spec("json", force_update=True)  # pyright: ignore[reportPrivateUsage]
    found = load_document(document)[0]
    for item in found.get("paths", {}).values():
        for operation in item.values():
            if is_object(operation) and is_object(operation.get("requestBody")):
                # The document does not say so, and the application refuses a request without its body.
                operation["requestBody"].setdefault("required", True)
    return [found]


def _smorest(app: Any) -> list[dict[str, Any]]:
    kept: Any = app.extensions.get("flask-smorest")
    if not is_object(kept):
        return []
    apis: dict[str, Any] = kept.get("apis", {})
    return [each["ext_obj"].spec.to_dict() for each in apis.values()]


def _restx(app: Any) -> list[dict[str, Any]]:
    module = sys.modules.get("flask_restx")
    if module is None:
        return []
    apis: dict[int, Any] = {}
    for view in app.view_functions.values():
        # The application does not know its `Api`; the view of its root is a method of it.
        owner = getattr(view, "__self__", None)
        if isinstance(owner, module.Api):
            apis[id(owner)] = owner
    return [_restx_document(app, api) for api in apis.values()]


def _restx_document(app: Any, api: Any) -> dict[str, Any]:
    with app.test_request_context():
        try:
            document: dict[str, Any] = import_module("flask_restx.swagger").Swagger(api).as_dict()
        except Exception as error:
            raise NotADescription(f"Flask-RESTX cannot describe {api.title}: {error}") from error
    return openapi_of_swagger(document)
