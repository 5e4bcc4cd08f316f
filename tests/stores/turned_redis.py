"""A Redis whose time the test turns.

Its own clock cannot be changed. So scripts get the time as an argument, and when time passes, the expiry of every key
is moved nearer. The time that the test itself takes still counts: lifetimes in tests must be much longer.
"""

from __future__ import annotations

from typing import Any

from ferrule.stores.redis.server import RedisServer


class Clock:
    """Time, the same for all."""

    EPOCH_S = 1_700_000_000.0

    def __init__(self) -> None:
        self.now_s = self.EPOCH_S

    def __call__(self) -> float:
        return self.now_s


_TURNED = """
local turned_ms = %d
local real = redis.call
local redis = {call = function(command, ...)
  if command == 'TIME' then return {tostring(math.floor(turned_ms / 1000)), tostring((turned_ms %% 1000) * 1000)} end
  if command == 'PEXPIREAT' then
    local key, at = ...
    return real('PEXPIRE', key, string.format('%%.0f', at - turned_ms))
  end
  return real(command, ...)
end}
"""


class TurnedClient:
    """A client that passes the test's time to scripts."""

    def __init__(self, client: Any, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def eval(self, script: str, *arguments: Any) -> Any:
        return self._client.eval(_TURNED % round(self._clock() * 1000) + script, *arguments)


class TurnedServer(RedisServer):
    clock: Clock

    @property
    def client(self) -> Any:
        return TurnedClient(super().client, self.clock)

    async def pass_time(self, seconds: float) -> None:
        """Bring every key nearer to its end; all have one."""
        async for key in self.client.scan_iter(f"{self.prefix}:*"):
            left_ms = await self.client.pttl(key)
            assert left_ms != -1, f"{key} never expires"
            if left_ms <= seconds * 1000:
                await self.client.delete(key)
            else:
                await self.client.pexpire(key, left_ms - round(seconds * 1000))
