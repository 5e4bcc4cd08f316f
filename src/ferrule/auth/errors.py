"""What can go wrong with authorization, and whose business it is.

Every class is local: none of these is sent to a peer. Messages name URLs without query, codes and scopes, never a
token, a secret, an authorization code or an assertion.
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
    """Authorization did not come about; the subclasses say where it stopped."""


class MissingAuthExtra(AuthError, ImportError):
    """Something needs the libraries of the extra ``ferrule[auth]``.

    Args:
        what: what needs them.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs the extra 'auth': pip install 'ferrule[auth]'")


class UnsafeUrl(AuthError):
    """A discovered URL or a redirect that is not followed (scheme, host class, credentials in it, size).

    Attributes:
        url: without query.
    """

    def __init__(self, url: str, why: str) -> None:
        shown = url.partition("?")[0].partition("#")[0]
        super().__init__(f"{shown} is not used: {why}")
        self.url = shown


class DiscoveryFailed(AuthError):
    """The server's authorization server could not be found, or its metadata contradict each other."""


class RegistrationFailed(AuthError):
    """There is no client identity for this authorization server and none could be made.

    Attributes:
        error: the authorization server's error code; ``None`` if it gave none.
    """

    def __init__(self, message: str, *, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class TokenRequestFailed(AuthError):
    """The token endpoint refused.

    Attributes:
        error: its error code (``invalid_grant`` …); ``None`` where there was none.
        status: its HTTP status.
    """

    def __init__(self, message: str, *, error: str | None, status: int) -> None:
        super().__init__(message)
        self.error = error
        self.status = status


class AuthorizationDenied(AuthError):
    """The authorization server answered the user's visit with an error.

    Attributes:
        error: its code (``access_denied`` …).
    """

    def __init__(self, message: str, *, error: str) -> None:
        super().__init__(message)
        self.error = error


class UntrustedCallback(AuthError):
    """What came back to the redirect URI is not the answer to this request (state, issuer): nothing in it is used."""


class InteractionFailed(AuthError):
    """The user could not be asked, or did not answer in time."""


class ScopeRefused(AuthError):
    """The server still wants scopes that were asked for, or that this grant cannot ask for.

    Attributes:
        scopes: what it wants.
    """

    def __init__(self, message: str, scopes: tuple[str, ...]) -> None:
        super().__init__(message)
        self.scopes = scopes
