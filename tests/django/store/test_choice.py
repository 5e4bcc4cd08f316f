"""Which store a server uses: the setting ``MCP["STORE"]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import django
import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import connections

from ferrule.django import DjangoServer
from ferrule.django.store.errors import StoreNotMigrated
from ferrule.django.store.router import StoreRouter
from ferrule.django.store.store import open_django
from ferrule.django.store.values import DjangoMarks
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.sqlite.store import SqliteMarks
from ferrule.stores.store import StoreUrlError
from tests.django.store.databases import KINDS_OF_DATABASE, database


def server(**setting: Any) -> DjangoServer:
    return DjangoServer(settings=setting)


def with_store(name: str) -> Any:
    """The setting of the project names this store."""
    return mock.patch.dict(settings.MCP, STORE=name)


def test_the_default_database_is_the_store(tmp_path: Path) -> None:
    store: Any = server().store
    assert isinstance(store.marks, DjangoMarks)
    assert store.is_shared
    assert isinstance(server(STORE="memory:").store.marks, MemoryMarks)  # type: ignore[union-attr]
    assert isinstance(server(STORE=f"sqlite:///{tmp_path}/x.db").store.marks, SqliteMarks)  # type: ignore[union-attr]


def test_a_project_without_a_suitable_database_keeps_everything_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server must not fail because of what it may never use; named in the setting, the database is refused."""
    monkeypatch.setattr(connections["default"], "vendor", "mysql")
    assert isinstance(server().store.marks, MemoryMarks)  # type: ignore[union-attr]
    with pytest.raises(StoreUrlError, match="mysql"):
        server(STORE="django")


def test_a_database_that_does_not_exist_is_an_error_of_the_check() -> None:
    with pytest.raises(StoreUrlError, match="'nowhere'"):
        open_django("django:nowhere")
    with with_store("django:nowhere"):
        assert [message.id for message in run_checks() if "301" in str(message.id)] == ["ferrule.E301"]


@pytest.mark.parametrize("kind", KINDS_OF_DATABASE)
def test_before_migrate_the_check_and_the_first_use_say_what_to_do(kind: str, tmp_path: Path) -> None:
    async def use(store: Any) -> None:
        for call in (
            lambda: store.marks.begin("k", ttl_s=1),
            lambda: store.blobs.get("k"),
            lambda: store.sessions.get("k", idle_s=1),
            lambda: store.tasks.get("k"),
            lambda: store.channel.send(b""),
        ):
            with pytest.raises(StoreNotMigrated, match=r"run `manage\.py migrate ferrule --database bare`"):
                await call()

    with database("bare", kind, tmp_path, migrate=False), with_store("django:bare"):
        (warning,) = [each for each in run_checks(databases=["bare"]) if each.id == "ferrule.W302"]
        assert "manage.py migrate ferrule --database bare" in str(warning.hint)
        anyio.run(use, server(STORE="django:bare").store)


def test_after_migrate_the_check_is_silent(tmp_path: Path) -> None:
    with database("bare", "sqlite", tmp_path), with_store("django:bare"):
        assert [message for message in run_checks(databases=["bare"]) if message.id == "ferrule.W302"] == []


@pytest.mark.skipif(django.VERSION < (5, 1), reason="Django has no such options")
def test_the_check_of_a_deployment_names_the_options_of_sqlite() -> None:
    found: Any = connections.settings["default"]

    def hints(**settings: Any) -> list[str]:
        with mock.patch.dict(found, {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": {}, **settings}):
            with with_store("django:default"):
                return [str(each.hint) for each in run_checks(include_deployment_checks=True) if "303" in str(each.id)]

    wal = {"init_command": "PRAGMA journal_mode=WAL;"}
    (both,) = hints(ATOMIC_REQUESTS=True)
    assert "'init_command': 'PRAGMA journal_mode=WAL;', 'transaction_mode': 'IMMEDIATE'" in both
    assert "transaction_mode" not in hints(ATOMIC_REQUESTS=False)[0]
    assert hints(ATOMIC_REQUESTS=False, OPTIONS=wal) == []
    assert hints(ATOMIC_REQUESTS=True, OPTIONS={**wal, "transaction_mode": "IMMEDIATE"}) == []
    assert hints(ENGINE="django.db.backends.postgresql", ATOMIC_REQUESTS=True) == []
    assert [each for each in run_checks() if "303" in str(each.id)] == []


def test_the_router_keeps_the_tables_in_the_database_of_the_store() -> None:
    from ferrule.django.models import MarkRow
    from tests.django.shop.models import Invoice

    router = StoreRouter()
    with with_store("django:mcp"):
        assert router.db_for_read(MarkRow) == router.db_for_write(MarkRow) == "mcp"
        assert router.db_for_read(Invoice) is None
        assert router.allow_migrate("mcp", "ferrule")
        assert not router.allow_migrate("default", "ferrule")
        assert router.allow_migrate("default", "shop") is None


def test_migrations_are_complete() -> None:
    from django.core.management import call_command

    call_command("makemigrations", "ferrule", check=True, dry_run=True, verbosity=0)
