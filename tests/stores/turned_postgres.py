"""A PostgreSQL store whose time the test turns, in a schema of its own.

The store asks one function of its schema for the time; here that function reads a table.
"""

from __future__ import annotations

import secrets
from typing import Any

from ferrule.stores.postgres.server import PostgresServer
from tests.stores.turned_redis import Clock


class TurnedPostgres(PostgresServer):
    """A store in a new schema.

    Args:
        url: of the PostgreSQL of the tests.
        clock: the time; `pass_time` tells the store.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url, schema=f"test_{secrets.token_hex(6)}", timeout_s=60)
        self.clock = clock

    async def open(self) -> None:
        """Make the schema, and its clock one that can be turned."""

        async def turn(connection: Any) -> None:
            await connection.execute(
                self.sql(
                    "CREATE TABLE {schema}.turned (now_s float8 NOT NULL); INSERT INTO {schema}.turned VALUES (0);"
                    "CREATE OR REPLACE FUNCTION {schema}.now_s() RETURNS float8 LANGUAGE sql STABLE "
                    "AS 'SELECT now_s FROM {schema}.turned'"
                )
            )

        await self.run(turn)
        await self.pass_time(0)

    async def pass_time(self, seconds: float) -> None:
        """Let the store have the time of the clock, which the caller has turned."""
        await self.value(self.sql("UPDATE {schema}.turned SET now_s = $1"), self.clock())

    async def drop(self) -> None:
        """Drop the schema, and close the connections."""
        await self.value(self.sql("DROP SCHEMA {schema} CASCADE"))
        await self.aclose()
