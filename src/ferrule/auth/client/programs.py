"""`OAuth` for programs without an interactive user."""

from __future__ import annotations

from typing import Any

from ferrule.auth.client.grants import Assertion, ClientCredentialsGrant, EnterpriseGrant, WorkloadGrant
from ferrule.auth.client.oauth import OAuth
from ferrule.auth.client.tokens import ClientIdentity

__all__ = ["ClientCredentials", "EnterpriseManaged", "WorkloadIdentity"]


class ClientCredentials(OAuth):
    """Client credentials of a program (``io.modelcontextprotocol/oauth-client-credentials``).

    Args:
        client_id: the client id, from the operator of the authorization server.
        client_secret: the secret of the client; either this or ``private_key``.
        private_key: PEM or JWK, with which the program signs an assertion (recommended).
        algorithm: the algorithm of the signature; ``None`` takes the usual one of the key.
        issuer: the only authorization server that may receive the credentials.
        options: the options of `OAuth`: ``scopes``, ``storage``, ``dpop``, ``policy`` …

    Raises:
        ValueError: not exactly one of ``client_secret`` and ``private_key`` is given.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: Any = None,
        algorithm: str | None = None,
        issuer: str | None = None,
        **options: Any,
    ) -> None:
        if (client_secret is None) == (private_key is None):
            raise ValueError("ClientCredentials takes either client_secret or private_key")
        identity = ClientIdentity(client_id, client_secret, private_key=private_key, algorithm=algorithm)
        super().__init__(grant=ClientCredentialsGrant(identity=identity, issuer=issuer), **options)


class WorkloadIdentity(OAuth):
    """A workload with a JWT of its platform (SEP-1933). A refusal is final; no other grant is tried.

    Args:
        assertion: the JWT, or a function (sync or async) that fetches one for each token request.
        client_id: for authorization servers that require one as well.
        issuer: the only authorization server that may receive the assertion.
        options: the options of `OAuth`.
    """

    def __init__(
        self, assertion: Assertion, *, client_id: str | None = None, issuer: str | None = None, **options: Any
    ) -> None:
        identity = None if client_id is None else ClientIdentity(client_id)
        super().__init__(grant=WorkloadGrant(assertion=assertion, identity=identity, issuer=issuer), **options)


class EnterpriseManaged(OAuth):
    """The organization's identity provider decides who may use the server
    (``io.modelcontextprotocol/enterprise-managed-authorization``).

    Args:
        id_token: ID token of the user's single sign-on, or a function (sync or async) that fetches it.
        idp_token_endpoint: token endpoint of the identity provider.
        idp_client_id, idp_client_secret: the program's credentials at the identity provider.
        client_id, client_secret: its credentials at the MCP server's authorization server.
        private_key: PEM or JWK, used instead of ``client_secret``.
        idp_issuer: identifier of the identity provider.
        issuer: the only authorization server that may receive the assertion.
        subject_token_type: type of ``id_token``: ``id_token``, ``refresh_token``, or a whole URN.
        options: the options of `OAuth`.
    """

    def __init__(
        self,
        id_token: Assertion,
        *,
        idp_token_endpoint: str,
        idp_client_id: str,
        idp_client_secret: str | None = None,
        client_id: str,
        client_secret: str | None = None,
        private_key: Any = None,
        idp_issuer: str | None = None,
        issuer: str | None = None,
        subject_token_type: str = "id_token",
        **options: Any,
    ) -> None:
        grant = EnterpriseGrant(
            idp_token_endpoint=idp_token_endpoint,
            idp_identity=ClientIdentity(idp_client_id, idp_client_secret),
            subject_token=id_token,
            subject_token_type=subject_token_type,
            identity=ClientIdentity(client_id, client_secret, private_key=private_key),
            idp_issuer=idp_issuer,
            issuer=issuer,
        )
        super().__init__(grant=grant, **options)
