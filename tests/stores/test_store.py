"""Choosing a store by its URL."""

from __future__ import annotations

import pytest

from ferrule import MCPServer
from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.sqlite.store import SqliteMarks
from ferrule.stores.store import Store, StoreUrlError, open_store, register_scheme


def test_memory_is_of_one_process():
    store = open_store("memory:")
    assert isinstance(store.marks, MemoryMarks)
    assert isinstance(store.blobs, MemoryBlobs)
    assert not store.is_shared


def test_sqlite_is_imported_when_named(tmp_path):
    assert isinstance(open_store(f"sqlite:///{tmp_path}/s.db").marks, SqliteMarks)
    MCPServer("x", store=f"sqlite:///{tmp_path}/s.db")
    assert list(tmp_path.iterdir()) == []  # opened on first use


@pytest.mark.parametrize("url", ["", "memory", "ftp://x", "/a/path"])
def test_what_names_no_store_is_refused_with_the_schemes(url):
    with pytest.raises(StoreUrlError, match=r"memory.*sqlite"):
        open_store(url)


def test_a_password_of_an_unknown_scheme_is_not_shown() -> None:
    with pytest.raises(StoreUrlError) as refused:
        open_store("postgress://user:pa#ss@h/db?sslpassword=KEYPW")
    assert "pa#ss" not in str(refused.value)
    assert "KEYPW" not in str(refused.value)


def test_a_scheme_can_be_added():
    """Other stores come as modules of their own, named and not imported."""
    register_scheme("mine", lambda url: Store(MemoryMarks(), MemoryBlobs(), is_shared=url.endswith("shared")))
    assert open_store("mine:shared").is_shared
    register_scheme("gone", "no_such_module:open")
    with pytest.raises(StoreUrlError, match="no_such_module"):
        open_store("gone:x")
