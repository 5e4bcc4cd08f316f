"""The errors of authorization.

Every class is local: none of these is sent to a peer. A message may contain URLs without query, error codes and scopes,
never a token, a secret, an authorization code or an assertion.
"""

from __future__ import annotations

from ferrule.protocol.errors import LocalError

__all__ = [
    "AuthError",
    "AuthorizationDenied",
    "DiscoveryFailed",
    "InteractionFailed",
    "MissingAuthExtra",
    "RegistrationFailed",
    "ScopeRefused",
    "TokenRequestFailed",
    "UnsafeUrl",
    "UntrustedCallback",
]


class AuthError(LocalError):
    """Authorization failed; the subclass names the step that failed."""


class MissingAuthExtra(AuthError, ImportError):
    """The libraries of the extra ``ferrule[auth]`` are not installed.

    Args:
        what: the feature that needs them.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs the extra 'auth': pip install 'ferrule[auth]'")


class UnsafeUrl(AuthError):
    """A discovered URL or a redirect that is not followed (scheme, host class, credentials in it, size).

    Attributes:
        url: the URL without query.
    """

    def __init__(self, url: str, why: str) -> None:
        shown = url.partition("?")[0].partition("#")[0]
        super().__init__(f"{shown} is not used: {why}")
        self.url = shown


class DiscoveryFailed(AuthError):
    """The server's authorization server could not be found, or its metadata contradict each other."""


class RegistrationFailed(AuthError):
    """No client identity for this authorization server exists or could be registered.

    Attributes:
        error: the authorization server's error code; ``None`` if it gave none.
    """

    def __init__(self, message: str, *, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class TokenRequestFailed(AuthError):
    """The token endpoint refused a request.

    Attributes:
        error: its error code (``invalid_grant`` …); ``None`` where there was none.
        status: its HTTP status.
    """

    def __init__(self, message: str, *, error: str | None, status: int) -> None:
        super().__init__(message)
        self.error = error
        self.status = status


class AuthorizationDenied(AuthError):
    """The authorization response is an error (RFC 6749, 4.1.2.1).

    Attributes:
        error: its code (``access_denied`` …).
    """

    def __init__(self, message: str, *, error: str) -> None:
        super().__init__(message)
        self.error = error


class UntrustedCallback(AuthError):
    """An authorization response does not belong to the request (``state``, ``iss``); no value of it is used."""


class InteractionFailed(AuthError):
    """The user could not be sent to the authorization page, or there was no response in time."""


class ScopeRefused(AuthError):
    """The server still requires scopes after they were requested, or scopes that this grant cannot request.

    Attributes:
        scopes: the scopes that it requires.
    """

    def __init__(self, message: str, scopes: tuple[str, ...]) -> None:
        super().__init__(message)
        self.scopes = scopes
