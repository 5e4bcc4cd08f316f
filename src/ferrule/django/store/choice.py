"""Which store a server of the project uses: that of the setting ``MCP["STORE"]``."""

from __future__ import annotations

from django.apps import apps
from django.db import connections

from ferrule.stores.store import Store, StoreUrlError, open_store

__all__ = ["database_of", "store_of"]


def database_of(setting: str | None) -> str | None:
    """Return the alias of the database that the setting names; ``None`` if it names another store.

    Without a setting it is the default database, if that is one of PostgreSQL or SQLite and the application
    ``ferrule.django`` is installed.
    """
    if setting is None:
        from ferrule.django.store.database import VENDORS

        is_possible = apps.is_installed("ferrule.django") and connections["default"].vendor in VENDORS
        return "default" if is_possible else None
    scheme, _, alias = setting.partition(":")
    return (alias or "default") if scheme == "django" else None


def store_of(setting: str | None) -> Store:
    """Return the store of a server, opened on first use.

    Args:
        setting: ``"django"``, ``"django:alias"``, or a URL of another store; ``None`` for the default database where
            it can hold one, else the memory of each process.

    Raises:
        StoreUrlError: it names no store.
    """
    if setting is not None and setting.partition(":")[0] == "django" and not apps.is_installed("ferrule.django"):
        raise StoreUrlError(f"MCP['STORE'] is {setting!r}, which needs 'ferrule.django' in INSTALLED_APPS")
    alias = database_of(setting)
    if alias is None:
        return open_store("memory:" if setting is None else setting)
    from ferrule.django.store.store import django_store

    return django_store(alias)
