"""Permission classes that look at the scopes of a token, as those of django-oauth-toolkit do.

A tool that needs a scope is listed for a token without it, and its use is refused with 403 and a challenge that names
the scope, so that a client can ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.auth.challenges import format_challenge

__all__ = ["asks_for_scopes", "name_missing_scopes"]


def asks_for_scopes(permission: Any) -> bool:
    """Return whether a permission looks at the scopes of the token, and at nothing else."""
    # Methods of django-oauth-toolkit's `TokenHasScope` and `TokenMatchesOASRequirements`, which need not be installed.
    return hasattr(permission, "get_scopes") or hasattr(permission, "get_required_alternate_scopes")


def name_missing_scopes(response: Any) -> None:
    """Add the challenge to the response of a view that refused a token for its scopes (RFC 6750, 3.1)."""
    context: Any = getattr(response, "renderer_context", None)  # of Django REST framework
    if not context or response.has_header("www-authenticate"):
        return
    request, view = context["request"], context["view"]
    token = request.auth
    if not hasattr(token, "allow_scopes"):  # no token of django-oauth-toolkit
        return
    for permission in view.get_permissions():
        scopes = _scopes_of(permission, request, view)
        if scopes and not token.allow_scopes(scopes):
            challenge = {"error": "insufficient_scope", "scope": " ".join(scopes)}
            response.headers["www-authenticate"] = format_challenge("Bearer", challenge)
            return


def _scopes_of(permission: Any, request: Any, view: Any) -> Sequence[str]:
    """Return the scopes that a permission asks for; of alternatives the first."""
    if hasattr(permission, "get_scopes"):  # as in `asks_for_scopes`
        return list(permission.get_scopes(request, view))
    if hasattr(permission, "get_required_alternate_scopes"):  # as above
        alternatives = permission.get_required_alternate_scopes(request, view).get(request.method.upper(), [])
        return list(alternatives[0]) if alternatives else []
    return []
