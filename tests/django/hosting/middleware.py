"""A middleware as signatures of webhooks or logs of requests have it."""

from __future__ import annotations

from typing import Any

from django.utils.decorators import sync_and_async_middleware


@sync_and_async_middleware
def ReadsTheBody(get_response: Any) -> Any:
    """Read the body before the view does, where a header asks for it."""
    import inspect

    if inspect.iscoroutinefunction(get_response):

        async def serve(request: Any) -> Any:
            if "X-Read-First" in request.headers:
                request.seen = len(request.body)
            return await get_response(request)

        return serve

    def serve_sync(request: Any) -> Any:
        if "X-Read-First" in request.headers:
            request.seen = len(request.body)
        return get_response(request)

    return serve_sync
