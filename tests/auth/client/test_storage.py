"""ferrule.auth.client.storage: kept, private, atomic, and locked between processes."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ferrule.auth.client.storage import EncryptedFileStorage, KeyringStorage, MemoryStorage, TokenStorage, storage_key
from ferrule.auth.errors import AuthError

pytestmark = pytest.mark.anyio


class Ring:
    """A key ring."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str, /) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str, /) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str, /) -> None:
        del self.kept[service, username]


def make(kind: str, folder: Path) -> TokenStorage:
    if kind == "memory":
        return MemoryStorage()
    if kind == "file":
        return EncryptedFileStorage(folder)
    return KeyringStorage(ring=Ring(), lock_directory=folder)


KINDS = ("memory", "file", "keyring")


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_kept_is_found_and_forgotten(kind: str, tmp_path: Path, any_backend: str) -> None:
    """One contract for all of them, on both loops."""
    storage = make(kind, tmp_path)
    assert await storage.get("a") is None
    await storage.delete("a")
    await storage.set("a", "one")
    await storage.set("b", "two")
    await storage.set("a", "drei ☃")
    assert (await storage.get("a"), await storage.get("b")) == ("drei ☃", "two")
    await storage.delete("a")
    assert (await storage.get("a"), await storage.get("b")) == (None, "two")
    assert "two" not in repr(storage)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lock_lets_one_in_at_a_time(kind: str, tmp_path: Path, any_backend: str) -> None:
    """And gives up its place when its holder fails or is cancelled."""
    storage = make(kind, tmp_path)
    inside, most = 0, 0

    async def enter() -> None:
        nonlocal inside, most
        async with storage.lock("key"):
            inside += 1
            most = max(most, inside)
            await anyio.sleep(0.005)
            inside -= 1

    with anyio.fail_after(30):
        with pytest.raises(RuntimeError):
            async with storage.lock("key"):
                raise RuntimeError
        with anyio.move_on_after(0.01):
            async with storage.lock("key"):
                await anyio.sleep_forever()
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(enter)
    assert most == 1


async def test_files_are_private_and_say_nothing(tmp_path: Path) -> None:
    """Neither in their contents nor in their names (a directory is easily listed)."""
    storage = EncryptedFileStorage(tmp_path / "new" / "folder")
    await storage.set(storage_key("token", "https://secret-server.example"), "the-refresh-token")
    files = list((tmp_path / "new" / "folder").iterdir())
    assert sorted(file.name.split("-")[0] for file in files) == ["key", "token"]
    for file in files:
        assert b"the-refresh-token" not in file.read_bytes()
        assert "secret-server" not in file.name
        if os.name == "posix":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "new" / "folder").stat().st_mode) == 0o700


async def test_what_was_changed_or_moved_is_not_believed(tmp_path: Path) -> None:
    """Authenticated encryption, with the key's name in it: another user's entry cannot be put in place of mine."""
    storage = EncryptedFileStorage(tmp_path, key=bytes(32))
    await storage.set("a", "one")
    (tmp_path / "b.bin").write_bytes((tmp_path / "a.bin").read_bytes())
    assert await storage.get("b") is None
    data = bytearray((tmp_path / "a.bin").read_bytes())
    data[-1] ^= 1
    (tmp_path / "a.bin").write_bytes(data)
    assert await storage.get("a") is None
    (tmp_path / "a.bin").write_bytes(b"")
    assert await storage.get("a") is None
    await storage.set("a", "one")
    assert await EncryptedFileStorage(tmp_path, key=bytes([1] * 32)).get("a") is None


async def test_a_broken_key_file_is_said_so(tmp_path: Path) -> None:
    """Overwriting it would throw every token away without a word."""
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(AuthError, match="is not a key"):
        await EncryptedFileStorage(tmp_path).get("a")


async def test_two_that_begin_at_once_agree_on_the_key(tmp_path: Path) -> None:
    """The key file is made once, whole."""
    storages = [EncryptedFileStorage(tmp_path) for _ in range(8)]
    await asyncio.gather(*(storage.set(f"k{number}", "v") for number, storage in enumerate(storages)))
    fresh = EncryptedFileStorage(tmp_path)
    assert [await fresh.get(f"k{number}") for number in range(8)] == ["v"] * 8
    assert not list(tmp_path.glob("key.*"))


async def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    """The operating system drops it: nothing is left to be cleaned up by hand."""
    program = f"""
import anyio, os
from ferrule.auth.client.storage import EncryptedFileStorage
async def main():
    async with EncryptedFileStorage({str(tmp_path)!r}).lock("key"):
        print("locked", flush=True)
        os._exit(9)
anyio.run(main)
"""
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    )
    assert (done.returncode, done.stdout) == (9, "locked\n")
    with anyio.fail_after(30):
        async with EncryptedFileStorage(tmp_path).lock("key"):
            pass


async def test_a_key_ring_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, not an import error from the depths."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(AuthError, match="pip install keyring"):
        KeyringStorage()


def test_a_key_of_the_wrong_size_is_refused() -> None:
    """Before anything was written with it."""
    with pytest.raises(ValueError, match="32 bytes"):
        EncryptedFileStorage(key=b"short")
