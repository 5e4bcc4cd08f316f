"""FastAPI applications, for `ferrule.expose.expose`, and the endpoint of a server in one.

The description is the application's own (``app.openapi()``), with those of mounted FastAPI applications. A route with
``include_in_schema=False`` is in none, so it is never a tool. Operations whose id FastAPI made are named after their
function; an id of the author's own, or of a ``generate_unique_id_function`` of theirs, is the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from msgspec.structs import replace

from ferrule.expose.applications import Exposable
from ferrule.expose.description.merge import merge_descriptions, renamed, with_slashes
from ferrule.expose.description.reader import Description, read_description
from ferrule.expose.settings import ValidateOutput
from ferrule.integrations.starlette import mount
from ferrule.integrations.starlette_api import (
    StarletteExposable,
    every_route,
    mounted_applications,
    routes_version,
)

__all__ = ["exposable", "mount"]

_MAX_NESTING = 8
"""Maximum depth of mounted applications whose descriptions are read."""

_KEPT = ("openapi_schema", "_openapi_routes_version")
"""What an application keeps of its description; newer ones also of which routes it is."""


def exposable(app: Any) -> Exposable:
    """Return the `Exposable` of a FastAPI application."""
    return _FastAPI(app)


class _FastAPI(StarletteExposable):
    """A FastAPI application."""

    @property
    def title(self) -> str | None:
        """See `Exposable`."""
        return str(self.app.title) or None

    @property
    def validate_output(self) -> ValidateOutput:
        """See `Exposable`. With a response model FastAPI sends what fits its schema, or fails."""
        return "proven"

    def version(self) -> object:
        """See `Exposable`."""
        return routes_version([self.app, *(inner for _, inner in _with_mounted(self.app))])

    def describe(self) -> Description:
        """See `Exposable`."""
        parts = [("", self.app), *_with_mounted(self.app)]
        return merge_descriptions([(prefix, _described(app)) for prefix, app in parts])


def _with_mounted(app: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield prefix and application of the FastAPI applications that are mounted in one, at any depth."""
    from fastapi import FastAPI

    if depth == _MAX_NESTING:
        return
    for path, inner in mounted_applications(app):
        if inner is app:
            continue
        if isinstance(inner, FastAPI):
            yield prefix + path, inner
        if hasattr(inner, "routes"):  # a Starlette application or router may have further ones
            yield from _with_mounted(inner, prefix + path, depth + 1)


def _described(app: Any) -> Description:
    # An application keeps its description, made of the routes of that time; it is made anew, and what was kept, perhaps
    # by the author, is put back. If that was none, its next one must have the routes that are added until then.
    facts = cast("dict[str, Any]", vars(app))
    kept: dict[str, Any] = {name: facts[name] for name in _KEPT if name in facts}
    app.openapi_schema = None
    try:
        document = app.openapi()
    finally:
        facts.update(kept)
    routes = [route for route in every_route(app) if getattr(route, "unique_id", None)]  # plain ones have none
    description = renamed(read_description(document), _function_names(routes))
    several = _paths_in_paths(routes)
    description = with_slashes(description, lambda operation: several.get(operation.path, ()))
    proven = {
        (method, str(route.path_format)) for route in routes if _is_proven(route) for method in route.methods or ()
    }
    return replace(
        description,
        operations=tuple(
            replace(operation, is_output_proven=True) if (operation.method, operation.path) in proven else operation
            for operation in description.operations
        ),
    )


def _function_names(routes: list[Any]) -> dict[str, str]:
    """Return the name of the function by operation id, for routes whose id FastAPI made, where the name is unique."""
    from fastapi.utils import generate_unique_id

    described = [route for route in routes if route.include_in_schema]
    names = Counter(route.name for route in described)
    return {
        route.unique_id: route.name
        for route in described
        if route.operation_id is None
        and names[route.name] == 1
        # FastAPI wraps its default in a placeholder that has a value.
        and getattr(route.generate_unique_id_function, "value", route.generate_unique_id_function) is generate_unique_id
    }


def _is_proven(route: Any) -> bool:
    """Return whether FastAPI makes every response of a route fit its described schema.

    It does not if members are left out, which the schema does not show, or if the author describes further responses.
    """
    return (
        route.response_field is not None
        and not any(str(status).startswith("2") for status in route.responses)
        and not (
            route.response_model_exclude_unset
            or route.response_model_exclude_defaults
            or route.response_model_exclude_none
            or route.response_model_include
            or route.response_model_exclude
        )
    )


def _paths_in_paths(routes: list[Any]) -> dict[str, frozenset[str]]:
    """Return the parameters that may have several path segments, ``{file:path}``, by path."""
    from starlette.convertors import PathConvertor

    found: dict[str, frozenset[str]] = {}
    for route in routes:
        convertors: dict[str, Any] = getattr(route, "param_convertors", {})  # mounts of other kinds have none
        names = frozenset(name for name, made in convertors.items() if isinstance(made, PathConvertor))
        if names:
            found[str(route.path_format)] = names
    return found
