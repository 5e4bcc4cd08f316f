"""`StoreRouter`, for a store in a database other than the default one."""

from __future__ import annotations

from typing import Any

__all__ = ["StoreRouter"]

_APP = "ferrule"


class StoreRouter:
    """Keeps the tables of the store in the database that ``MCP["STORE"]`` names, and only there.

    For a project with several databases: ``DATABASE_ROUTERS = ["ferrule.django.store.router.StoreRouter", …]``. Of
    tables of other applications it says nothing.
    """

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        """Return the database of a table of the store."""
        return _database() if model._meta.app_label == _APP else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Return whether ``manage.py migrate --database`` makes the tables of the store in a database."""
        return db == _database() if app_label == _APP else None


def _database() -> str | None:
    from ferrule.django.conf import django_settings
    from ferrule.django.store.choice import database_of

    return database_of(django_settings().store)
