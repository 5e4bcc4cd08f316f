"""Calling a compiled function within a request: bind, inject, and run it on the loop or in a thread.

Tools inline this, because their call is the hot path; resources, prompts and completers share it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ferrule.app.execution.context import Context
from ferrule.app.execution.current import current_request
from ferrule.app.execution.threads import WorkerThreads
from ferrule.app.rounds.run import run_body
from ferrule.app.signatures.function import FunctionSpec
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import sole_error
from ferrule.wire.revisions import INTERACTIVE_METHODS

__all__ = ["call_function", "check_dependencies", "runner_of"]


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
            return await value if hasattr(value, "__await__") else value  # a plain function that wraps an async one

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
        Exception: any exception of the function; the only exception of a group without the group.
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
    except ExceptionGroup as group:
        raise sole_error(group)  # noqa: B904 - its own cause stays its cause
    finally:
        current_request.reset(token)
