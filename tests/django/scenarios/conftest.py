"""A database for servers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.host_processes import program_environment


@dataclass(frozen=True)
class Database:
    """A database with the tables of the project and one user.

    Attributes:
        environment: names it to the project.
        token: of the user.
        titles: returns the titles of the invoices that begin with a text.
        connections: returns the states of the servers' connections; none of SQLite.
    """

    environment: dict[str, str]
    token: str
    titles: Callable[[str], list[str]]
    connections: Callable[[], list[str]]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database_of_hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The database, of both kinds in turn."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("hosted") / "db.sqlite3"
        yield _prepared(f"sqlite://{path}", _sqlite_rows(path), list)
        return
    url = request.getfixturevalue("postgres_url")
    import psycopg
    from psycopg.sql import SQL, Identifier

    name = f"hosted_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        made = url.rpartition("/")[0] + f"/{name}"

        def titles(like: str) -> list[str]:
            with psycopg.connect(made) as connection:
                asked = connection.execute("SELECT title FROM shop_invoice WHERE title LIKE %s ORDER BY id", [like])
                return [row[0] for row in asked]

        def states() -> list[str]:
            asked = own.execute("SELECT state FROM pg_stat_activity WHERE application_name = %s", [name])
            return [row[0] for row in asked]

        try:
            yield _prepared(made, titles, states)
        finally:
            own.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def _sqlite_rows(path: Path) -> Callable[[str], list[str]]:
    import sqlite3
    from contextlib import closing

    query = "SELECT title FROM shop_invoice WHERE title LIKE ? ORDER BY id"

    def rows(like: str) -> list[str]:
        with closing(sqlite3.connect(path)) as connection:
            return [row[0] for row in connection.execute(query, [like])]

    return rows


def _prepared(url: str, rows: Callable[[str], list[str]], states: Callable[[], list[str]]) -> Database:
    environment = {"HOSTED_DATABASE": url, "DJANGO_SETTINGS_MODULE": "tests.django.hosting.settings"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.django.hosting.prepare"],
        cwd=ROOT,
        env={**program_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return Database(environment, done.stdout.strip(), lambda prefix: rows(f"{prefix}%"), states)
