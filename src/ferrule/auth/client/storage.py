"""Where tokens and client identities are kept between calls and between processes.

Values are text under keys; keys are the hash of what they belong to, so that a directory or a key ring that somebody
lists shows no server names. A lock per key makes refreshing safe between tasks, threads and processes; it is held for
one token request at most, never while a call is under way.
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
"""Longer than a token request may take; whoever dies with the lock held loses it with the process."""
_POLL_S: Final = 0.02


def storage_key(kind: str, name: str) -> str:
    """The key for a thing: ``token`` of a resource, ``client`` of an issuer."""
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:40]}"


class TokenStorage(Protocol):
    """Text under keys, with a lock per key."""

    async def get(self, key: str) -> str | None:
        """The text, ``None`` when there is none."""
        ...

    async def set(self, key: str, value: str) -> None:
        """Keep a text; atomic: a reader sees the old one or the new one."""
        ...

    async def delete(self, key: str) -> None:
        """Forget it; nothing happens if it is not there."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Keep every other user of this storage from changing the key."""
        ...


class _Locks:
    """Locks of this process by key, for any task of any loop in any thread."""

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
    """Keeps tokens in this process, and forgets them with it."""

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
        """Everything that is kept, by key; holds secrets."""
        return dict(self._values)


class EncryptedFileStorage:
    """Keeps tokens in files of a directory, encrypted (AES-256-GCM), readable by their owner only.

    Args:
        directory: made when missing; ``None`` takes the user's configuration folder.
        key: 32 bytes; ``None`` reads them from the file ``key`` in the directory, made on first use. A key beside the
            files keeps tokens out of backups and of careless searches, not out of the hands of who can read both:
            give one from a key ring where that matters.
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
        """See `TokenStorage`; what cannot be decrypted counts as absent."""
        return await to_thread.run_sync(self._read, key)

    async def set(self, key: str, value: str) -> None:
        """See `TokenStorage`."""
        await to_thread.run_sync(self._write, key, value)

    async def delete(self, key: str) -> None:
        """See `TokenStorage`."""
        await to_thread.run_sync(lambda: self._path(key).unlink(missing_ok=True))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncGenerator[None]:
        """See `TokenStorage`; the operating system drops the lock of a process that dies."""
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
                os.link(scratch, path)  # exclusive and whole: no reader sees half a key
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if not path.exists():
                    os.replace(scratch, path)
            finally:
                scratch.unlink(missing_ok=True)
        found = path.read_bytes()
        if len(found) != 32:
            raise AuthError(f"{path} is no key of an EncryptedFileStorage")
        return found

    def _read(self, key: str) -> str | None:
        cipher = self._cipher()
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return str(cipher.decrypt(data[:12], data[12:], key.encode()).decode())
        except Exception:  # another key, or a damaged file: log in again
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
    """What is used of the `keyring` package, or of anything that looks like it."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """The secret, ``None`` when there is none."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Keep one."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Forget one; may raise if there is none."""
        ...


class KeyringStorage:
    """Keeps tokens in the operating system's key ring, through the `keyring` package.

    Args:
        service: under which entries are filed.
        ring: what to use instead of the installed `keyring`.
        lock_directory: of the lock files between processes; ``None`` takes the user's configuration folder.
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
