"""Exceptions of Django, its REST framework and Django Ninja with which plain functions refuse calls as views do."""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from django.utils.functional import Promise

from ferrule.app.errors import ToolError
from ferrule.expose.answers.problems import message_text

__all__ = ["refusal_of"]

_REST_FRAMEWORK = "rest_framework.exceptions"
_NINJA = "ninja.errors"


def refusal_of(error: BaseException) -> ToolError | None:
    """Return the refusal that an exception of a function means; ``None`` for one that is no refusal.

    Refusals are ``Http404``, ``PermissionDenied``, ``ValidationError``, and with a status of 400 to 499 each
    ``APIException`` of Django REST framework and each ``HttpError`` of Django Ninja, whose ``ValidationError`` is one,
    too. The text is that of the view's answer; nothing else of the exception is shown. ``ObjectDoesNotExist`` is none:
    a lookup that fails inside a function may be a fault of the function.
    """
    if isinstance(error, ValidationError):
        # Only one that was made of a dict has this attribute, and messages by field.
        return _refusal(400, error.message_dict if hasattr(error, "error_dict") else error.messages)
    if isinstance(error, Http404):
        return _refusal(404, _argument_of(error))
    if isinstance(error, PermissionDenied):
        return _refusal(403, _argument_of(error))
    # Neither is imported: a function that raises one of its exceptions has imported it.
    rest_framework, ninja = sys.modules.get(_REST_FRAMEWORK), sys.modules.get(_NINJA)
    refused: Any = error
    if rest_framework is not None and isinstance(error, rest_framework.APIException):
        messages = refused.detail
    elif ninja is not None and isinstance(error, ninja.HttpError):
        messages = refused.message
    elif ninja is not None and isinstance(error, ninja.ValidationError):
        return _refusal(422, refused.errors)
    else:
        return None
    # `Throttled` and exceptions of the project have the attribute; `exception_handler` of REST framework reads it so.
    status, wait = refused.status_code, getattr(refused, "wait", None)
    if not 400 <= status < 500:
        return None
    return _refusal(status, messages, None if not wait else str(int(wait)))


def _refusal(status: int, messages: Any, retry_after: str | None = None) -> ToolError:
    return ToolError(message_text(messages, retry_after=retry_after) or _phrase(status))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # a status of the project
        return f"Refused with status {status}"


def _argument_of(error: Exception) -> str | None:
    """Return the text of an exception; ``None`` if it has something else, as all URL patterns of the project."""
    given = error.args[0] if error.args else None
    return str(given) if isinstance(given, str | Promise) else None
