"""Running a body that may ask questions: the code on the path of each call, and the choice of the era's engine.

A body that asks no questions costs one frame and one look-up. The engine (`Rounds`) of a call is made at its first
question or step, or before the body starts if the request has answers.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.kernel.concurrency.cancellation import take_back_left_over
from ferrule.kernel.server import ServerRequestContext
from ferrule.kernel.session import BodyState

if TYPE_CHECKING:
    from ferrule.app.rounds.base import Rounds
    from ferrule.kernel.session import ServerSession

__all__ = ["attach_body", "rounds_of", "run_body"]

_NO_TASK: Final = BodyState.NO_TASK
_ENDED: Final = BodyState.ENDED


async def run_body(
    request: ServerRequestContext[Any], function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]
) -> Any:
    """Call a function and return its result, or the input requests of this round.

    Raises:
        StateRefused: the request has a state that is invalid, expired or used, or belongs to another call.
        Exception: any exception of the function.
    """
    session = request.session
    if session.body_task is not None:  # a tool called by a tool: part of the same call; or the body of a task
        value = await (_begun(session, function, kwargs) if session.rounds else function(**kwargs))
        # By a marker instead of the class: all servers would load the module of `InputRequired`, and few use it.
        if getattr(value, "is_input_required", False) and session.rounds is not None:
            return await session.rounds.ask_manually(value, function, kwargs)
        return value
    try:
        # The task is recorded even if the body never asks: an engine that is made later must know which task to cancel.
        session.body_task = _look(session.loop) or _NO_TASK
    except RuntimeError:  # no asyncio here
        session.body_task = _NO_TASK
    if session.connection.revision.has_rounds:
        params = request.params
        # Before the body runs: an invalid state must be refused without running anything.
        if params.request_state is not None or params.input_responses is not None:
            await _resume(request)
    try:
        value = await function(**kwargs)
    except Exception as error:
        if session.rounds is None:
            session.body_task = _ENDED
            raise
        try:
            return await session.rounds.settle_error(error)
        finally:
            _leave(session)
    except BaseException as error:
        return await _exited(session, error)
    # By a marker, as above.
    if session.rounds is not None or getattr(value, "is_input_required", False):
        return await _settled(request, function, kwargs, value)
    session.body_task = _ENDED
    return value


async def _settled(
    request: ServerRequestContext[Any], function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any], value: Any
) -> Any:
    """Return the result of a body that has asked questions, or that returns them."""
    session = request.session
    try:
        if session.rounds is not None:
            value = await session.rounds.settle(value)
        if getattr(value, "is_input_required", False):  # by name: importing `InputRequired` costs every server
            from ferrule.app.rounds.manual import answer_manually

            return await answer_manually(request, value, function, kwargs)
        return value
    finally:
        _leave(session)


def _leave(session: ServerSession) -> None:
    """Mark the call as ended, and break the reference cycle between its engine and its request."""
    session.body_task = _ENDED
    rounds = session.rounds
    if rounds is not None:
        # After the result is settled: the engine needs the request until then.
        rounds.let_go()
        if not rounds.suspending:  # if it is, threads and tasks of the body may go on, and look at this
            session.rounds = None


def attach_body(session: ServerSession, task: Any, *, is_over: bool) -> None:
    """Allow questions and steps in a body that was not started by `run_body`, and is running or has ended.

    `run_body` may still be called for it, from the same task.

    Args:
        session: the session of the body's request.
        task: runs the body; ``None`` for the current task.
        is_over: the body has ended.
    """
    session.body_task = _ENDED if is_over else task or _look(session.loop) or _NO_TASK


async def _exited(session: ServerSession, error: BaseException) -> Any:
    """Handle a ``BaseException`` of the body: it may end the round (a result), cancel the request, or be a failure."""
    try:
        if session.rounds is not None:
            return await session.rounds.settle_error(error)
        raise error
    except Exception:
        raise
    except BaseException as left:
        take_back_left_over(session.interruptible)
        raise session.failure_of(left)  # noqa: B904 - it has its cause
    finally:
        _leave(session)
        del error  # its traceback holds this frame


async def _begun(session: ServerSession, function: Callable[..., Awaitable[Any]], kwargs: dict[str, Any]) -> Any:
    """Call a function within a call whose engine exists: the body of a task, or a tool that another tool calls.

    An exception is raised in the calling tool, a ``BaseException`` as a failure.
    """
    if not session.rounds.enter():
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
    if session.rounds is None:
        if session.body_task is None:
            from ferrule.app.rounds.errors import NotSupportedHere

            raise NotSupportedHere(f"{request.method} has no questions and steps: only tools, prompts and resources do")
        if session.body_task is _ENDED:
            from ferrule.app.rounds.errors import NotSupportedHere

            raise NotSupportedHere("A question or step after the call has ended; await the tasks that you start")
        from ferrule.app.rounds.settings import settings_of

        settings = settings_of(request.server)
        if not session.connection.revision.has_rounds:
            from ferrule.app.rounds.base import PushRounds

            session.rounds = PushRounds(request, settings, PushRounds.new_journal(settings))
        elif (body_task := session.body_task) is _NO_TASK:
            from ferrule.app.rounds.manual import ManualRounds

            session.rounds = ManualRounds(request, settings, ManualRounds.new_journal(settings))
        else:
            from ferrule.app.rounds.replay import ReplayRounds

            session.rounds = ReplayRounds(request, settings, ReplayRounds.new_journal(settings), body_task)
    return cast("Rounds", session.rounds)


async def _resume(request: ServerRequestContext[Any]) -> None:
    from ferrule.app.rounds.replay import ReplayRounds
    from ferrule.app.rounds.settings import settings_of

    session = request.session
    settings = settings_of(request.server)
    body_task = session.body_task
    if body_task is not None and not isinstance(body_task, BodyState):
        session.rounds = await ReplayRounds.resume(request, settings, body_task)
        return
    from ferrule.app.rounds.manual import ManualRounds
    from ferrule.app.rounds.state import open_state

    state = request.params.request_state
    journal = ManualRounds.new_journal(settings) if state is None else await open_state(request, settings, state)
    session.rounds = ManualRounds(request, settings, journal)


def _first_look(loop: Any) -> Any:
    """Return the current task; replace `_look` with asyncio's function, if asyncio is imported."""
    # The function of asyncio instead of this one saves a call for each request; asyncio may not be imported yet.
    global _look
    asyncio_module = sys.modules.get("asyncio")
    if asyncio_module is None:
        return None
    _look = asyncio_module.current_task
    return _look(loop)


_look: Callable[[Any], Any] = _first_look
