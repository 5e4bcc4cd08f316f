"""Refusals of a protected server (RFC 6750, 3; RFC 9728, 5.1; RFC 9449, 7.1).

401 names the metadata with which a client gets a token, 403 the missing scopes, 400 is for a malformed header.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ferrule.auth.challenges import format_challenge
from ferrule.protocol.errors import MCPError
from ferrule.wire.jsonrpc import JsonRpcErrorCode

__all__ = ["AuthRefusal", "InsufficientScope", "challenge_headers"]

Headers = list[tuple[str, str]]


class AuthRefusal(Exception):
    """A request is refused.

    Attributes:
        status: HTTP status.
        message: one sentence for the client.
        headers: the headers of the response.
    """

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


class InsufficientScope(MCPError):
    """The token lacks scopes that the operation needs: HTTP 403 with a challenge that names all of them.

    Attributes:
        scopes: all scopes that this operation needs.
        http_status, http_headers: for an HTTP transport.
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
    """Return the ``www-authenticate`` headers of a refusal, one per scheme.

    Args:
        metadata_url: the URL of the protected resource metadata; ``None`` leaves it out.
        scopes: the scopes that a token needs.
        error, description: OAuth error code and text; ``None`` for a request without token.
        schemes: accepted authentication schemes.
        dpop_algorithms: accepted signature algorithms of DPoP proofs.
    """
    # ``offline_access`` is the client's decision and never part of a challenge (SEP-2207).
    named = [scope for scope in scopes or () if scope != "offline_access"]
    found: Headers = []
    for scheme in schemes:
        parameters = {
            "error": error,
            "error_description": description,
            "scope": " ".join(named) or None,
            "resource_metadata": metadata_url,
        }
        if scheme == "DPoP":
            parameters["algs"] = " ".join(dpop_algorithms) or None
        found.append(("www-authenticate", format_challenge(scheme, parameters)))
    return found
