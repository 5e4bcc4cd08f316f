"""Passes plain calls through the middleware of their server; see `ferrule.kernel.fast_path.fast_middleware`.

Imported only by servers with middleware and by the modules that serve plain calls, so that other starts load less.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, cast

from msgspec import Raw

from ferrule.kernel.concurrency.first_step import StartedCoroutine
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware
from ferrule.kernel.fast_path.fast_tools import FastCall, FastTool, WriteResult
from ferrule.kernel.server import (
    CallNext,
    Handler,
    HandlerEntry,
    Server,
    ServerMiddleware,
    ServerRequestContext,
)
from ferrule.kernel.serving.request_steps import handled
from ferrule.wire.revisions import Revision

__all__ = ["Passage", "PassingTools", "rest_of"]


_MAX_KEPT: Final = 1024
"""The most tools that are kept with the middleware around them, some of which may have been removed since."""

_FAST: Final = frozenset({"admits_fast", "enter_fast", "leave_fast", "resume_fast"})


def _may_be_passed(middleware: ServerMiddleware[Any]) -> bool:
    """Return whether the class that defines the middleware's ``__call__`` also defines methods of `FastMiddleware`."""
    if not isinstance(middleware, FastMiddleware):
        return False
    # A subclass that overrides `__call__` alone does something that the methods of the fast path do not know.
    return next(not _FAST.isdisjoint(vars(cls)) for cls in type(middleware).__mro__ if "__call__" in vars(cls))


class PassingTools:
    """Finds the tools of a server that has middleware.

    Args:
        server: the server; its list of middleware may change at any time.
    """

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._middleware: list[ServerMiddleware[Any]] = []
        self._may_be_passed = True
        self._tools: dict[int, PassingTool] = {}

    def find(self, tool: FastTool) -> FastTool | None:
        """Return ``tool`` with the middleware around it; ``None`` if the general path must serve its calls."""
        middleware = self._server.middleware
        if middleware != self._middleware:
            self._middleware = list(middleware)
            self._may_be_passed = all(map(_may_be_passed, middleware))
            self._tools.clear()
        if not self._may_be_passed:
            return None
        found: Any = self._tools.get(id(tool))  # some of its methods are attributes
        # The id of a tool that was removed may be that of a new one.
        if found is None or found.tool is not tool:
            if len(self._tools) >= _MAX_KEPT:
                self._tools.clear()
            found = self._tools[id(tool)] = PassingTool(tool, self._middleware)
        return cast("FastTool", found)


class PassingTool:
    """A tool whose calls pass through middleware; see `FastTool`.

    Args:
        tool: the tool itself.
        middleware: the server's middleware, outermost first.
    """

    __slots__ = ("_middleware", "decode", "leave", "name", "request_of", "tool", "writers")

    waits_plainly: ClassVar[bool] = False

    def __init__(self, tool: FastTool, middleware: list[Any]) -> None:
        self.tool = tool
        self.name = tool.name
        self.decode: Callable[[bytes | Raw], Any] = tool.decode
        self.leave = tool.leave
        self.request_of = tool.request_of
        self.writers = tool.writers
        self._middleware: list[FastMiddleware] = middleware

    def admits(self, call: FastCall, /) -> bool:
        """See `FastTool`."""
        return all(middleware.admits_fast(call) for middleware in self._middleware)

    def start(self, call: FastCall, /) -> Coroutine[Any, Any, Any]:
        """See `FastTool`."""
        passage = call.passage = Passage()
        passage.enter(call, self._middleware)
        return self.tool.start(call)

    def make_writer(self, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
        """See `FastTool`."""
        return self.tool.make_writer(revision, finish)

    def go_on(self, call: FastCall, begun: StartedCoroutine) -> Handler:
        """See `FastTool`."""
        return self.tool.go_on(call, begun)


class Passage:
    """The middleware that one plain call has entered.

    Attributes:
        failure: the exception that a middleware has raised; ``None`` without one.
    """

    __slots__ = ("_entered", "failure")

    def __init__(self) -> None:
        self._entered: list[tuple[FastMiddleware, Any]] = []
        self.failure: BaseException | None = None

    def enter(self, call: FastCall, middleware: list[FastMiddleware]) -> None:
        """Call ``enter_fast`` of each middleware, the outermost first.

        Raises:
            BaseException: the exception of a middleware; it is kept in `failure`.
        """
        try:
            for each in middleware:
                self._entered.append((each, each.enter_fast(call)))
        except BaseException as error:
            self.failure = error
            raise

    def leave(self, call: FastCall) -> bool:
        """Call ``leave_fast`` of each entered middleware, the innermost first, after a plain value.

        Returns:
            Whether none raised; otherwise the general path must answer with `failure`.
        """
        call.tool.leave(call)
        entered = self._entered
        try:
            while entered:
                each, kept = entered.pop()
                each.leave_fast(call, kept)
        except BaseException as error:
            self.failure = error
            return False
        return True

    async def resume(self, call: FastCall, request: ServerRequestContext[Any], work: Coroutine[Any, Any, Any]) -> Any:
        """Return the finished result of a call that the general path took over, through the entered middleware.

        Args:
            call: the call.
            request: its request context, with typed params.
            work: returns the finished result of the handler.

        Raises:
            Exception: any exception of the handler or of a middleware.
        """

        async def innermost(_: ServerRequestContext[Any]) -> Any:
            if self.failure is None:
                return await work
            work.close()
            try:
                raise self.failure
            finally:
                self.failure = None  # its traceback holds this frame

        call_next: CallNext = innermost
        for each, kept in reversed(self._entered):
            call_next = partial(_resume, each, kept, call_next)
        try:
            return await call_next(replace(request, params=call.carrier.params_of(call)))
        except Exception:
            raise
        except BaseException as error:  # a middleware may raise a `BaseException` too
            raise request.session.failure_of(error)  # noqa: B904 - it has its cause


def _resume(
    middleware: FastMiddleware, kept: Any, call_next: CallNext, ctx: ServerRequestContext[Any]
) -> Awaitable[Any]:
    return middleware.resume_fast(ctx, call_next, kept)


def rest_of(call: FastCall, begun: StartedCoroutine, entry: HandlerEntry) -> Awaitable[Any]:
    """Return an awaitable that finishes a call on the general path and returns the finished result.

    Args:
        call: the call; its request is made now, if code has not read it before.
        begun: the function's started coroutine.
        entry: the registered handler of the method.
    """
    tool = call.tool
    request = tool.request_of(call)
    work = handled(entry, tool.go_on(call, begun), request)
    return work if call.passage is None else call.passage.resume(call, request, work)
