"""The modules ``mcp`` of the installed applications."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from ferrule.django.conf import DjangoSettings, SettingError, django_settings

__all__ = ["discover", "failures", "watch"]

logger = logging.getLogger(__name__)

failures: dict[str, Exception] = {}
"""Modules that could not be imported, and why; a system check reports them."""


def discover() -> None:
    """Import the module of each installed application that has one.

    A module that fails is logged, and is an error of ``manage.py check``: the rest of the project still starts.
    """
    for config, name in _candidates():
        module = f"{config.name}.{name}"
        if not module_has_submodule(config.module, name):
            continue
        try:
            import_module(module)
        except Exception as error:
            failures[module] = error
            logger.exception("%s could not be imported; nothing that it exposes is there", module)
        else:
            failures.pop(module, None)


def watch(sender: Any, **_: Any) -> None:
    """Let ``runserver`` restart when a module changes that it has not imported: a new one, or one that failed.

    Args:
        sender: the reloader.
    """
    for config, name in _candidates():
        sender.watch_dir(Path(config.path), f"{name}.py")


def _candidates() -> list[tuple[Any, str]]:
    name = _module_name()
    return [(config, name) for config in apps.get_app_configs() if config.name != "ferrule.django"]


def _module_name() -> str:
    try:
        return django_settings().module
    except SettingError:  # reported by a system check, and by each request
        return DjangoSettings().module
