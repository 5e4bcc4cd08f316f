"""ferrule.expose.callers.asgi: an application's messages as an answer, and what becomes of its task."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.exchange import ApiRequest, CallerUnavailable, Origin

pytestmark = pytest.mark.anyio

GET = ApiRequest(method="GET", path="/a%20b", query="x=1")


async def answer(send: Any, *chunks: bytes, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"X-One", b"1")]})
    for number, chunk in enumerate(chunks, 1):
        await send({"type": "http.response.body", "body": chunk, "more_body": number < len(chunks)})


async def test_the_answer_is_what_was_sent(any_backend: Any) -> None:
    """Status, headers in lower case, and the body in one piece."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["more_body"] is False
        await answer(send, b"one ", b"two", status=201)

    found = await ASGICaller(app).call(GET, Origin(), max_bytes=100)
    assert (found.status, found.headers, found.body, found.is_cut) == (201, (("x-one", "1"),), b"one two", False)


@pytest.mark.parametrize(
    ("root", "has_root", "outer", "expected"),
    [
        ("", True, None, ("/a b", "")),
        ("/p", True, None, ("/p/a b", "/p")),
        ("/p", False, None, ("/a b", "/p")),
        ("/p", True, {"app": "self", "root_path": "/q"}, ("/q/a b", "/q")),
        ("/p", True, {"app": "self", "root_path": "/q/mcp", "app_root_path": "/q"}, ("/q/a b", "/q")),
        ("/p", True, {"app": "another", "root_path": "/q"}, ("/p/a b", "/p")),
    ],
)
async def test_the_prefix_is_the_applications_own(root: str, has_root: bool, outer: Any, expected: Any) -> None:
    """That of the outer request counts only where the application itself took it."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["root_path"]))
        await answer(send, b"")

    scope = None if outer is None else {**outer, "app": app if outer["app"] == "self" else object()}
    caller = ASGICaller(app, root_path=root, path_has_root=has_root)
    response = await caller.call(GET, Origin(scope=scope), max_bytes=1)
    assert seen == [expected]
    assert response.prefix == expected[1]


@pytest.mark.parametrize("has_root", [True, False])
@pytest.mark.parametrize("path", ["/api/v1/items/", "/items/"])
async def test_a_redirect_that_names_the_prefix_leads_to_the_same_place(path: str, has_root: bool) -> None:
    """A framework makes an absolute URL of the prefix and the path; the prefix must not stand there twice."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["raw_path"]))
        await answer(send, b"")

    caller = ASGICaller(app, root_path="/api/v1", path_has_root=has_root)
    await caller.call(ApiRequest(method="GET", path=path), Origin(), max_bytes=1)
    await caller.call(ApiRequest(method="GET", path="/api/v1/items/", route="/api/v1/items/"), Origin(), max_bytes=1)
    before = "/api/v1" if has_root else ""
    assert [path for path, _ in seen] == [f"{before}/items/", f"{before}/api/v1/items/"]
    assert all(raw == path.encode() for path, raw in seen)


@pytest.mark.parametrize("fails", [True, False])
async def test_an_application_without_an_answer_is_unavailable(fails: bool) -> None:
    """Whether it raised or just returned; the exception is in the log only."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if fails:
            raise RuntimeError("secret")

    with pytest.raises(CallerUnavailable) as caught:
        await ASGICaller(app).call(GET, Origin(), max_bytes=1)
    assert "secret" not in str(caught.value)


async def test_what_comes_after_the_answer_goes_on(any_backend: Any) -> None:
    """The call returns; the end of the server waits for the rest, whose failure is logged."""
    go, done = anyio.Event(), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"now")
        await go.wait()
        done.set()
        raise RuntimeError("later")

    caller = ASGICaller(app)
    with anyio.fail_after(30):
        assert (await caller.call(GET, Origin(), max_bytes=10)).body == b"now"
    assert not done.is_set()
    go.set()
    await caller.aclose()
    assert done.is_set()


async def test_the_end_of_the_server_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A background task that never ends is cancelled."""
    monkeypatch.setattr("ferrule.expose.callers.asgi.DRAIN_TIMEOUT_S", 0.01)
    cancelled = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"now")
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    caller = ASGICaller(app)
    await caller.call(GET, Origin(), max_bytes=10)
    with anyio.fail_after(30):
        await caller.aclose()
    assert cancelled.is_set()


async def test_a_cancelled_call_cancels_the_application(any_backend: Any) -> None:
    """What it holds is given back, and a call that was cancelled before it began holds nothing."""
    began, closed = anyio.Event(), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            closed.set()

    caller = ASGICaller(app)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: caller.call(GET, Origin(), max_bytes=1))
        await began.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(30):
        await closed.wait()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await caller.call(GET, Origin(), max_bytes=1)
        await caller.aclose()


async def test_an_answer_that_is_too_large_is_cut_and_its_sender_stopped() -> None:
    """Whether it listens for the end of its client or only sends."""
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            sent += 1
            await send({"type": "http.response.body", "body": b"xx", "more_body": True})

    found = await ASGICaller(app).call(GET, Origin(), max_bytes=5)
    assert (found.body, found.is_cut, sent) == (b"xxxxx", True, 3)


async def test_a_client_with_its_response_counts_as_disconnected() -> None:
    """As under a server, so that an application that waits for that ends."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await answer(send, b"x")
        seen.append((await receive())["type"])

    caller = ASGICaller(app)
    await caller.call(GET, Origin(), max_bytes=5)
    await caller.aclose()
    assert seen == ["http.disconnect"]
