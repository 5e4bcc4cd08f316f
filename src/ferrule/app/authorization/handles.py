"""State between calls that works in both eras: by a handle, or by the principal.

The modern era has no sessions (2026-07-28), so that state between calls needs a key that both calls have. `Handles`
makes random handles that the model passes back as an argument; `PerPrincipal` keeps one value for each authenticated
principal. Both are kept in the server's ``store``, expire, and work in all workers that share the store.

Values are stored as JSON and read as the declared type: a value that no longer fits a changed class counts as expired.
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
    """A handle is unknown, has expired, or belongs to another principal; the text is the same for all three."""


class _Kept(Generic[T]):
    def __init__(self, name: str, kept: type[T], *, ttl_s: float) -> None:
        self._name = name
        self._shape = shape_of(kept)
        self._ttl_s = ttl_s

    async def _save(self, ctx: Context[Any], key: str, value: T) -> None:
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
            raise NoSession("This server has no store for values; set MCPServer(store=…)")
        return blobs


class Handles(_Kept[T]):
    """Values behind handles.

    Args:
        name: the name of the kind of value, with which handles begin.
        kept: the type of the values.
        ttl_s: seconds that a value is kept after the last `put`; document it in the tool's description (2026-07-28,
            "Tools").
    """

    async def create(self, ctx: Context[Any], value: T) -> str:
        """Store a value and return its new handle, which works for the principal of this request only.

        Raises:
            NoSession: the server has no store.
        """
        handle = f"{self._name}_{secrets.token_urlsafe(24)}"
        await self.put(ctx, handle, value)
        return handle

    async def put(self, ctx: Context[Any], handle: str, value: T) -> None:
        """Replace the value of a handle.

        Raises:
            NoSession: the server has no store.
        """
        await self._save(ctx, self._key(ctx, handle), value)

    async def get(self, ctx: Context[Any], handle: str) -> T:
        """Return the value of a handle.

        Raises:
            UnknownHandle: there is no such handle of this principal; its text tells the model to begin a new one.
            NoSession: the server has no store.
        """
        found = await self._get(ctx, self._key(ctx, handle))
        if found is None:
            raise UnknownHandle(f"The {self._name} handle is unknown or has expired; begin a new one.")
        return found[0]

    async def forget(self, ctx: Context[Any], handle: str) -> None:
        """Delete the value of a handle, if there is one."""
        await self._store(ctx).put(self._key(ctx, handle), b"", ttl_s=0)

    def _key(self, ctx: Context[Any], handle: str) -> str:
        # With the principal, so that a stolen handle is useless to others. As JSON, so that no two keys are equal.
        return encode_str(["handle", self._name, principal_id(ctx.principal), handle])


class PerPrincipal(_Kept[T]):
    """One value for each authenticated principal; for the arguments see `Handles`."""

    async def put(self, ctx: Context[Any], value: T) -> None:
        """Store a value for the sender of this request.

        Raises:
            NoSession: the sender is anonymous, or the server has no store.
        """
        await self._save(ctx, self._key(ctx), value)

    async def get(self, ctx: Context[Any]) -> T | None:
        """Return the value of the sender of this request; ``None`` if there is none.

        Raises:
            NoSession: the sender is anonymous, or the server has no store.
        """
        found = await self._get(ctx, self._key(ctx))
        return None if found is None else found[0]

    def _key(self, ctx: Context[Any]) -> str:
        principal = principal_id(ctx.principal)
        if principal is None:
            raise NoSession("The sender is anonymous, so that no value can be kept for it; use Handles")
        return encode_str(["principal", self._name, principal])
