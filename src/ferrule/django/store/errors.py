"""Errors of a store in a Django database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from django.db import connections, utils

from ferrule.stores.errors import StoreNotWritable

__all__ = ["StoreNotMigrated", "is_locked", "translated"]

# SQLSTATE of PostgreSQL: undefined table, undefined column. SQLite has texts only.
_MISSING: Final = frozenset({"42P01", "42703"})
_MISSING_TEXTS: Final = ("no such table", "no such column", "has no column named")
# SQLSTATE: disk full, read-only transaction.
_NOT_WRITABLE: Final = frozenset({"53100", "25006"})
_NOT_WRITABLE_TEXTS: Final = ("database or disk is full", "readonly database")


# SQLite's texts for SQLITE_BUSY and SQLITE_LOCKED.
_LOCKED_TEXTS: Final = ("database is locked", "database table is locked", "database schema is locked")


def is_locked(error: BaseException) -> bool:
    """Return whether a statement had no effect because another connection has locked the database of SQLite."""
    return isinstance(error, utils.OperationalError) and str(error).startswith(_LOCKED_TEXTS)


class StoreNotMigrated(OSError):
    """The tables of the store are missing, or older than this release: ``manage.py migrate`` makes them."""


@contextmanager
def translated(using: str) -> Generator[None]:
    """Convert Django's errors about the database to `OSError`, as all stores do.

    Args:
        using: the alias of the database.

    Raises:
        StoreNotMigrated: a table or a column is missing.
        StoreNotWritable: the disk of the database is full, or it may only be read.
        ConnectionError: the database cannot be reached, or is locked.
    """
    try:
        yield
    except utils.Error as error:
        cause: Any = error.__cause__
        state: Any = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)  # psycopg 3 and psycopg2
        text = str(error)
        if state in _MISSING or any(known in text for known in _MISSING_TEXTS):
            raise StoreNotMigrated(
                f"The tables of Ferrule's store are missing in the database {using!r}: run `{_command(using)}`, "
                "or choose another store with MCP['STORE']"
            ) from error
        if state in _NOT_WRITABLE or any(known in text for known in _NOT_WRITABLE_TEXTS):
            raise StoreNotWritable(f"The store in the database {using!r} cannot be written to: {error}") from error
        if isinstance(error, (utils.OperationalError, utils.InterfaceError)):
            advice = _advice(using) if is_locked(error) else ""
            raise ConnectionError(f"The store in the database {using!r} cannot be used: {error}{advice}") from error
        raise


def _advice(using: str) -> str:
    """Return what to do against the lock of SQLite."""
    if connections[using].in_atomic_block:
        return (
            " (the transaction around this call has read before it writes, and another process has written meanwhile: "
            "set OPTIONS['transaction_mode'] to 'IMMEDIATE')"
        )
    return " (another transaction has held its lock for longer than the store waits: keep transactions short)"


def _command(using: str) -> str:
    return "manage.py migrate ferrule" + ("" if using == "default" else f" --database {using}")
