"""Who may use a gateway, as its configuration says; another one may take its place while the gateway runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ferrule.app.authorization.guards import Protection

if TYPE_CHECKING:
    from ferrule.cli.gateway.file import FrontAuth
    from ferrule.stores.store import Store

__all__ = ["FrontProtection", "make_protection"]


def make_protection(auth: FrontAuth, url: str | None, store: Store | None) -> Protection:
    """Return the protection of a gateway.

    Args:
        auth: who may use it.
        url: its public URL; ``None``: known by its address only.
        store: where the proofs that were used are recorded; ``None``: in this process.

    Raises:
        ValueError: an issuer or a URL is malformed.
    """
    from ferrule.auth import JwtTokens, ResourceServer
    from ferrule.auth.server.verifiers import StaticTokens

    verifiers: list[Any] = [JwtTokens(issuer) for issuer in auth.issuers]
    if auth.tokens:
        verifiers.append(StaticTokens(auth.tokens))
    servers = list(auth.issuers) or None
    made = Protection(
        ResourceServer(
            verifiers,
            resource=auth.resource or url,
            required_scopes=auth.required_scopes,
            authorization_servers=servers,
        )
    )
    if store is not None and store.is_shared:
        made.share(store.marks)
    return made


class FrontProtection:
    """A `ServerProtection` and `MakesChallenges` whose rules may be replaced.

    Attributes:
        current: the rules in force.
    """

    def __init__(self, current: Protection) -> None:
        self.current = current

    async def authenticate(self, context: Any, /) -> Any:
        """See `ServerProtection`."""
        return await self.current.authenticate(context)

    def document_for(self, context: Any, path: str, /) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """See `ServerProtection`."""
        return self.current.document_for(context, path)

    def document_paths(self, path: str, /) -> Sequence[str]:
        """See `ServerProtection`."""
        return self.current.document_paths(path)

    def insufficient_scope(self, context: Any, scopes: Sequence[str], /) -> Exception:
        """See `MakesChallenges`."""
        return self.current.insufficient_scope(context, scopes)

    def refused_token(self, context: Any, /) -> list[tuple[str, str]]:
        """See `MakesChallenges`."""
        return self.current.refused_token(context)
