"""Which kind of views an argument of `DjangoServer.expose` is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ferrule.django.exposing.targets import ExposedTarget

__all__ = ["target_of"]


def target_of(
    target: Any,
    *,
    actions: Iterable[str] | None,
    prefix: str | None,
    version: str | None,
    describe_as: Callable[[], Any] | None,
) -> ExposedTarget:
    """Return the views that an argument stands for; see `DjangoServer.expose`.

    Raises:
        TypeError: it is nothing that can be exposed, or an option is for views of another kind.
        ImportError: it is a view of Django REST framework, and drf-spectacular is not installed.
        NothingExposed: an action does not exist.
    """
    kinds = {f"{kind.__module__}:{kind.__qualname__}" for kind in type(target).__mro__}
    if "ninja.main:NinjaAPI" in kinds:
        from ferrule.django.exposing.ninja import NinjaViews

        for name, value in (("actions", actions), ("version", version), ("describe_as", describe_as)):
            if value is not None:
                raise TypeError(
                    f"{name}= is for views of Django REST framework, and {target.title!r} is an API of Django Ninja: "
                    "include=, exclude= and prefix= choose its operations"
                )
        return NinjaViews(target, prefix=prefix)
    views = _of_rest_framework()
    if views is None or not views.is_view(target):
        raise TypeError(
            f"{target!r} cannot be exposed: it is not a viewset, a view class of Django REST framework, a function "
            "with @api_view, a router, or an API of Django Ninja. A plain function becomes a tool with @mcp.tool"
        )
    made: ExposedTarget = views.ExposedViews(
        target, actions=actions, prefix=prefix, version=version, describe_as=describe_as
    )
    return made


def _of_rest_framework() -> Any:
    """Return the module for views of Django REST framework; ``None`` where a project does not have the framework."""
    try:
        return import_module("ferrule.django.exposing.rest_framework")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "rest_framework":
            return None
        if missing != "drf_spectacular":
            raise
        text = "Views of Django REST framework are described by drf-spectacular: pip install 'ferrule[django]'"
        raise ImportError(text, name=missing) from error
