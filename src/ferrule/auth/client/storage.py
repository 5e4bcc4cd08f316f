"""Storage of tokens and client identities, between calls and between processes.

A value is text under a key. A key is a hash, so that the listing of a directory or key ring shows no server names. A
lock per key makes refreshing safe between tasks, threads and processes. It is held for one token request at most, never
during a request to the MCP server.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
from anyio import to_thread

from ferrule.auth.errors import AuthError, MissingAuthExtra

__all__ = ["EncryptedFileStorage", "KeyringBackend", "KeyringStorage", "MemoryStorage", "TokenStorage", "storage_key"]

LOCK_WAIT_S: Final = 45.0
"""Longer than the longest token request. The operating system releases the lock of a process that has ended."""
_POLL_S: Final = 0.02  # file locks have no notification, so a waiting task polls


def storage_key(kind: str, name: str) -> str:
    """Return the storage key of a kind (``token`` of a resource, ``client`` of an issuer) and a name."""
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:40]}"


class TokenStorage(Protocol):
    """Text under keys, with a lock per key."""

    async def get(self, key: str) -> str | None:
        """Return the value of a key; ``None`` if there is none."""
        ...

    async def set(self, key: str, value: str) -> None:
        """Store a value. Atomic: a reader gets the old value or the new one."""
        ...

    async def delete(self, key: str) -> None:
        """Delete a key; no error if it does not exist."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Return a context that excludes all other users of this storage who lock the same key.

        Raises:
            AuthError: on entering, if the lock is not free within `LOCK_WAIT_S` seconds.
        """
        ...


class _Locks:
    """The locks of this process by key, for tasks of any event loop in any thread."""

    def __init__(self) -> None:
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        deadline = anyio.current_time() + LOCK_WAIT_S
        while not lock.acquire(blocking=False):
            if anyio.current_time() > deadline:
                raise AuthError("Another task has been refreshing these tokens for too long")
            await anyio.sleep(_POLL_S)
        try:
            yield
        finally:
            lock.release()


class MemoryStorage:
    """Keeps tokens in the memory of this process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._locks = _Locks()

    def __repr__(self) -> str:
        return f"MemoryStorage({len(self._values)} entries)"

    async def get(self, key: str) -> str | None:
        """See `TokenStorage`."""
        return self._values.get(key)

    async def set(self, key: str, value: str) -> None:
        """See `TokenStorage`."""
        self._values[key] = value

    async def delete(self, key: str) -> None:
        """See `TokenStorage`."""
        self._values.pop(key, None)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """See `TokenStorage`."""
        return self._locks.hold(key)

    def entries(self) -> dict[str, str]:
        """Return all values by key; they contain secrets."""
        return dict(self._values)


class EncryptedFileStorage:
    """Keeps tokens in files of a directory, encrypted (AES-256-GCM), readable by their owner only.

    Args:
        directory: the directory, which is created if it is missing; ``None`` takes the user's data directory.
        key: the key, 32 bytes; ``None`` reads them from the file ``key`` in the directory, which is made on first use.
            That protects tokens in backups and searches, but not from a reader of the whole directory; if that
            matters, use a key from a key ring.

    Raises:
        ValueError: ``key`` does not have 32 bytes.
    """

    def __init__(self, directory: str | Path | None = None, *, key: bytes | None = None) -> None:
        if key is not None and len(key) != 32:
            raise ValueError("The key of an EncryptedFileStorage has 32 bytes")
        self._directory = Path(directory) if directory is not None else _default_directory()
        self._key = key
        self._locks = _Locks()

    def __repr__(self) -> str:
        return f"EncryptedFileStorage({str(self._directory)!r})"

    async def get(self, key: str) -> str | None:
        """See `TokenStorage`; a value that cannot be decrypted counts as missing."""
        return await to_thread.run_sync(self._read, key)

    async def set(self, key: str, value: str) -> None:
        """See `TokenStorage`."""
        await to_thread.run_sync(self._write, key, value)

    async def delete(self, key: str) -> None:
        """See `TokenStorage`."""
        await to_thread.run_sync(lambda: self._path(key).unlink(missing_ok=True))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncGenerator[None]:
        """See `TokenStorage`; the operating system releases the lock of a process that has ended.

        Raises:
            AuthError: the lock is not free within `LOCK_WAIT_S` seconds.
        """
        async with self._locks.hold(key):
            self._prepare()
            descriptor = os.open(self._directory / f"{key}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                deadline = anyio.current_time() + LOCK_WAIT_S
                while not _try_lock(descriptor):
                    if anyio.current_time() > deadline:
                        raise AuthError("Another process has been refreshing these tokens for too long")
                    await anyio.sleep(_POLL_S)
                yield
            finally:
                os.close(descriptor)  # which unlocks it

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}.bin"

    def _prepare(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _cipher(self) -> Any:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingAuthExtra("EncryptedFileStorage") from error
        if self._key is None:
            self._key = self._read_key()
        return AESGCM(self._key)

    def _read_key(self) -> bytes:
        self._prepare()
        path = self._directory / "key"
        with contextlib.suppress(FileExistsError):
            made = os.urandom(32)
            scratch = self._directory / f"key.{os.getpid()}.{os.urandom(4).hex()}"
            _write_private(scratch, made)
            try:
                os.link(scratch, path)  # atomic and fails if the file exists: no process reads half a key
            except FileExistsError:
                raise
            except OSError:  # the file system has no hard links
                if not path.exists():
                    os.replace(scratch, path)
            finally:
                scratch.unlink(missing_ok=True)
        found = path.read_bytes()
        if len(found) != 32:
            raise AuthError(f"{path} is not a key of an EncryptedFileStorage")
        return found

    def _read(self, key: str) -> str | None:
        cipher = self._cipher()
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return str(cipher.decrypt(data[:12], data[12:], key.encode()).decode())
        except Exception:  # encrypted with another key, or damaged: the user signs in again
            return None

    def _write(self, key: str, value: str) -> None:
        nonce = os.urandom(12)
        sealed = nonce + self._cipher().encrypt(nonce, value.encode(), key.encode())
        self._prepare()
        scratch = self._directory / f"{key}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            _write_private(scratch, sealed)
            os.replace(scratch, self._path(key))
        finally:
            scratch.unlink(missing_ok=True)


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _default_directory() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home())
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "ferrule" / "auth"


class KeyringBackend(Protocol):
    """The functions of the `keyring` package that are used."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return a secret; ``None`` if there is none."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Store a secret."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Delete a secret; may raise if there is none."""
        ...


class KeyringStorage:
    """Keeps tokens in the operating system's key ring, through the `keyring` package.

    Args:
        service: the service name of the entries.
        ring: a key ring to use instead of that of the installed `keyring`.
        lock_directory: directory of the lock files; ``None`` takes the user's data directory.

    Raises:
        AuthError: the package `keyring` is not installed.
    """

    def __init__(
        self, service: str = "ferrule", *, ring: KeyringBackend | None = None, lock_directory: str | Path | None = None
    ) -> None:
        if ring is None:
            try:
                import keyring  # type: ignore[import-not-found,unused-ignore]  # pyright: ignore[reportMissingImports]
            except ImportError as error:
                raise AuthError("KeyringStorage needs the package 'keyring': pip install keyring") from error
            ring = keyring  # type: ignore[assignment,unused-ignore]
        self._service = service
        self._ring: Any = ring
        self._files = EncryptedFileStorage(lock_directory, key=bytes(32))  # only its locks are used

    def __repr__(self) -> str:
        return f"KeyringStorage({self._service!r})"

    async def get(self, key: str) -> str | None:
        """See `TokenStorage`."""
        return await to_thread.run_sync(self._ring.get_password, self._service, key)

    async def set(self, key: str, value: str) -> None:
        """See `TokenStorage`."""
        await to_thread.run_sync(self._ring.set_password, self._service, key, value)

    async def delete(self, key: str) -> None:
        """See `TokenStorage`."""

        def drop() -> None:
            if self._ring.get_password(self._service, key) is not None:
                self._ring.delete_password(self._service, key)

        await to_thread.run_sync(drop)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """See `TokenStorage`."""
        return self._files.lock(key)
