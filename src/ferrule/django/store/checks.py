"""System checks of the store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import django
from django.apps.config import AppConfig
from django.core import checks
from django.db import connections

from ferrule.django.conf import SettingError, django_settings
from ferrule.django.store.choice import database_of, store_of
from ferrule.stores.store import StoreUrlError

__all__ = ["check_locks", "check_store", "check_tables", "register_checks"]

_SQLITE: Final = "django.db.backends.sqlite3"


def register_checks() -> None:
    """Register the checks of this module."""
    checks.register(check_store)
    checks.register(check_tables, checks.Tags.database)
    checks.register(check_locks, deploy=True)


def check_store(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[checks.CheckMessage]:
    """Return an error if the setting ``MCP["STORE"]`` names no store (``ferrule.E301``)."""
    try:
        store_of(django_settings().store)
    except StoreUrlError as error:
        return [checks.Error(str(error), id="ferrule.E301")]
    except SettingError:
        return []  # another check reports it
    return []


def check_tables(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **options: Any
) -> list[checks.CheckMessage]:
    """Return a warning if the tables of the store are missing in its database (``ferrule.W302``).

    As for all checks of databases, only ``manage.py check --database`` runs it.
    """
    from ferrule.django.models import KINDS

    try:
        alias = database_of(django_settings().store)
    except SettingError:
        return []
    # `migrate` runs the checks before it makes the tables.
    if alias is None or alias not in (databases or ()) or sys.argv[1:2] == ["migrate"]:
        return []
    connection = connections[alias]
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
    missing = [kind._meta.db_table for kind in KINDS if kind._meta.db_table not in there]
    if not missing:
        return []
    return [
        checks.Warning(
            f"The store of the MCP server has no tables in the database {alias!r}: {', '.join(missing)}",
            hint=f"Run manage.py migrate ferrule --database {alias}, or set MCP['STORE'] to another store.",
            id="ferrule.W302",
        )
    ]


def check_locks(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[checks.CheckMessage]:
    """Return a warning if processes would lock each other out of the SQLite database of the store (``ferrule.W303``).

    With SQLite's default journal writers wait for readers; with ``ATOMIC_REQUESTS`` transactions read before they take
    the lock for writing, and then fail at once. Only ``manage.py check --deploy`` runs it, because a project that is
    developed has one process; it reads the settings, and not the database.
    """
    try:
        alias = database_of(django_settings().store)
    except SettingError:
        return []
    # Django has these options since version 5.1.
    if alias is None or connections.settings.get(alias, {}).get("ENGINE") != _SQLITE or django.VERSION < (5, 1):
        return []
    settings = connections.settings[alias]
    hints: list[str] = []
    if "wal" not in str(settings["OPTIONS"].get("init_command")).lower():
        hints.append("'init_command': 'PRAGMA journal_mode=WAL;'")
    if settings["ATOMIC_REQUESTS"] and settings["OPTIONS"].get("transaction_mode") not in ("IMMEDIATE", "EXCLUSIVE"):
        hints.append("'transaction_mode': 'IMMEDIATE'")
    if not hints:
        return []
    return [
        checks.Warning(
            f"The store of the MCP server is in the SQLite database {alias!r}, where several processes wait for each "
            "other, and may fail with 'database is locked'",
            hint=f"Add to its OPTIONS: {', '.join(hints)}; or use PostgreSQL. See docs/how-to/django-store.md. Silence "
            "this where one process serves.",
            id="ferrule.W303",
        )
    ]
