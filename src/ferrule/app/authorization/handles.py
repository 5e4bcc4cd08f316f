"""State between calls that works in both eras: behind a handle, or under who asks.

The modern era has no sessions (2026-07-28), so what a call leaves for the next one needs a name that both know. A
`Handles` gives out unguessable handles that the model passes back as an argument; a `PerPrincipal` keeps one value for
each authenticated principal. Both live in the server's ``store`` and expire; both hold for any worker that shares it.

Values are JSON: they are read back as the declared type, so a changed class is an expired value and not a wrong one.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ferrule.app.authorization.principals import principal_id
from ferrule.app.errors import NoSession, ToolError
from ferrule.app.rounds.settings import settings_of
from ferrule.app.signatures.adapters import to_json
from ferrule.app.signatures.annotations import shape_of
from ferrule.app.signatures.shapes import native
from ferrule.wire.codec import decode, encode, encode_str

if TYPE_CHECKING:
    from ferrule.app.execution.context import Context
    from ferrule.stores.blobs import BlobStore

__all__ = ["Handles", "PerPrincipal", "UnknownHandle"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class UnknownHandle(ToolError):
    """A handle was never given out, has expired, or belongs to somebody else; the peer is not told which."""


class _Kept(Generic[T]):
    def __init__(self, name: str, kept: type[T], *, ttl_s: float) -> None:
        self._name = name
        self._shape = shape_of(kept)
        self._ttl_s = ttl_s

    async def _put(self, ctx: Context[Any], key: str, value: T) -> None:
        await self._store(ctx).put(key, encode(to_json(value)), ttl_s=self._ttl_s)

    async def _get(self, ctx: Context[Any], key: str) -> tuple[T] | None:
        found = await self._store(ctx).get(key)
        if not found:
            return None
        try:
            return (native(decode(found), self._shape),)
        except ValueError as error:
            logger.warning("A kept %s no longer fits its type and is dropped: %s", self._name, error)
            return None

    @staticmethod
    def _store(ctx: Context[Any]) -> BlobStore:
        blobs = settings_of(ctx.request.server).blobs
        if blobs is None:
            raise NoSession("This server has no store to keep anything in; MCPServer(store=…)")
        return blobs


class Handles(_Kept[T]):
    """Values behind handles.

    Args:
        name: of the kind of thing; handles begin with it.
        kept: its type.
        ttl_s: seconds that a value lives after it was last put; say so in the tool's description (2026-07-28, "Tools").
    """

    async def create(self, ctx: Context[Any], value: T) -> str:
        """Keep a value under a new handle, for the principal of this request alone."""
        handle = f"{self._name}_{secrets.token_urlsafe(24)}"
        await self.put(ctx, handle, value)
        return handle

    async def put(self, ctx: Context[Any], handle: str, value: T) -> None:
        """Replace the value behind a handle."""
        await self._put(ctx, self._key(ctx, handle), value)

    async def get(self, ctx: Context[Any], handle: str) -> T:
        """Return the value behind a handle.

        Raises:
            UnknownHandle: there is none for this principal; the model reads that it may begin anew.
        """
        found = await self._get(ctx, self._key(ctx, handle))
        if found is None:
            raise UnknownHandle(f"The {self._name} handle is unknown or has expired; begin a new one.")
        return found[0]

    async def forget(self, ctx: Context[Any], handle: str) -> None:
        """Drop a value; nothing happens if there is none."""
        await self._store(ctx).put(self._key(ctx, handle), b"", ttl_s=0)

    def _key(self, ctx: Context[Any], handle: str) -> str:
        # The principal is part of the key: a stolen handle opens nothing for others. As JSON, no two run together.
        return encode_str(["handle", self._name, principal_id(ctx.principal), handle])


class PerPrincipal(_Kept[T]):
    """One value for each authenticated principal; for the arguments see `Handles`."""

    async def put(self, ctx: Context[Any], value: T) -> None:
        """Keep a value for whoever sent this request.

        Raises:
            NoSession: nobody is authenticated.
        """
        await self._put(ctx, self._key(ctx), value)

    async def get(self, ctx: Context[Any]) -> T | None:
        """Return the value of whoever sent this request, ``None`` if there is none.

        Raises:
            NoSession: nobody is authenticated.
        """
        found = await self._get(ctx, self._key(ctx))
        return None if found is None else found[0]

    def _key(self, ctx: Context[Any]) -> str:
        principal = principal_id(ctx.principal)
        if principal is None:
            raise NoSession("Nobody is authenticated, so that nothing can be kept for them; use Handles")
        return encode_str(["principal", self._name, principal])
