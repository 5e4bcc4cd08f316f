"""The URL of a store in PostgreSQL."""

from __future__ import annotations

from typing import cast

import pytest

from ferrule.stores.postgres.store import PostgresMarks, PostgresServer, open_postgres
from ferrule.stores.store import StoreUrlError, open_store


def server_of(url: str) -> PostgresServer:
    return cast("PostgresMarks", open_store(url).marks)._server


def test_our_options_are_not_those_of_the_connection():
    server = server_of("postgresql://u:p@h:1/d?schema=foundry&connections=3&statement_cache_size=0&sslmode=require")
    assert server.url == "postgresql://u:p@h:1/d?sslmode=require"
    assert (server.schema, server._connections, server._statement_cache_size) == ("foundry", 3, 0)


@pytest.mark.parametrize("url", ["postgres://h/d", "postgresql:///d?host=/run/postgresql", "postgresql://a:1,b:2/d"])
def test_urls_as_libpq_reads_them_are_taken(url):
    """Both names of the scheme, a socket file, several hosts."""
    server = server_of(url)
    assert server.url.partition("?")[0] == url.partition("?")[0]
    assert server.schema == "ferrule"
    assert open_store(url).is_shared


@pytest.mark.parametrize(
    "query",
    [
        "schema=",
        "schema=Foundry",
        "schema=a-b",
        'schema=a"',
        "schema=pg_x",
        "schema=" + "a" * 49,
        "schema=1a",
        "schema=user",
        "schema=order",
        "schema=verbose",
        "connections=many",
        "connections=0",
        "connections=-1",
        "statement_cache_size=",
    ],
)
def test_what_cannot_be_used_is_refused_without_the_password(query):
    """The name of the schema stands in statements: it must be one that needs no quotes."""
    with pytest.raises(StoreUrlError) as refused:
        open_postgres(f"postgresql://me:secret@host/d?{query}")
    assert "secret" not in str(refused.value)
    assert "host" in str(refused.value)


def test_nothing_is_opened_before_it_is_used():
    assert server_of("postgresql://localhost:1/nothing")._pool is None
