"""The tables and functions of the store in PostgreSQL, in a schema of their own, and how they come to be there.

The first process that finds them missing, or older than this release, makes them in one transaction under an advisory
lock; the others wait for it. `MIGRATIONS` is the history: each entry is run once, and the number of those that were run
is in the table ``meta``. Entries only add, and a function whose arguments or meaning change gets a new name: during an
update processes of the older release work beside those of the newer one.

Every row has an expiry, which is indexed. Times are seconds since the epoch by ``now_s()``, the clock of PostgreSQL at
the start of the transaction, and of no process. Keys are digests: so they have one length, may have been any text, and
ids of sessions cannot be read from the tables.

The tables ``messages``, ``cache``, ``cache_groups`` and ``rates`` are not in PostgreSQL's log: nothing in them needs to
survive its crash, and a write does not wait for the disk.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

__all__ = ["MIGRATIONS", "RESERVED", "advisory_key", "prepare"]

RESERVED: Final = frozenset(
    [
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "both",
        "case",
        "cast",
        "check",
        "collate",
        "column",
        "constraint",
        "create",
        "current_catalog",
        "current_date",
        "current_role",
        "current_time",
        "current_timestamp",
        "current_user",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "false",
        "fetch",
        "for",
        "foreign",
        "from",
        "grant",
        "group",
        "having",
        "in",
        "initially",
        "intersect",
        "into",
        "lateral",
        "leading",
        "limit",
        "localtime",
        "localtimestamp",
        "not",
        "null",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "placing",
        "primary",
        "references",
        "returning",
        "select",
        "session_user",
        "some",
        "symmetric",
        "system_user",
        "table",
        "then",
        "to",
        "trailing",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "variadic",
        "when",
        "where",
        "window",
        "with",
        "authorization",
        "binary",
        "collation",
        "concurrently",
        "cross",
        "current_schema",
        "freeze",
        "full",
        "ilike",
        "inner",
        "is",
        "isnull",
        "join",
        "left",
        "like",
        "natural",
        "notnull",
        "outer",
        "overlaps",
        "right",
        "similar",
        "tablesample",
        "verbose",
    ]
)
"""Key words that cannot be the name of a schema without quotes (PostgreSQL, appendix C)."""

_FIRST: Final = """
CREATE FUNCTION {schema}.now_s() RETURNS float8 LANGUAGE sql STABLE PARALLEL SAFE
  AS 'SELECT extract(epoch FROM now())::float8';

CREATE TABLE {schema}.marks (
  key bytea PRIMARY KEY, expires_at float8 NOT NULL, claim bytea NOT NULL, value bytea
);
CREATE INDEX marks_expiry ON {schema}.marks (expires_at);

CREATE TABLE {schema}.blobs (key bytea PRIMARY KEY, expires_at float8 NOT NULL, value bytea NOT NULL);
CREATE INDEX blobs_expiry ON {schema}.blobs (expires_at);

CREATE TABLE {schema}.sessions (key bytea PRIMARY KEY, expires_at float8 NOT NULL, value bytea NOT NULL);
CREATE INDEX sessions_expiry ON {schema}.sessions (expires_at);

CREATE TABLE {schema}.events (
  session bytea NOT NULL, stream bytea NOT NULL, number bigint NOT NULL, expires_at float8 NOT NULL,
  data bytea NOT NULL, PRIMARY KEY (session, stream, number)
);
CREATE INDEX events_expiry ON {schema}.events (expires_at);

CREATE UNLOGGED TABLE {schema}.messages (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, expires_at float8 NOT NULL, message bytea NOT NULL
);
CREATE INDEX messages_expiry ON {schema}.messages (expires_at);

CREATE UNLOGGED TABLE {schema}.cache_groups (
  name bytea PRIMARY KEY, expires_at float8 NOT NULL, era bytea NOT NULL
);
CREATE INDEX cache_groups_expiry ON {schema}.cache_groups (expires_at);
CREATE UNLOGGED TABLE {schema}.cache (
  name bytea NOT NULL, key bytea NOT NULL, expires_at float8 NOT NULL, era bytea NOT NULL, size integer NOT NULL,
  value bytea NOT NULL, PRIMARY KEY (name, key)
);
CREATE INDEX cache_expiry ON {schema}.cache (expires_at);

CREATE UNLOGGED TABLE {schema}.rates (key bytea PRIMARY KEY, expires_at float8 NOT NULL);
CREATE INDEX rates_expiry ON {schema}.rates (expires_at);

CREATE TABLE {schema}.tasks (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key bytea NOT NULL UNIQUE, task_id bytea NOT NULL,
  owner_key bytea NOT NULL, owner bytea NOT NULL, version integer NOT NULL, created_at float8 NOT NULL,
  expires_at float8 NOT NULL, leased_until float8, body bytea NOT NULL
);
CREATE INDEX tasks_owner ON {schema}.tasks (owner_key, number) WHERE owner <> '';
CREATE INDEX tasks_expiry ON {schema}.tasks (expires_at);
CREATE INDEX tasks_lease ON {schema}.tasks (leased_until) WHERE leased_until IS NOT NULL;

-- The number of records of each owner, and of all under the empty key. A transaction that adds or removes a record, and
-- changes these rows, locks the row of all first: so bounds are exact, and no two transactions wait for each other.
CREATE TABLE {schema}.task_counts (owner_key bytea PRIMARY KEY, tasks bigint NOT NULL);
INSERT INTO {schema}.task_counts VALUES ('', 0);

CREATE FUNCTION {schema}.count_added_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}.task_counts SET tasks = tasks + (SELECT count(*) FROM added) WHERE owner_key = '';
  INSERT INTO {schema}.task_counts AS counts
    SELECT owner_key, count(*) FROM added WHERE owner <> '' GROUP BY owner_key
    ON CONFLICT (owner_key) DO UPDATE SET tasks = counts.tasks + excluded.tasks;
  RETURN NULL;
END $$;
CREATE TRIGGER count_added AFTER INSERT ON {schema}.tasks REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_added_tasks();

CREATE FUNCTION {schema}.count_deleted_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {schema}.task_counts SET tasks = tasks - (SELECT count(*) FROM deleted) WHERE owner_key = '';
  UPDATE {schema}.task_counts AS counts SET tasks = counts.tasks - gone.tasks
    FROM (SELECT owner_key, count(*) AS tasks FROM deleted WHERE owner <> '' GROUP BY owner_key) AS gone
    WHERE counts.owner_key = gone.owner_key;
  DELETE FROM {schema}.task_counts AS counts USING deleted
    WHERE counts.owner_key = deleted.owner_key AND counts.owner_key <> '' AND counts.tasks <= 0;
  RETURN NULL;
END $$;
CREATE TRIGGER count_deleted AFTER DELETE ON {schema}.tasks REFERENCING OLD TABLE AS deleted
  FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_deleted_tasks();

-- outcome: 0 stored, or the same record is there; 1 too many of all; 2 too many of the owner; 3 another record.
CREATE FUNCTION {schema}.add_task(
  new_key bytea, new_id bytea, new_owner_key bytea, new_owner bytea, new_created float8, life_s float8, lease_s float8,
  new_body bytea, max_all bigint, max_owner bigint, OUT outcome integer, OUT expires float8
) LANGUAGE plpgsql AS $$
DECLARE
  moment float8 := {schema}.now_s();
  known {schema}.tasks%ROWTYPE;
  others bigint;
BEGIN
  expires := moment + life_s;
  SELECT tasks INTO others FROM {schema}.task_counts WHERE owner_key = '' FOR UPDATE;
  SELECT * INTO known FROM {schema}.tasks WHERE key = new_key;
  IF FOUND AND known.expires_at > moment THEN
    expires := known.expires_at;
    outcome := CASE WHEN known.version = 1 AND known.owner = new_owner AND known.created_at = new_created
      AND known.body = new_body THEN 0 ELSE 3 END;
    RETURN;
  END IF;
  -- Counts include expired records that were not deleted yet, so that most calls delete nothing.
  IF others >= max_all OR FOUND THEN
    DELETE FROM {schema}.tasks WHERE expires_at <= moment;
    SELECT tasks INTO others FROM {schema}.task_counts WHERE owner_key = '';
  END IF;
  IF others >= max_all THEN outcome := 1; RETURN; END IF;
  IF new_owner <> '' THEN
    SELECT tasks INTO others FROM {schema}.task_counts WHERE owner_key = new_owner_key;
    IF others >= max_owner THEN
      DELETE FROM {schema}.tasks WHERE owner_key = new_owner_key AND owner <> '' AND expires_at <= moment;
      SELECT tasks INTO others FROM {schema}.task_counts WHERE owner_key = new_owner_key;
    END IF;
    IF coalesce(others, 0) >= max_owner THEN outcome := 2; RETURN; END IF;
  END IF;
  IF life_s > 0 THEN
    INSERT INTO {schema}.tasks
      (key, task_id, owner_key, owner, version, created_at, expires_at, leased_until, body)
      VALUES (new_key, new_id, new_owner_key, new_owner, 1, new_created, expires, moment + lease_s, new_body);
  END IF;
  outcome := 0;
END $$;

-- The first number of a stream is the current time, or above the numbers of the session's other streams. So a stream
-- that was deleted and continues gets new ids: an old id then finds nothing, instead of the wrong event.
CREATE FUNCTION {schema}.append_event(
  of_session bytea, of_stream bytea, new_data bytea, ttl_s float8, max_events integer, max_streams integer,
  session_lock bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  moment float8 := {schema}.now_s();
  latest bigint;
  new_number bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(session_lock);
  SELECT max(number) INTO latest FROM {schema}.events WHERE session = of_session AND stream = of_stream;
  new_number := latest + 1;
  IF latest IS NULL THEN
    SELECT greatest(floor(moment * 1000)::bigint, coalesce(max(number), 0) + 1) INTO new_number
      FROM {schema}.events WHERE session = of_session;
    DELETE FROM {schema}.events WHERE session = of_session AND stream IN (
      SELECT stream FROM {schema}.events WHERE session = of_session GROUP BY stream
      ORDER BY max(expires_at) DESC, max(number) DESC OFFSET max_streams - 1);
  END IF;
  INSERT INTO {schema}.events VALUES (of_session, of_stream, new_number, moment + ttl_s, new_data);
  DELETE FROM {schema}.events
    WHERE session = of_session AND stream = of_stream AND number <= new_number - max_events;
  RETURN new_number;
END $$;

-- Returns the seconds to wait, 0 if the tokens were taken; see `ferrule.stores.rates.next_full_at`.
CREATE FUNCTION {schema}.take_tokens(
  of_key bytea, size integer, per_s float8, tokens integer, anyway boolean
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  moment float8 := {schema}.now_s();
  stored float8;
  full_at float8;
  taken float8;
BEGIN
  LOOP
    SELECT expires_at INTO stored FROM {schema}.rates WHERE key = of_key FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO {schema}.rates VALUES (of_key, moment) ON CONFLICT DO NOTHING;
  END LOOP;
  full_at := least(stored, moment + per_s);
  taken := greatest(full_at, moment) + tokens * per_s / size;
  IF anyway THEN taken := least(taken, moment + per_s); END IF;
  IF taken - moment - per_s <= 1e-6 THEN
    UPDATE {schema}.rates SET expires_at = taken WHERE key = of_key;
    RETURN 0;
  END IF;
  -- A refused request changes nothing, so that a flood of them does not write; except after the clock was set back.
  IF full_at < stored THEN UPDATE {schema}.rates SET expires_at = full_at WHERE key = of_key; END IF;
  RETURN taken - moment - per_s;
END $$;

-- Deletes expired rows, of each table a bounded number, unless a process did so in the last `every_s` seconds. Returns
-- whether there may be more. The tasks come last: see `task_counts`.
CREATE FUNCTION {schema}.sweep(every_s float8, batch integer, max_cache_bytes bigint, max_cache_rows bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  moment float8 := {schema}.now_s();
  kind text;
  gone bigint;
  most bigint := 0;
  extra_bytes bigint;
  extra_rows bigint;
BEGIN
  PERFORM FROM {schema}.meta WHERE swept_at <= moment - every_s FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE {schema}.meta SET swept_at = moment;
  FOREACH kind IN ARRAY ARRAY[
    'marks', 'blobs', 'sessions', 'events', 'messages', 'cache', 'cache_groups', 'rates', 'tasks'
  ] LOOP
    IF kind = 'tasks' THEN PERFORM FROM {schema}.task_counts WHERE owner_key = '' FOR UPDATE; END IF;
    EXECUTE format('DELETE FROM {schema}.%I WHERE ctid = ANY(ARRAY(SELECT ctid FROM {schema}.%I '
      'WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))', kind, kind) USING moment, batch;
    GET DIAGNOSTICS gone = ROW_COUNT;
    most := greatest(most, gone);
  END LOOP;
  SELECT coalesce(sum(size), 0) - max_cache_bytes, count(*) - max_cache_rows INTO extra_bytes, extra_rows
    FROM {schema}.cache;
  IF extra_bytes > 0 OR extra_rows > 0 THEN
    DELETE FROM {schema}.cache WHERE ctid = ANY(ARRAY(
      SELECT place FROM (
        SELECT ctid AS place, row_number() OVER ages AS nth, sum(size) OVER ages - size AS bytes_before
        FROM {schema}.cache WINDOW ages AS (ORDER BY expires_at, name, key)
      ) AS oldest WHERE nth <= extra_rows OR bytes_before < extra_bytes LIMIT batch));
    GET DIAGNOSTICS gone = ROW_COUNT;
    most := greatest(most, gone);
  END IF;
  RETURN most >= batch;
END $$;
"""

# In place of `take_tokens`, whose numbers of tokens end at 2^31. Older processes still call that one.
_SECOND: Final = """
-- Returns the seconds to wait, 0 if the tokens were taken; see `ferrule.stores.rates.next_full_at`.
CREATE FUNCTION {schema}.spend_tokens(
  of_key bytea, size float8, per_s float8, tokens float8, anyway boolean
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  moment float8 := {schema}.now_s();
  stored float8;
  full_at float8;
  taken float8;
BEGIN
  LOOP
    SELECT expires_at INTO stored FROM {schema}.rates WHERE key = of_key FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO {schema}.rates VALUES (of_key, moment) ON CONFLICT DO NOTHING;
  END LOOP;
  full_at := least(stored, moment + per_s);
  taken := greatest(full_at, moment) + tokens * per_s / size;
  IF anyway THEN taken := least(taken, moment + per_s); END IF;
  IF taken - moment - per_s <= 1e-6 THEN
    UPDATE {schema}.rates SET expires_at = taken WHERE key = of_key;
    RETURN 0;
  END IF;
  -- A refused request changes nothing, so that a flood of them does not write; except after the clock was set back.
  IF full_at < stored THEN UPDATE {schema}.rates SET expires_at = full_at WHERE key = of_key; END IF;
  RETURN taken - moment - per_s;
END $$;
"""

MIGRATIONS: Final = (_FIRST, _SECOND)
"""What each version adds to the one before; ``{schema}`` stands for the name of the schema."""

_META: Final = """
CREATE TABLE IF NOT EXISTS {schema}.meta (
  id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL, swept_at float8 NOT NULL
);
INSERT INTO {schema}.meta VALUES (1, 0, 0) ON CONFLICT DO NOTHING;
"""


def advisory_key(*parts: bytes) -> int:
    """Return the number of the advisory lock for these parts; other programs use small numbers, or other digests."""
    return int.from_bytes(hashlib.sha256(b"ferrule\0" + b"\0".join(parts)).digest()[:8], "big", signed=True)


async def prepare(connection: Any, schema: str) -> None:
    """Make the tables and functions, or bring them to this version; do nothing if they are there.

    A newer version is left as it is: its migrations only add.

    Args:
        connection: a connection of asyncpg.
        schema: the name of the schema.

    Raises:
        asyncpg.PostgresError: the user may not create them.
    """
    if await _version(connection, schema) >= len(MIGRATIONS):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", advisory_key(schema.encode()))
        # Asked, because `CREATE SCHEMA IF NOT EXISTS` needs the privilege even where the schema exists.
        if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
            await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.execute(_META.replace("{schema}", schema))
        version: int = await connection.fetchval(f"SELECT version FROM {schema}.meta")
        for number, migration in enumerate(MIGRATIONS[version:], version + 1):
            await connection.execute(migration.replace("{schema}", schema))
            await connection.execute(f"UPDATE {schema}.meta SET version = $1", number)


async def _version(connection: Any, schema: str) -> int:
    """Return the version of the tables; 0 if there are none."""
    if await connection.fetchval("SELECT to_regclass($1) IS NULL", f"{schema}.meta"):
        return 0
    found: int = await connection.fetchval(f"SELECT version FROM {schema}.meta")
    return found
