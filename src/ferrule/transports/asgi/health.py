"""Two documents for operators and load balancers: is the process alive, and may it be sent requests.

* Alive (``/healthz``): 200 as long as the event loop gets round to answering. It looks at nothing else, because a
  supervisor answers a failure by killing the process, which mends no store and no network.
* Ready (``/readyz``): 200 when the server's lifespan is entered, its store can be written to and read, and no shutdown
  has begun; else 503, and balancers send their requests elsewhere.

Both say one word and no reason: anybody may ask them. The log says the reason. Neither Host, nor Origin, nor a token
is looked at: a prober uses the address of a machine as its name and has no token, and a page that made its visitor's
browser ask could not read the answer, which carries no CORS headers.

Probes come often and from anywhere, so what they find out is kept for a second, and many at once share one look at
the store.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from ferrule.transports.asgi.request import IncomingRequest

__all__ = ["Health", "ReadyCheck"]

log = logging.getLogger("ferrule.http")

ReadyCheck = Callable[[], Awaitable[object]]
"""Returns when requests can be served; returns ``False``, or raises, when not."""

_KEPT_S: Final = 1.0
_CHECK_S: Final = 2.0
_HEADERS: Final = [(b"cache-control", b"no-store"), (b"content-type", b"application/json")]


class Health:
    """The health and readiness of one endpoint.

    Args:
        start: enters the server's lifespan unless it is entered.
        checks: asked one after the other, together `_CHECK_S` seconds at most.
        clock: monotonic seconds.

    Attributes:
        is_draining: a shutdown has begun; until the endpoint is started anew.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[object]],
        checks: tuple[ReadyCheck, ...],
        clock: Callable[[], float],
    ) -> None:
        self.is_draining = False
        self._start = start
        self._checks = checks
        self._clock = clock
        self._found: tuple[float, bool] | None = None
        self._looking: anyio.Event | None = None
        self._was_ready = True

    async def serve_alive(self, request: IncomingRequest) -> None:
        """Answer whether the process is alive."""
        await self._reply(request, True, "ok")

    async def serve_ready(self, request: IncomingRequest) -> None:
        """Answer whether requests may come."""
        if self.is_draining:
            await self._reply(request, False, "draining")
        elif await self.is_ready():
            await self._reply(request, True, "ready")
        else:
            await self._reply(request, False, "unavailable")

    async def is_ready(self) -> bool:
        """Return whether the server is started and its checks pass, as of a second ago at most."""
        while (found := self._found) is None or self._clock() - found[0] > _KEPT_S:
            if (looking := self._looking) is None:
                return await self._look()
            with anyio.move_on_after(2 * _CHECK_S) as scope:
                await looking.wait()
            if scope.cancelled_caught:  # who looked belongs to an event loop that is gone
                self._looking = None
        return found[1]

    async def _look(self) -> bool:
        looking = self._looking = anyio.Event()
        problem: object = f"no answer within {_CHECK_S:g} s"
        try:
            with anyio.move_on_after(_CHECK_S):
                problem = await self._problem()
        finally:
            if self._looking is looking:
                self._looking = None
            looking.set()
        is_ready = problem is None
        self._found = (self._clock(), is_ready)
        if is_ready is not self._was_ready:  # a probe a second must not fill the log
            self._was_ready = is_ready
            log.log(logging.INFO if is_ready else logging.WARNING, "ready" if is_ready else "not ready: %s", problem)
        return is_ready

    async def _problem(self) -> object:
        """What is wrong; ``None`` when nothing is."""
        try:
            await self._start()
            for check in self._checks:
                if await check() is False:
                    return "a check says no"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    async def _reply(self, request: IncomingRequest, is_good: bool, word: str) -> None:
        method = request.scope["method"]
        if method not in ("GET", "HEAD"):
            await request.reply_empty(405, [(b"allow", b"GET, HEAD")])
            return
        body = b'{"status":"%s"}' % word.encode()
        await request.send(
            {
                "type": "http.response.start",
                "status": 200 if is_good else 503,
                "headers": [*_HEADERS, (b"content-length", b"%d" % len(body))],
            }
        )
        await request.send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
