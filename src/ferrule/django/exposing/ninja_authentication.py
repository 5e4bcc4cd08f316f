"""Whether a sender may see an operation of Django Ninja: what its ``auth=`` says of a request that has no values yet.

As with permission classes (see `ferrule.django.exposing.view_permissions`), an ``auth=`` that looks at the values of
the request, and then refuses or fails, has not decided about the sender. The tool is shown then, and the operation
decides about each call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from inspect import isawaitable
from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied
from django.http import Http404

from ferrule.django.exposing.requests_without_values import request_without_values
from ferrule.django.exposing.targets import Sender

__all__ = ["accepts_sender", "operations_of"]

logger = logging.getLogger(__name__)


def operations_of(api: Any) -> Iterator[tuple[str, Any]]:
    """Yield the operations of a ``NinjaAPI``, each with its path below the root of the API, as its document has it."""
    bound = getattr(api, "_get_bound_routers", None)  # newer versions bind routers to an API; in others it has them
    routers = api._routers if bound is None else [(each.prefix, each) for each in bound()]
    for prefix, router in routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                yield "/".join(part for part in (prefix, path) if part), operation


def accepts_sender(operation: Any, method: str, path: str, sender: Sender) -> bool:
    """Return whether the ``auth=`` of an operation accepts a sender, as far as it decides without the values of a call.

    It gets a request with the method and path of the operation and the headers that a call would have. The answer of a
    function that looks at neither is kept for the other operations of the same list.

    Args:
        operation: the ``Operation`` of Django Ninja.
        method: its HTTP method.
        path: its path, with ``{name}`` for arguments.
        sender: who asks.
    """
    if not operation.auth_callbacks:
        return True
    answers = sender.principal.answers
    is_csrf_exempt = bool(getattr(operation, "csrf_exempt", False))  # which older versions do not have
    for callback in operation.auth_callbacks:  # one that accepts is enough, and one that fails ends it, as in a call
        key = ("auth", id(callback), is_csrf_exempt)
        if key in answers:
            if answers[key]:
                return True
            continue
        request = request_without_values(method, path, sender)
        if is_csrf_exempt:
            request._ninja_csrf_exempt = True
        accepted = has_failed = False
        try:
            found = callback(request)
            accepted = bool(async_to_sync(_awaited)(found) if isawaitable(found) else found)
        except Exception as error:
            has_failed = True
            if not request.is_undecided and not _is_refusal(error):
                logger.exception("auth= of %s %s failed, so that its tool is hidden", method, path)
        if not has_failed and not request.is_specific:
            answers[key] = accepted
        if accepted or request.is_undecided:
            return True
        if has_failed:
            return False
    return False


def _is_refusal(error: Exception) -> bool:
    errors: Any = import_module("ninja.errors")
    return isinstance(error, errors.HttpError | errors.AuthenticationError | Http404 | PermissionDenied)


async def _awaited(found: Any) -> Any:
    return await found
