"""Functions of a Django server: in which thread they run, with which database connections, in which transaction.

Under WSGI the thread of the request runs them while it waits for the answer, so they have its connections, and a test
case its transaction. That holds for sync functions, and for what async ones run with ``sync_to_async`` and the ORM's
async methods. Elsewhere a worker thread runs sync functions, and connections are checked and closed there as Django
does at both ends of a request. What a sync function calls in this server (``ctx.from_thread``) runs in its own thread.

With ``ATOMIC_REQUESTS`` a sync function runs in a transaction. No transaction waits for a person: when the function
asks a question, what it has written is committed, and a new transaction begins after the answer. A question inside a
``transaction.atomic()`` of the function is refused.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, transaction

from ferrule.app.execution.threads import WorkerJob
from ferrule.app.rounds.errors import NotSupportedHere
from ferrule.transports.loop_thread import HostThread, host_thread

__all__ = [
    "close_connections",
    "greenlets_in_place_of_threads",
    "in_request_thread",
    "with_own_thread",
    "with_request_thread",
    "without_open_transactions",
    "without_transaction",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def without_transaction(function: F) -> F:
    """Decorate a function that `in_request_thread` runs in no transaction."""
    cast("Any", function).has_transactions = True
    return function


def in_request_thread(job: WorkerJob) -> bool:
    """Run a job in the thread that waits for the request, if it is free; otherwise prepare it for a worker thread.

    With ``ATOMIC_REQUESTS`` the function runs in a transaction, as a view does.
    """
    aliases = [] if getattr(job.function, "has_transactions", False) else _atomic_aliases()  # a mark, see above
    function = job.function = partial(_call, job.function, aliases, job.future)
    job.lend = _LentThread
    host = host_thread.get()
    if host is not None:
        if host.offer(job):
            return True
    else:
        waiting = cast("Any", AsyncToSync).loop_thread_executors.get(job.outcomes.loop)
        if waiting is not None:  # a thread waits in `async_to_sync`, as of an async test
            waiting.submit(_run, job)
            return True
    job.function = partial(_with_connections, function)
    return False


def _run(job: WorkerJob) -> None:
    job.deliver(*job.run())


def _atomic_aliases() -> list[str]:
    return [alias for alias, settings in connections.settings.items() if settings["ATOMIC_REQUESTS"]]


def _with_connections(function: Callable[..., Any], /, **kwargs: Any) -> Any:
    close_old_connections()
    try:
        return function(**kwargs)
    finally:
        close_old_connections()


def close_connections() -> None:
    """Close the connections of this thread, which ends."""
    connections.close_all()


# -- transactions ----------------------------------------------------------------------------------------------------


class _Functions(threading.local):
    """The functions that run in a thread: the outer one waits for the inner one."""

    def __init__(self) -> None:
        self.running: list[_Function] = []


_functions = _Functions()


class _Function:
    """A running function, and its transactions.

    Args:
        aliases: databases that it has a transaction of.
    """

    def __init__(self, aliases: list[str]) -> None:
        self._aliases = aliases
        self._open: ExitStack | None = None
        self._before = _open_blocks()

    def begin(self) -> None:
        if self._aliases:
            self._open = ExitStack()
            for alias in self._aliases:
                self._open.enter_context(transaction.atomic(using=alias))

    def end(self, *error: Any) -> None:
        if self._open is not None:
            self._open.__exit__(*(error or (None, None, None)))

    def has_block_of_its_own(self, running: list[_Function]) -> bool:
        """Return whether it has entered a ``transaction.atomic()``, besides those of ``running``, itself included."""
        known = dict(self._before)
        for each in running:
            for alias in each._aliases:
                known[alias] = known.get(alias, 0) + 1
        return any(count > known.get(alias, 0) for alias, count in _open_blocks().items())


def _open_blocks() -> dict[str, int]:
    """Return the number of ``transaction.atomic()`` around this place, by the alias of the database."""
    used: Any = connections.all(initialized_only=True)
    return {each.alias: len(each.atomic_blocks) for each in used}


def _call(function: Callable[..., Any], aliases: list[str], waiter: Any, /, **kwargs: Any) -> Any:
    running = _Function(aliases)
    running.begin()
    _functions.running.append(running)
    try:
        result = function(**kwargs)
        if waiter.cancelled():  # the caller knows by now that the call was cancelled or has timed out
            for alias in aliases:
                transaction.set_rollback(True, using=alias)
    except BaseException as error:
        running.end(type(error), error, error.__traceback__)
        raise
    else:
        running.end()
        return result
    finally:
        _functions.running.remove(running)


class _LentThread(HostThread):
    """The thread of a sync function that waits for the event loop.

    Attributes:
        is_in_transaction: the function is inside a ``transaction.atomic()`` of its own.
        questions: number of questions that wait for their answers; the functions have no transactions meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()
        running = _functions.running
        self.is_in_transaction = any(each.has_block_of_its_own(running[at:]) for at, each in enumerate(running))
        self.questions = 0

    def run(self, start: Callable[[], Future[T]]) -> T:
        """See `HostThread.run`; the function goes on in a transaction also when a question has failed."""
        try:
            return super().run(start)
        finally:
            if self.questions:
                self.questions = 0
                _begin_all()


@asynccontextmanager
async def without_open_transactions(what: str) -> AsyncGenerator[None]:
    """End the transactions of the sync function that asks, and begin new ones after the answer.

    In between the store writes what carries the question to the client. In an open transaction, that would hold the
    lock of SQLite until the answer, which other processes then could not pass on; on PostgreSQL they would not see it.

    Args:
        what: the method of the question.

    Raises:
        NotSupportedHere: the function is inside a ``transaction.atomic()`` of its own.
    """
    host = host_thread.get()
    if not isinstance(host, _LentThread):
        yield
        return
    if host.is_in_transaction:
        raise NotSupportedHere(f"{what} inside transaction.atomic(), which would wait for a person; ask before it")
    await _in_lent_thread(host, _end_for_question)
    try:
        yield
    except Exception:
        await _in_lent_thread(host, _begin_after_question)
        raise
    await _in_lent_thread(host, _begin_after_question)  # after a cancellation the thread does it (`_LentThread.run`)


async def _in_lent_thread(host: _LentThread, function: Callable[[_LentThread], None]) -> None:
    call = _SyncCall(partial(function, host))
    if host.offer(call, may_wait=True):
        await asyncio.wrap_future(call.future)


def _end_for_question(host: _LentThread) -> None:
    host.questions += 1
    if host.questions == 1:
        try:
            for each in reversed(_functions.running):
                each.end()
        except BaseException:  # the commit has failed
            host.questions = 0
            _begin_all()
            raise


def _begin_after_question(host: _LentThread) -> None:
    if host.questions:
        host.questions -= 1
        if not host.questions:
            _begin_all()


def _begin_all() -> None:
    for each in _functions.running:
        each.begin()


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    with suppress(InvalidStateError):  # cancelled meanwhile
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


# -- async functions -------------------------------------------------------------------------------------------------


class _RequestThread(Executor):
    """Runs what async functions of a request under WSGI pass to ``sync_to_async``: in the thread of the request."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        call = _SyncCall(partial(fn, *args, **kwargs))
        host = host_thread.get()
        if host is None or not host.offer(call, may_wait=True):  # a task that has outlived its request
            SyncToAsync.single_thread_executor.submit(_alone, call)
        return call.future


class _SyncCall:
    def __init__(self, function: Callable[[], Any]) -> None:
        self.future: Future[Any] = Future()
        self._function = function

    def run(self) -> tuple[Any, BaseException | None]:
        if not self.future.set_running_or_notify_cancel():
            return None, None
        try:
            return self._function(), None
        except BaseException as error:
            return None, error

    def deliver(self, result: Any, error: BaseException | None) -> None:
        _settle(self.future, result, error)


def _alone(call: _SyncCall) -> None:
    close_old_connections()
    outcome = call.run()
    close_old_connections()
    call.deliver(*outcome)


_wsgi_context = ThreadSensitiveContext()
_executors: Any = SyncToAsync.context_to_thread_executor
_executors[_wsgi_context] = _RequestThread()


def greenlets_in_place_of_threads() -> str | None:
    """Return the name of the library that has replaced threads by greenlets, as workers of gunicorn do; else ``None``.

    An event loop would then run beside all other code of the same thread, where Django refuses to use its database
    (`django.utils.asyncio.async_unsafe`).
    """
    for name, module, question, subject in (
        ("gevent", "gevent.monkey", "is_module_patched", "threading"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", "thread"),
    ):
        patcher = sys.modules.get(module)
        if patcher is not None and getattr(patcher, question)(subject):
            return name
    return None


def with_request_thread(function: Callable[[], Any]) -> Any:
    """Return the result of a function that waits for a request under WSGI as a `HostThread`."""
    context: Any = SyncToAsync.thread_sensitive_context
    token = context.set(_wsgi_context)
    try:
        return function()
    finally:
        context.reset(token)


async def with_own_thread(ctx: Any, call_next: Any) -> Any:
    """Serve a request; where no thread waits for it, its ``sync_to_async`` has a thread of its own. A middleware.

    Django gives each HTTP request one, but those of a legacy session are served in the context of its first one.
    """
    context: Any = SyncToAsync.thread_sensitive_context
    loops: Any = AsyncToSync
    if context.get(None) is _wsgi_context or asyncio.get_running_loop() in loops.loop_thread_executors:
        return await call_next(ctx)
    own = ThreadSensitiveContext()
    token = context.set(own)
    try:
        return await call_next(ctx)
    finally:
        try:
            if own in _executors:
                await sync_to_async(close_connections)()
                _executors.pop(own).shutdown(wait=False)
        finally:
            context.reset(token)
