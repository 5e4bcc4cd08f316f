"""Liveness and readiness probes for operators and load balancers.

* Liveness (``/healthz``): 200 as long as the event loop can respond. Nothing else is checked, because a supervisor
  kills the process after a failure, which repairs neither store nor network.
* Readiness (``/readyz``): 200 if the server's lifespan has started, its store can be written and read, and no shutdown
  has begun; else 503, and load balancers use other instances.

The response is one word without a reason, because anyone may send a probe; the reason is logged. Host, Origin and token
are not checked: a prober uses an IP address as host and has no token, and a web page cannot read the response, which
has no CORS headers.

Probes are frequent and may come from anyone, so a result is cached for `_KEPT_S` seconds, and concurrent probes share
one check.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from ferrule.transports.asgi.request import IncomingRequest

__all__ = ["Health", "ReadyCheck"]

log = logging.getLogger("ferrule.http")

ReadyCheck = Callable[[], Awaitable[object]]
"""Returns ``False`` or raises if requests cannot be served; any other result means ready."""

# Shorter than the interval of usual probes (5 to 10 seconds).
_KEPT_S: Final = 1.0
# Below the time-outs of usual probers, so that they get a reason instead of nothing.
_CHECK_S: Final = 2.0
_HEADERS: Final = [(b"cache-control", b"no-store"), (b"content-type", b"application/json")]


class Health:
    """The health and readiness of one endpoint.

    Args:
        start: starts the server's lifespan unless it runs.
        checks: run one after the other, within `_CHECK_S` seconds together.
        clock: returns monotonic seconds.

    Attributes:
        is_draining: whether a shutdown has begun; reset when the endpoint starts again.
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
        self._checking: anyio.Event | None = None
        self._was_ready = True

    async def serve_alive(self, request: IncomingRequest) -> None:
        """Respond to a liveness probe."""
        await self._reply(request, True, "ok")

    async def serve_ready(self, request: IncomingRequest) -> None:
        """Respond to a readiness probe."""
        if self.is_draining:
            await self._reply(request, False, "draining")
        elif await self.is_ready():
            await self._reply(request, True, "ready")
        else:
            await self._reply(request, False, "unavailable")

    async def is_ready(self) -> bool:
        """Return whether the server has started and its checks pass; the result is `_KEPT_S` seconds old at most."""
        while (found := self._found) is None or self._clock() - found[0] > _KEPT_S:
            if (checking := self._checking) is None:
                return await self._check()
            with anyio.move_on_after(2 * _CHECK_S) as scope:
                await checking.wait()
            if scope.cancelled_caught:
                # The task that checks belongs to an event loop that was closed (serverless, tests).
                self._checking = None
        return found[1]

    async def _check(self) -> bool:
        checking = self._checking = anyio.Event()
        problem: object = f"no answer within {_CHECK_S:g} s"
        try:
            with anyio.move_on_after(_CHECK_S):
                problem = await self._problem()
        finally:
            # Another check may have begun after this one was given up.
            if self._checking is checking:
                self._checking = None
            checking.set()
        is_ready = problem is None
        self._found = (self._clock(), is_ready)
        if is_ready is not self._was_ready:  # only changes are logged: frequent probes must not fill the log
            self._was_ready = is_ready
            log.log(logging.INFO if is_ready else logging.WARNING, "ready" if is_ready else "not ready: %s", problem)
        return is_ready

    async def _problem(self) -> object:
        """Return why requests cannot be served; ``None`` if they can."""
        try:
            await self._start()
            for check in self._checks:
                if await check() is False:
                    return "a check returned False"
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
