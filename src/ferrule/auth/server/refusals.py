"""How a protected server says no: 401 with the way to a token, 403 with the scopes that are missing, 400 for a header
that cannot be read (RFC 6750, 3; RFC 9728, 5.1; RFC 9449, 7.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ferrule.auth.challenges import format_challenge
from ferrule.protocol.errors import MCPError
from ferrule.wire.jsonrpc import JsonRpcErrorCode

__all__ = ["AuthRefusal", "InsufficientScope", "challenge_headers"]

Headers = list[tuple[str, str]]


class AuthRefusal(Exception):
    """A request is not served.

    Attributes:
        status: HTTP status.
        message: one sentence for the client.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


class InsufficientScope(MCPError):
    """What was asked for needs scopes that the token lacks: HTTP 403, and a challenge that names all of them.

    Attributes:
        scopes: everything that this operation needs.
        http_status, http_headers: for a transport that has such things.
    """

    default_code = JsonRpcErrorCode.INVALID_REQUEST

    def __init__(self, scopes: Iterable[str], *, message: str | None = None, headers: Headers | None = None) -> None:
        self.scopes = tuple(dict.fromkeys(scopes))
        text = message or f"This needs the scope {' '.join(self.scopes)}"
        super().__init__(text, data={"requiredScopes": list(self.scopes)})
        self.http_status = 403
        self.http_headers: Headers = headers or []


def challenge_headers(
    *,
    metadata_url: str | None,
    scopes: Sequence[str] | None = None,
    error: str | None = None,
    description: str | None = None,
    schemes: Sequence[str] = ("Bearer",),
    dpop_algorithms: Sequence[str] = (),
) -> Headers:
    """The ``www-authenticate`` headers of a refusal, one for each scheme that would do."""
    wanted = [scope for scope in scopes or () if scope != "offline_access"]  # a client's own affair (SEP-2207)
    found: Headers = []
    for scheme in schemes:
        parameters = {
            "error": error,
            "error_description": description,
            "scope": " ".join(wanted) or None,
            "resource_metadata": metadata_url,
        }
        if scheme == "DPoP":
            parameters["algs"] = " ".join(dpop_algorithms) or None
        found.append(("www-authenticate", format_challenge(scheme, parameters)))
    return found
