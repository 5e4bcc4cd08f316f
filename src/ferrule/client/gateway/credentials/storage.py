"""Storage of users' tokens in the store of a gateway, and the part of a storage that belongs to one user.

In the store a value is sealed with AES-256-GCM, with its key as associated data: who can read the store learns no
token, and who can write it cannot move a token to another user.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.auth.client.storage import MemoryStorage, TokenStorage
from ferrule.auth.errors import AuthError, MissingAuthExtra

if TYPE_CHECKING:
    from ferrule.stores.store import Store

__all__ = ["KEEP_S", "StoreStorage", "UserStorage"]

KEEP_S: Final = 90 * 24 * 3600.0
"""Seconds after which tokens that were not refreshed are dropped."""
_LOCK_S: Final = 45.0
_POLL_S: Final = 0.05  # marks have no notification
_PREFIX: Final = "gateway-auth/"


class StoreStorage:
    """A `TokenStorage` in a `Store`, sealed.

    Args:
        store: the store; shared by all processes of the gateway.
        key: secret text that is the same in all processes; the cipher's key is derived from it.

    Raises:
        MissingAuthExtra: the library of the cipher is not installed.
        ValueError: ``key`` is shorter than 16 characters.
    """

    def __init__(self, store: Store, key: str) -> None:
        if len(key) < 16:
            raise ValueError("The key of stored tokens has 16 characters or more")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingAuthExtra("Tokens in a store") from error
        self._cipher: Any = AESGCM(hashlib.sha256(f"ferrule gateway tokens {key}".encode()).digest())
        self._store = store
        self._local = MemoryStorage()

    def __repr__(self) -> str:
        return "StoreStorage(…)"

    async def get(self, key: str) -> str | None:
        """See `TokenStorage`; a value that cannot be opened counts as missing."""
        sealed = await self._store.blobs.get(_PREFIX + key)
        if not sealed:
            return None
        try:
            return str(self._cipher.decrypt(sealed[:12], sealed[12:], key.encode()).decode())
        except Exception:  # sealed with another key, or moved: the user signs in again
            return None

    async def set(self, key: str, value: str) -> None:
        """See `TokenStorage`."""
        nonce = os.urandom(12)
        sealed = nonce + self._cipher.encrypt(nonce, value.encode(), key.encode())
        await self._store.blobs.put(_PREFIX + key, sealed, ttl_s=KEEP_S)

    async def delete(self, key: str) -> None:
        """See `TokenStorage`."""
        await self._store.blobs.put(_PREFIX + key, b"", ttl_s=0)

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncGenerator[None]:
        """See `TokenStorage`; the lock of a process that has ended is free after 45 seconds."""
        async with self._local.lock(key):
            name = f"{_PREFIX}lock/{key}"
            deadline = anyio.current_time() + _LOCK_S
            while not await self._claim(name):
                if anyio.current_time() > deadline:
                    raise AuthError("Another process has been refreshing these tokens for too long")
                await anyio.sleep(_POLL_S)
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._release(name)

    async def _claim(self, name: str) -> bool:
        """Return whether the lock is ours now. Each holder has a mark of its own: its number is kept beside them."""
        blobs = self._store.blobs
        number = int(await blobs.get(name) or b"0")
        found = await self._store.marks.begin(f"{name}/{number}", ttl_s=_LOCK_S)
        return found.state == "mine"

    async def _release(self, name: str) -> None:
        blobs = self._store.blobs
        number = int(await blobs.get(name) or b"0")
        await blobs.put(name, str(number + 1).encode(), ttl_s=2 * _LOCK_S)


class UserStorage:
    """The part of a storage that belongs to one user: no key of another one can be reached through it.

    Args:
        storage: the storage of all users.
        user: identifies the user.
        server: identifies the server behind and the way in which the gateway signs in to it.
    """

    def __init__(self, storage: TokenStorage, user: str, server: str) -> None:
        self._storage = storage
        self._prefix = hashlib.sha256(f"{len(user)} {user} {server}".encode()).hexdigest()[:40]

    def _key(self, key: str) -> str:
        return f"user-{self._prefix}-{key}"

    async def get(self, key: str) -> str | None:
        """See `TokenStorage`."""
        return await self._storage.get(self._key(key))

    async def set(self, key: str, value: str) -> None:
        """See `TokenStorage`."""
        await self._storage.set(self._key(key), value)

    async def delete(self, key: str) -> None:
        """See `TokenStorage`."""
        await self._storage.delete(self._key(key))

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """See `TokenStorage`."""
        return self._storage.lock(self._key(key))
