"""Calls of a compiled function in a request: converts arguments, adds dependencies, runs it on the loop or in a thread.

Resources, prompts and completers use this module. Tools have a copy of these steps, because most requests are calls of
tools, and each Python call of them counts.

A framework has exceptions of its own with texts for its users: an `ErrorTranslator` makes a `ToolError` of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ferrule.app.errors import ToolError
from ferrule.app.execution.context import Context
from ferrule.app.execution.current import current_request
from ferrule.app.execution.threads import WorkerThreads
from ferrule.app.rounds.run import run_body
from ferrule.app.signatures.function import FunctionSpec
from ferrule.kernel.concurrency.yielding import move_to_loop
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import sole_error
from ferrule.wire.faults import FerruleError
from ferrule.wire.revisions import INTERACTIVE_METHODS

__all__ = ["ErrorTranslator", "call_function", "check_dependencies", "runner_of", "translated"]

logger = logging.getLogger(__name__)


def runner_of(spec: FunctionSpec, threads: WorkerThreads) -> Callable[..., Awaitable[Any]]:
    """Return an async function that calls a compiled function, in a thread if it is sync, with its dependencies.

    Raises:
        SignatureError: a dependency cannot be called.
    """
    function: Callable[..., Any] = spec.call_with if spec.has_positional_only else spec.function
    if spec.is_async:
        run = function
    else:

        async def in_thread(**kwargs: Any) -> Any:
            value = await threads.run(function, kwargs)
            if hasattr(value, "__await__"):  # a plain function that wraps an async one
                await move_to_loop()
                return await value
            return value

        run = in_thread
    if not spec.dependencies:
        return run
    from ferrule.app.execution.dependencies import inject

    return inject(spec, run, threads)


def check_dependencies(spec: FunctionSpec) -> None:
    """Check the dependencies of a function, so that errors appear at registration and not at the first call.

    Raises:
        SignatureError: a dependency cannot be called as it is written, or depends on itself.
    """
    if spec.dependencies and not spec.is_pending:
        from ferrule.app.execution.dependencies import check_plan

        check_plan(spec)


async def call_function(
    spec: FunctionSpec, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any], threads: WorkerThreads
) -> Any:
    """Return the function's result for these arguments.

    Raises:
        InvalidArguments: the arguments do not fit the parameters.
        ToolError: the function raised it, or an exception that the server's `ErrorTranslator` translates.
        Exception: any other exception of the function; the only exception of a group without the group.
    """
    token = current_request.set(ctx)
    try:
        kwargs = spec.bind(arguments)
        if spec.context_parameter is not None:
            kwargs[spec.context_parameter] = Context(ctx)
        run = spec.runner
        if run is None:
            run = spec.runner = runner_of(spec, threads)
        if ctx.method not in INTERACTIVE_METHODS:
            return await run(**kwargs)
        return await run_body(ctx, run, kwargs)
    except Exception as raised:
        raise _meant(raised, ctx)  # noqa: B904 - its own cause stays its cause
    finally:
        current_request.reset(token)


def _meant(raised: Exception, ctx: ServerRequestContext[Any]) -> BaseException:
    """Return the exception that a function means with the one that it has raised."""
    error = sole_error(raised)
    mounted = ctx.component_server
    return translated(error, ctx.server if mounted is None else mounted.lowlevel) or error


class ErrorTranslator:
    """An attachment of a server: names the exceptions of its functions that the peer may read.

    It holds for tools, resources and prompts that are registered with this server, also where it is mounted in another.

    Args:
        translate: returns the `ToolError` that an exception means; ``None`` for an exception that stays masked. Called
            on the event loop, only for an exception that is not one of ferrule. Where it raises, the exception stays
            masked.
    """

    __slots__ = ("translate",)

    def __init__(self, translate: Callable[[BaseException], ToolError | None]) -> None:
        self.translate = translate


def translated(error: BaseException, server: Server[Any]) -> ToolError | None:
    """Return what the `ErrorTranslator` of a server makes of an exception; ``None`` if it stays as it is.

    Args:
        error: raised by a function; not a group.
        server: the server with which the function is registered.
    """
    translator = None if isinstance(error, FerruleError) else server.attachments.get(ErrorTranslator)
    if translator is None:
        return None
    try:
        return translator.translate(error)
    except Exception:
        logger.exception("The text of a %s cannot be read", type(error).__name__)
        return None
