"""The registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.types import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION
from ferrule.wire.revisions import REVISIONS
from ferrule.wire.types import Icon, Implementation

Context = ServerRequestContext[Any]


async def nothing(ctx: Context) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ([], {}),
        (["tools/list", "tools/call"], {"tools": {}}),
        (["tools/call"], {}),
        (["prompts/list"], {"prompts": {}}),
        (["prompts/get"], {}),
        (["resources/list"], {"resources": {}}),
        (["resources/templates/list", "resources/read"], {"resources": {}}),
        (["resources/read"], {}),
        (["completion/complete"], {"completions": {}}),
    ],
)
def test_a_server_advertises_only_what_it_can_answer(methods: list[str], expected: dict[str, Any]) -> None:
    """A declared capability needs its handlers (2026-07-28, "Tools")."""
    server: Server[Any] = Server("s")
    for method in methods:
        server.add_request_handler(method, nothing)
    assert server.create_initialization_options().capabilities == expected
    for method in methods:
        server.remove_request_handler(method)
        server.remove_request_handler(method)
    assert server.create_initialization_options().capabilities == {}


def test_options_of_a_server_are_announced_where_the_revision_has_them() -> None:
    """Changes, subscriptions and logging; extensions in the modern era."""
    server: Server[Any] = Server("s", logging=True, list_changed=["tools"], resource_updates=True)
    server.add_request_handler("tools/list", nothing)
    server.add_request_handler("resources/list", nothing)
    server.add_request_handler("completion/complete", nothing)
    server.add_extension("example.com/x", {"a": 1}, result_types=["x"])
    assert server.capabilities(REVISIONS[LATEST_MODERN_VERSION]) == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True},
        "completions": {},
        "logging": {},
        "extensions": {"example.com/x": {"a": 1}},
    }
    assert server.result_types == {"x": "example.com/x"}
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        assert ("completions" in server.capabilities(REVISIONS[version])) == (version != "2024-11-05")


def test_decorators_register_and_give_the_function_back() -> None:
    """It stays a plain callable."""
    server: Server[Any] = Server("s")
    assert server.request("x/a")(nothing) is nothing
    assert server.notification("notifications/x")(nothing) is nothing
    request, notification = server.get_request_handler("x/a"), server.get_notification_handler("notifications/x")
    assert request is not None
    assert request.handler is nothing
    assert not request.trusted
    assert notification is not None
    assert notification.method == "notifications/x"


async def innermost(ctx: Any) -> Any:
    return ctx


def test_the_chain_is_composed_once_until_the_list_changes() -> None:
    """Composing for each request would cost a closure per middleware."""

    async def one(ctx: Context, call_next: CallNext) -> Any:
        return await call_next(ctx)

    async def two(ctx: Context, call_next: CallNext) -> Any:
        return await call_next(ctx)

    server: Server[Any] = Server("s", middleware=[one])
    first = server.chain(innermost)
    assert server.chain(innermost) is first
    server.middleware.append(two)
    second = server.chain(innermost)
    assert second is not first
    assert server.chain(innermost) is second
    server.middleware.reverse()
    assert server.chain(innermost) is not second
    server.middleware.clear()
    assert server.chain(innermost) is innermost


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
async def test_the_lifespan_is_entered_per_start() -> None:
    """And a server without one has an empty state."""
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[list[str]]) -> AsyncIterator[list[str]]:
        log.append(f"enter {server.server_info.name}")
        yield log
        log.append("exit")

    server = Server("s", lifespan=lifespan)
    for _ in range(2):
        async with server.lifespan() as state:
            assert state is log
    assert log == ["enter s", "exit"] * 2
    async with Server[Any]("plain").lifespan() as state:
        assert state == {}


def test_what_is_displayed_of_a_server_stands_in_its_identity() -> None:
    """One frozen value, which clients of both eras get as it is."""
    identity = Implementation("s", "1", title="Server", website_url="https://example.com")
    assert Server(identity).server_info is identity
    assert Server("s", version="2").server_info == Implementation("s", "2")
    assert Server("s").server_info == Implementation("s", "0")
    with pytest.raises(TypeError, match="Implementation"):
        Server(identity, version="2")


def test_the_old_options_of_an_identity_work_and_warn() -> None:
    """Programs of 0.1 go on until 0.3."""
    with pytest.warns(DeprecationWarning, match=r"Server\(icons=…, title=…\)") as warned:
        server: Server[Any] = Server("s", version="1", title="Server", icons=[Icon("https://example.com/i.png")])
    assert server.server_info == Implementation("s", "1", title="Server", icons=[Icon("https://example.com/i.png")])
    assert warned[0].filename == __file__
    with pytest.raises(TypeError, match="no option titel"):
        Server("s", titel="Server")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_the_old_name_of_the_component_server_works_and_warns() -> None:
    """Middleware of 0.1 reads ``home`` until 0.3."""
    mounted = object()
    ctx: Context = ServerRequestContext(*[None] * 8, Server("s"), mounted)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert ctx.component_server is mounted
    with pytest.warns(DeprecationWarning, match="component_server") as warned:
        assert ctx.home is mounted
    assert warned[0].filename == __file__


@pytest.mark.parametrize(("old", "new"), [("param_headers", "params"), ("name_params", "names")])
def test_the_old_names_of_mirrored_headers_work_and_warn(old: str, new: str) -> None:
    """Servers of 0.1 register their headers there until 0.3."""
    server: Server[Any] = Server("s")
    with pytest.warns(DeprecationWarning, match=f"MirroredHeaders.*{new}") as warned:
        found = getattr(server, old)  # the name is the parameter of this test
    assert found is getattr(server.attachments.made(MirroredHeaders), new)
    assert warned[0].filename == __file__


def test_without_a_revision_the_newest_that_is_served_decides_what_is_announced() -> None:
    """Of the modern era, or of the handshake where the server serves no other."""
    server: Server[Any] = Server("s")
    server.add_request_handler("completion/complete", nothing)
    server.add_extension("example.com/x", {"a": 1}, result_types=["x"])
    newest = server.create_initialization_options(REVISIONS[LATEST_MODERN_VERSION])
    assert server.create_initialization_options() == newest
    assert "extensions" in newest.capabilities
    server.modern_versions = ()
    newest = server.create_initialization_options(REVISIONS[HANDSHAKE_PROTOCOL_VERSIONS[-1]])
    assert server.create_initialization_options() == newest
    assert newest.capabilities == {"completions": {}}
    assert server.create_initialization_options(REVISIONS[HANDSHAKE_PROTOCOL_VERSIONS[0]]).capabilities == {}
