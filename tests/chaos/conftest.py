"""The stores that tests of several processes use: a new one on a server that all tests share, or a server to hurt."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Generator
from pathlib import Path

import asyncpg
import pytest

from tests.stores.own_postgres import OwnPostgres
from tests.stores.own_redis import KEEP, OwnRedis

SERVERS = ("redis", "postgres")


async def _drop(url: str, schemas: list[str]) -> None:
    connection = await asyncpg.connect(url)
    for schema in schemas:
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.close()


@pytest.fixture(scope="module")
def new_store(request: pytest.FixtureRequest) -> Generator[Callable[[str], str]]:
    """Makes the URL of a new store on a kind of server: ``redis`` or ``postgres``."""
    schemas: list[str] = []

    def url(kind: str) -> str:
        if kind == "redis":
            return f"{request.getfixturevalue('redis_url')}?prefix=chaos-{secrets.token_hex(6)}"
        schemas.append(f"chaos_{secrets.token_hex(6)}")
        return f"{request.getfixturevalue('postgres_url')}?schema={schemas[-1]}"

    yield url
    if schemas:
        asyncio.run(_drop(request.getfixturevalue("postgres_url"), schemas))


@pytest.fixture(params=SERVERS)
def server_store(request: pytest.FixtureRequest, new_store: Callable[[str], str]) -> Callable[[], str]:
    """Makes URLs of new stores; the test runs once on each kind of server."""
    kind: str = request.param
    return lambda: new_store(kind)


@pytest.fixture(params=SERVERS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[OwnRedis | OwnPostgres]:
    """A server that the test may stop; once of each kind."""
    if request.param == "redis":
        folder = tmp_path / "redis"
        folder.mkdir()
        server: OwnRedis | OwnPostgres = OwnRedis(folder, *KEEP)
    else:
        server = OwnPostgres()
    yield server
    server.close()
