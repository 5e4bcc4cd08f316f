"""What becomes of an API's 401, and of its 403 for a missing scope, where the caller's own credentials were passed on.

The API judged the caller, so the caller must learn how to sign in: the answer of the endpoint gets the API's status and
a challenge (RFC 9110, section 11.6.1), as if the endpoint itself had refused. That needs an answer that can still have
a status: over HTTP, before a stream began. Everywhere else the refusal stays a tool error.
"""

from __future__ import annotations

from typing import Any

from ferrule.app.execution.context import Context
from ferrule.auth.challenges import parse_challenges
from ferrule.expose.answers.problems import problem_text
from ferrule.expose.answers.projection import Projection
from ferrule.expose.exchange import ApiResponse
from ferrule.kernel.protection import MakesChallenges
from ferrule.protocol.errors import MCPError
from ferrule.transports.asgi.context import HttpContext
from ferrule.wire.jsonrpc import JsonRpcErrorCode

__all__ = ["MAX_CHALLENGE_CHARS", "RefusedByAPI", "refusal_of"]

MAX_CHALLENGE_CHARS = 1000
"""Of a challenge of the API that is passed on; a longer one is left out."""

MAX_CHALLENGES = 5
"""Challenges of one answer that are passed on."""


class RefusedByAPI(MCPError):
    """The API refused the caller's own credentials.

    Attributes:
        http_status: 401 or 403.
        http_headers: the challenges.
    """

    default_code = JsonRpcErrorCode.INVALID_REQUEST

    def __init__(self, message: str, http_status: int, http_headers: list[tuple[str, str]]) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.http_headers = http_headers


def refusal_of(
    ctx: Context[Any], response: ApiResponse, forwarded: tuple[str, ...], projection: Projection
) -> Exception | None:
    """Return the error with which the endpoint refuses a request as the API did; ``None`` where it does not.

    A server that is protected itself names its own metadata, with which a client gets a token for it; one that is not
    passes on the challenge of the API, and ``Bearer`` if there is none.

    Args:
        ctx: the context of the call.
        response: the answer of the API.
        forwarded: the headers of the outer request that are passed on, in lower case.
        projection: masks members of the answer.
    """
    transport = ctx.transport
    if "authorization" not in forwarded or not isinstance(transport, HttpContext) or transport.kind != "http":
        return None
    given = [value for name, value in response.headers if name == "www-authenticate" and _is_header(value)]
    challenges = [challenge for value in given[:MAX_CHALLENGES] for challenge in parse_challenges(value)]
    scopes = next((each.scopes for each in challenges if each.error == "insufficient_scope"), None)
    if response.status != 401 and not (response.status == 403 and scopes):
        return None
    text = problem_text(response, projection)
    protection: object = ctx.request.server.protection
    if isinstance(protection, MakesChallenges):
        if response.status == 403:
            return protection.insufficient_scope(transport, list(scopes or ()))
        return RefusedByAPI(text, 401, protection.refused_token(transport))
    headers = [("www-authenticate", value) for value in given[:MAX_CHALLENGES]]
    return RefusedByAPI(text, response.status, headers or [("www-authenticate", "Bearer")])


def _is_header(value: str) -> bool:
    """Return whether a value may stand in a header of ours."""
    return 0 < len(value) <= MAX_CHALLENGE_CHARS and all(" " <= character <= "~" for character in value)
