"""The application ``ferrule.django``: imports the module ``mcp`` of each installed application when Django starts."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.utils.autoreload import autoreload_started

__all__ = ["FerruleConfig"]


class FerruleConfig(AppConfig):
    """Configuration of the application."""

    name = "ferrule.django"
    label = "ferrule"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks, and import the modules of the installed applications."""
        from ferrule.django import checks
        from ferrule.django.discovery import discover, watch
        from ferrule.django.store.checks import register_checks

        checks.register_checks()
        register_checks()
        discover()
        autoreload_started.connect(watch)
        setting_changed.connect(_on_setting_changed)


_FOLLOWED = frozenset({"MCP", "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "DEBUG"})
"""Settings that an endpoint depends on; a live server of tests adds its host to ``ALLOWED_HOSTS``."""


def _on_setting_changed(*, setting: str, enter: bool, **_: Any) -> None:
    if setting in _FOLLOWED:
        from ferrule.django.server import follow_setting

        follow_setting(warn=enter and setting == "MCP")
