"""The store in PostgreSQL (13 or newer), for any number of processes.

``postgresql://user:password@host:5432/database?schema=name``; also ``postgres://``. All tables are in one schema, which
the first process makes. Marks, blobs, task records, sessions and events are on the disk before their call returns,
as far as PostgreSQL is configured so.
"""

from __future__ import annotations

import re
import secrets
from importlib import import_module
from typing import Final
from urllib.parse import parse_qsl, urlencode

from ferrule.stores.marks import Mark
from ferrule.stores.postgres.channel import PostgresChannel
from ferrule.stores.postgres.schema import RESERVED
from ferrule.stores.postgres.server import DEFAULT_SCHEMA, PostgresServer, digest
from ferrule.stores.postgres.sessions import PostgresEvents, PostgresSessions
from ferrule.stores.postgres.tasks import PostgresTasks
from ferrule.stores.store import Store, StoreUrlError
from ferrule.stores.urls import split_url, without_password

__all__ = [
    "PostgresBlobs",
    "PostgresCache",
    "PostgresChannel",
    "PostgresEvents",
    "PostgresMarks",
    "PostgresRateLimits",
    "PostgresServer",
    "PostgresSessions",
    "PostgresTasks",
    "open_postgres",
]

_NUMBERS: Final = ("connections", "statement_cache_size")


class PostgresMarks:
    """`ferrule.stores.marks.OneTimeMarks` in PostgreSQL."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        # A running mark contains a token of the call that made it: if the reply is lost and the statement runs again,
        # it returns the same result. A loser reads the value as it was when the statement began.
        self._begin = server.sql(
            "WITH claimed AS (INSERT INTO {schema}.marks AS mark VALUES ($1, {now} + $2, $3, NULL) ON CONFLICT (key) "
            "DO UPDATE SET expires_at = excluded.expires_at, claim = excluded.claim, value = NULL "
            "WHERE mark.expires_at <= {now} OR (mark.claim = excluded.claim AND mark.value IS NULL) RETURNING 1) "
            "SELECT EXISTS (SELECT FROM claimed), "
            "(SELECT value FROM {schema}.marks WHERE key = $1 AND expires_at > {now})"
        )
        self._finish = server.sql(
            "INSERT INTO {schema}.marks VALUES ($1, {now} + $2, '', $3) ON CONFLICT (key) "
            "DO UPDATE SET expires_at = excluded.expires_at, value = excluded.value"
        )

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        """Claim a key and return its state; see `OneTimeMarks.begin`."""
        token = secrets.token_bytes(8)
        is_mine, value = await self._server.row(self._begin, digest(key), float(ttl_s), token)
        if is_mine:
            return Mark("mine")
        return Mark("running") if value is None else Mark("done", value)

    async def finish(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Record the outcome of a key that was ``"mine"``; a later outcome replaces it; see `OneTimeMarks.finish`."""
        await self._server.row(self._finish, digest(key), float(ttl_s), value)


class PostgresBlobs:
    """`ferrule.stores.blobs.BlobStore` in PostgreSQL."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._put = server.sql(
            "INSERT INTO {schema}.blobs VALUES ($1, {now} + $2, $3) ON CONFLICT (key) "
            "DO UPDATE SET expires_at = excluded.expires_at, value = excluded.value"
        )
        self._get = server.sql("SELECT value FROM {schema}.blobs WHERE key = $1 AND expires_at > {now}")
        self._delete = server.sql("DELETE FROM {schema}.blobs WHERE key = $1")

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value, in place of an older one; see `BlobStore.put`."""
        if ttl_s <= 0:
            await self._server.row(self._delete, digest(key))
            return
        await self._server.row(self._put, digest(key), float(ttl_s), value)

    async def get(self, key: str) -> bytes | None:
        """Return the value; see `BlobStore.get`."""
        found: bytes | None = await self._server.value(self._get, digest(key))
        return found


# A group has a random generation (`era`), which its entries contain. Dropping the group deletes the generation: its
# entries no longer match, and are deleted at their own expiry. The generation expires after all entries; it is made to
# last twice as long as the entry that needs it, so that most entries do not write it.
_ERA_BYTES: Final = 8


class PostgresCache:
    """`ferrule.stores.cache.CacheStore` in PostgreSQL; its size is an option of `PostgresServer`."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._get = server.sql(
            "SELECT entry.value FROM {schema}.cache AS entry JOIN {schema}.cache_groups AS known USING (name, era) "
            "WHERE name = $1 AND entry.key = $2 AND entry.expires_at > {now} AND known.expires_at > {now}"
        )
        self._put = server.sql(
            "WITH known AS (SELECT era FROM {schema}.cache_groups WHERE name = $1 AND expires_at >= {now} + $4), "
            "made AS (INSERT INTO {schema}.cache_groups AS found SELECT $1, {now} + $4 * 2, $5 "
            "WHERE NOT EXISTS (SELECT FROM known) ON CONFLICT (name) DO UPDATE SET "
            "era = CASE WHEN found.expires_at > {now} THEN found.era ELSE excluded.era END, "
            "expires_at = greatest(found.expires_at, excluded.expires_at) RETURNING era) "
            "INSERT INTO {schema}.cache SELECT $1, $2, {now} + $4, era, $6, $3 "
            "FROM (SELECT era FROM known UNION ALL SELECT era FROM made) AS eras ON CONFLICT (name, key) DO UPDATE SET "
            "expires_at = excluded.expires_at, era = excluded.era, size = excluded.size, value = excluded.value"
        )
        self._delete = server.sql("DELETE FROM {schema}.cache WHERE name = $1 AND key = $2")
        self._drop = server.sql("DELETE FROM {schema}.cache_groups WHERE name = $1")

    async def get(self, group: str, key: str) -> bytes | None:
        """Return a value; see `CacheStore.get`."""
        found: bytes | None = await self._server.value(self._get, digest(group), digest(key))
        return found

    async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value for at most ``ttl_s`` seconds; see `CacheStore.put`."""
        size = len(group) + len(key) + len(value)
        if ttl_s <= 0 or size > self._server.max_cache_bytes:
            await self._server.row(self._delete, digest(group), digest(key))
            return
        era = secrets.token_bytes(_ERA_BYTES)
        await self._server.row(self._put, digest(group), digest(key), value, float(ttl_s), era, size)

    async def drop(self, group: str) -> None:
        """Delete all values of a group; see `CacheStore.drop`."""
        await self._server.row(self._drop, digest(group))


class PostgresRateLimits:
    """`ferrule.stores.rates.RateLimitStore` in PostgreSQL; a row expires when its bucket is full."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._take = server.sql("SELECT {schema}.spend_tokens($1, $2, $3, $4, $5)")

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one token from a bucket; see `RateLimitStore.take`."""
        return await self.spend(key, size=size, per_s=per_s, tokens=1)

    async def spend(self, key: str, *, size: int, per_s: float, tokens: int, anyway: bool = False) -> float:
        """Take several tokens from a bucket; see `SpendsTokens.spend`."""
        wait_s: float = await self._server.value(
            self._take, digest(key), float(size), float(per_s), float(tokens), anyway
        )
        return wait_s


def open_postgres(url: str) -> Store:
    """Return the store that ``postgresql://…`` names; connects on first use.

    Options in the query: ``schema`` (``ferrule``), ``connections`` (8 for each process) and ``statement_cache_size``;
    all others are those of libpq, such as ``sslmode``.

    Raises:
        StoreUrlError: a host or a port is invalid, the schema is not a plain name of small letters or is a reserved
            word, or a number is none.
        ModuleNotFoundError: asyncpg is not installed (``pip install 'ferrule[postgres]'``).
    """
    import_module("asyncpg")  # a missing library raises now, and not at the first request
    address, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    # A plain name needs no quotes anywhere; 48 characters leave room for the suffix of the channel.
    is_name = re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema) and not schema.startswith("pg_") and schema not in RESERVED
    if not is_name or split_url(url) is None:
        raise StoreUrlError(f"{without_password(url)!r} is not postgresql://host:port/database?schema=name")
    numbers = {name: _number(url, name, options.pop(name)) for name in _NUMBERS if name in options}
    if numbers.get("connections") == 0:
        raise StoreUrlError(f"{without_password(url)!r} allows no connection")
    server = PostgresServer(f"{address}?{urlencode(options)}" if options else address, schema=schema, **numbers)
    return Store(
        PostgresMarks(server),
        PostgresBlobs(server),
        is_shared=True,
        tasks=PostgresTasks(server),
        channel=PostgresChannel(server),
        sessions=PostgresSessions(server),
        events=PostgresEvents(server),
        cache=PostgresCache(server),
        rates=PostgresRateLimits(server),
        aclose=server.aclose,
    )


def _number(url: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        raise StoreUrlError(f"{without_password(url)!r}: {name} is not a number")
    return int(text)
