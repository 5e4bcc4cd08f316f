"""Databases for tests of the store: a file of SQLite, and PostgreSQL where there is one.

``"sqlite"`` is one whose readers do not wait for the writer (WAL); ``"plain sqlite"`` is as Django makes it.

``FERRULE_TEST_POSTGRES_URL`` names a server on which databases may be made: ``postgresql://user@host:port/name``.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connections

from ferrule.django.models import KINDS

POSTGRES_URL = os.environ.get("FERRULE_TEST_POSTGRES_URL")

KINDS_OF_DATABASE = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL")),
]


_IN_MEMORY = Path("/dev/shm")


def settings_for(kind: str, folder: Path) -> dict[str, Any]:
    """The entry of ``DATABASES`` for a new database."""
    if kind.endswith("sqlite"):
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(folder / "store.db"),
            "OPTIONS": {"timeout": 60} if kind == "sqlite" else {},
        }
    parts = urlsplit(POSTGRES_URL or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": f"ferrule_{secrets.token_hex(6)}",
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


def _execute(statement: LiteralString, name: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(POSTGRES_URL or "", autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


@contextmanager
def database(alias: str, kind: str, folder: Path, *, migrate: bool = True) -> Generator[dict[str, Any]]:
    """A database of the project under an alias, with the tables of the store; yields its settings."""
    in_memory = tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else folder)
    given = settings_for(kind, Path(in_memory.name))
    if kind == "postgresql":
        _execute("CREATE DATABASE {}", given["NAME"])
    known: Any = connections.settings
    known[alias] = {**known["default"], "OPTIONS": {}, "CONN_MAX_AGE": 60, **given}
    with suppress(AttributeError):
        del connections[alias]  # what looks at all databases, as checks do, has made one of the database before this
    try:
        if kind == "sqlite":
            with connections[alias].cursor() as cursor:
                cursor.execute("PRAGMA journal_mode=WAL")  # kept in the file
        if migrate:
            call_command("migrate", "ferrule", database=alias, verbosity=0)
        yield given
    finally:
        connections[alias].close()
        # The alias stays known: threads of the store that end later close their connections by it.
        del connections[alias]
        known[alias]["ATOMIC_REQUESTS"] = False  # else each request of other tests begins a transaction in it
        in_memory.cleanup()
        if kind == "postgresql":
            _execute("DROP DATABASE {} WITH (FORCE)", given["NAME"])


def empty(alias: str) -> None:
    """Delete all rows of the store."""
    for kind in KINDS:
        kind._default_manager.using(alias).all().delete()
