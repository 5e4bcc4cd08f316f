"""Running a body that may ask questions: the code on the path of each call, and the choice of the era's engine.

A body that asks no questions costs one frame and one look-up. The engine (`Rounds`) of a call is made at its first
question or step, or before the body starts if the request has answers.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ferrule.app.rounds.body import CallBody
from ferrule.kernel.concurrency.cancellation import take_back_left_over
from ferrule.kernel.server import ServerRequestContext

if TYPE_CHECKING:
    from ferrule.app.rounds.base import Rounds
    from ferrule.kernel.session import ServerSession

__all__ = ["adopt_running_body", "hand_over_body", "rounds_of", "run_body"]


async def run_body(
    request: ServerRequestContext[Any], function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]
) -> Any:
    """Call a function and return its result, or the input requests of this round.

    Raises:
        StateRefused: the request has a state that is invalid, expired or used, or belongs to another call.
        Exception: any exception of the function.
    """
    session = request.session
    body: CallBody | None = session.body
    if body is not None and not body.is_handed_over:  # a tool that another tool calls, or the body of a task
        value = await (_call_nested(session, body.rounds, function, kwargs) if body.rounds else function(**kwargs))
        # By an attribute and not by the class: otherwise each server would import `InputRequired`, which few use.
        if getattr(value, "is_input_required", False) and body.rounds is not None:
            return await body.rounds.ask_manually(value, function, kwargs)
        return value
    if body is None:
        body = session.body = CallBody(None)
    else:
        body.is_handed_over = False
    try:
        # The task is recorded even if the body never asks: an engine that is made later must know which task to cancel.
        # Not in a local variable, which a traceback in the task's result would reference: a reference cycle.
        body.task = _current_task(session.loop)
    except RuntimeError:  # no asyncio here
        body.task = None
    if session.connection.revision.has_rounds:
        params = request.params
        # Before the body runs: an invalid state must be refused without running anything.
        if params.request_state is not None or params.input_responses is not None:
            await _resume(request, body)
    try:
        value = await function(**kwargs)
    except Exception as error:
        if body.rounds is None:
            body.task, body.has_ended = None, True
            raise
        try:
            return await body.rounds.settle_error(error)
        finally:
            _end_call(body)
    except BaseException as error:
        return await _exited(session, body, error)
    # By the attribute, as above.
    if body.rounds is not None or getattr(value, "is_input_required", False):
        return await _settled(request, body, function, kwargs, value)
    body.task, body.has_ended = None, True
    return value


async def _settled(
    request: ServerRequestContext[Any],
    body: CallBody,
    function: Callable[..., Awaitable[Any]],
    kwargs: dict[str, Any],
    value: Any,
) -> Any:
    """Return the result of a body that has asked questions, or that returns them."""
    try:
        if body.rounds is not None:
            value = await body.rounds.settle(value)
        if getattr(value, "is_input_required", False):  # by name: importing `InputRequired` costs every server
            from ferrule.app.rounds.manual import answer_manually

            return await answer_manually(request, value, function, kwargs)
        return value
    finally:
        _end_call(body)


def _end_call(body: CallBody) -> None:
    """Mark the call as ended, and break the reference cycle between its engine and its request."""
    body.task, body.has_ended = None, True
    rounds = body.rounds
    if rounds is not None:
        # After the result is settled: the engine needs the request until then.
        rounds.break_cycle()
        if not rounds.suspending:  # otherwise threads and tasks of the body may still run, and use the engine
            body.rounds = None


def adopt_running_body(session: ServerSession, task: Any, *, is_over: bool) -> None:
    """Allow questions and steps in a body that was not started by `run_body`, and is running or has ended.

    `run_body` may still be called for it, from the same task, after `hand_over_body`.

    Args:
        session: the session of the body's request.
        task: runs the body; ``None`` for the current task.
        is_over: whether the body has ended.
    """
    session.body = CallBody(None if is_over else task or _current_task(session.loop), has_ended=is_over)


def hand_over_body(session: ServerSession) -> None:
    """Let the next `run_body` continue an adopted body, instead of calling its function as a part of that body."""
    session.body.is_handed_over = True


async def _exited(session: ServerSession, body: CallBody, error: BaseException) -> Any:
    """Handle a ``BaseException`` of the body: it may end the round (a result), cancel the request, or be a failure."""
    try:
        if body.rounds is not None:
            return await body.rounds.settle_error(error)
        raise error
    except Exception:
        raise
    except BaseException as left:
        take_back_left_over(session.interruptible)
        raise session.failure_of(left)  # noqa: B904 - it has its cause
    finally:
        _end_call(body)
        del error  # its traceback holds this frame


async def _call_nested(
    session: ServerSession, rounds: Rounds, function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]
) -> Any:
    """Call a function within a call whose engine exists: the body of a task, or a tool that another tool calls.

    An exception is raised in the calling tool, a ``BaseException`` as a failure.
    """
    if not rounds.enter():
        return await function(**kwargs)
    try:
        return await function(**kwargs)
    except Exception:
        raise
    except BaseException as error:
        raise session.failure_of(error)  # noqa: B904 - it has its cause


def rounds_of(request: ServerRequestContext[Any]) -> Rounds:
    """Return the engine of a call; made on first use.

    Raises:
        NotSupportedHere: the request is not a call of a tool, prompt or resource, or the call has ended.
    """
    session = request.session
    body: CallBody | None = session.body
    if body is None:
        from ferrule.app.rounds.errors import NotSupportedHere

        raise NotSupportedHere(f"{request.method} has no questions and steps: only tools, prompts and resources do")
    if body.rounds is None:
        if body.has_ended:
            from ferrule.app.rounds.errors import NotSupportedHere

            raise NotSupportedHere("A question or step after the call has ended; await the tasks that you start")
        from ferrule.app.rounds.settings import settings_of

        settings = settings_of(request.server)
        task = body.task
        if task is None and session.interruptible is not None:
            task = session.interruptible.task  # of a body that was begun without an event loop
        if not session.connection.revision.has_rounds:
            from ferrule.app.rounds.base import PushRounds

            body.rounds = PushRounds(request, settings, PushRounds.new_journal(settings))
        elif task is None:
            from ferrule.app.rounds.manual import ManualRounds

            body.rounds = ManualRounds(request, settings, ManualRounds.new_journal(settings))
        else:
            from ferrule.app.rounds.replay import ReplayRounds

            body.rounds = ReplayRounds(request, settings, ReplayRounds.new_journal(settings), task)
    return body.rounds


async def _resume(request: ServerRequestContext[Any], body: CallBody) -> None:
    """Make the engine of a call that continues after an earlier round; for errors see `run_body`."""
    from ferrule.app.rounds.settings import settings_of

    settings = settings_of(request.server)
    if body.task is not None:
        from ferrule.app.rounds.replay import ReplayRounds

        body.rounds = await ReplayRounds.resume(request, settings, body.task)
        return
    from ferrule.app.rounds.manual import ManualRounds
    from ferrule.app.rounds.state import open_state

    state = request.params.request_state
    journal = ManualRounds.new_journal(settings) if state is None else await open_state(request, settings, state)
    body.rounds = ManualRounds(request, settings, journal)


def _find_current_task(loop: Any) -> Any:
    """Return the current task; replace `_current_task` with asyncio's function, if asyncio is imported."""
    # Replaced at the first use and not imported above: a server on trio does not load asyncio. The direct use of
    # asyncio's function saves a call in each request.
    global _current_task
    asyncio_module = sys.modules.get("asyncio")
    if asyncio_module is None:
        return None
    _current_task = asyncio_module.current_task
    return _current_task(loop)


_current_task: Callable[[Any], Any] = _find_current_task
