"""The fixtures of the pytest plugin.

``client`` is synchronous, so that it works in every test, whatever plugin runs coroutines; ``async_client`` is a client
that the test itself enters, in the loop of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ferrule.client.client import Client
    from ferrule.client.sync import SyncClient
    from ferrule.testing.calls.call_sequence import CallSequence

__all__ = [
    "async_client",
    "calls",
    "client",
    "client_options",
    "load_server",
    "mcp_mode",
    "pytest_generate_tests",
    "server",
]


def pytest_generate_tests(metafunc: Any) -> None:
    """Run each test with a client once for each revision of ``ferrule_modes``; called by pytest."""
    if "mcp_mode" in metafunc.fixturenames:
        metafunc.parametrize("mcp_mode", metafunc.config.getini("ferrule_modes"), indirect=True)


@pytest.fixture
def mcp_mode(request: pytest.FixtureRequest) -> str:
    """The revision in which the client of this test speaks."""
    return str(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Any:
    """The server under test, of ``ferrule_server``; a function that is named there makes a new one for each test."""
    config = request.config
    return load_server(str(config.getini("ferrule_server")), config.rootpath)


@pytest.fixture
def client_options() -> dict[str, Any]:
    """Further options of `client` and `async_client`, such as ``elicitation_handler``, which answers questions.

    Empty; a project defines a fixture of this name, and a test parametrizes it.
    """
    return {}


@pytest.fixture
def client(server: Any, mcp_mode: str, client_options: dict[str, Any]) -> Iterator[SyncClient]:
    """A connected `SyncClient` of the server, in each revision of ``ferrule_modes``."""
    from ferrule.client.sync import SyncClient

    with SyncClient(server, mode=mcp_mode, **client_options) as made:
        yield made


@pytest.fixture
def async_client(server: Any, mcp_mode: str, client_options: dict[str, Any]) -> Client:
    """A `Client` of the server that is not connected: ``async with async_client as client:``."""
    from ferrule.client.client import Client

    return Client(server, mode=mcp_mode, **client_options)


@pytest.fixture
def calls(server: Any) -> Iterator[CallSequence]:
    """The calls of tools that reach the server in this test."""
    from ferrule.testing.calls.call_sequence import calls_of

    with calls_of(server) as made:
        yield made


def load_server(text: str, root: Path) -> Any:
    """Return the server that ``FILE:NAME`` or ``package.module:NAME`` names, relative to a folder.

    Raises:
        pytest.UsageError: there is no such file, module or name, or it is no server.
    """
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise pytest.UsageError(f"ferrule_server is FILE:NAME or package.module:NAME, not {text!r}")
    module = _of_file(root / place) if place.endswith(".py") else _of_name(place, root)
    if not hasattr(module, name):  # a name of the project's own
        raise pytest.UsageError(f"ferrule_server: {place} has no {name!r}")
    found: Any = getattr(module, name)
    from ferrule.client.config import read_target

    is_server = _is_server(found)
    made: Any = found() if callable(found) and not is_server else found
    try:
        read_target(made)
    except TypeError as error:
        raise pytest.UsageError(f"ferrule_server: {text} is no server but a {type(made).__name__}") from error
    return made


def _is_server(value: object) -> bool:
    from ferrule.app.server import MCPServer
    from ferrule.kernel.server import Server

    return isinstance(value, MCPServer | Server)


def _of_file(path: Path) -> Any:
    name = f"_ferrule_server_{path.stem}"
    known: Any = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise pytest.UsageError(f"ferrule_server: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _of_name(name: str, root: Path) -> Any:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise pytest.UsageError(f"ferrule_server: {error}") from error
