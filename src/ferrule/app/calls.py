"""Calling a compiled function within a request: bind, inject, and run it on the loop or in a thread.

Tools have this inlined, because their call is the hot path; resources, prompts and completers share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrule.app.context import Context, current_request
from ferrule.app.rounds.run import run_body
from ferrule.app.signature import FunctionSpec
from ferrule.app.threads import WorkerThreads
from ferrule.kernel.context import ServerRequestContext
from ferrule.kernel.finish import INPUT_METHODS

__all__ = ["call_function"]


async def call_function(
    spec: FunctionSpec, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any], threads: WorkerThreads
) -> Any:
    """What the function returns for these arguments.

    Raises:
        InvalidArguments: they do not fit its parameters.
        Whatever the function raises.
    """
    token = current_request.set(ctx)
    try:
        kwargs = spec.bind(arguments)
        if spec.context_parameter is not None:
            kwargs[spec.context_parameter] = Context(ctx)
        function = spec.call_with if spec.has_positional_only else spec.function

        async def run(**kwargs: Any) -> Any:
            value = await function(**kwargs) if spec.is_async else await threads.run(function, kwargs)
            return await value if hasattr(value, "__await__") else value

        if ctx.method not in INPUT_METHODS:
            return await run(**kwargs)
        return await run_body(ctx, run, kwargs)
    finally:
        current_request.reset(token)
