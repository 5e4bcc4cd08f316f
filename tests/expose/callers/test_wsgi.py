"""Requests into WSGI applications: what they see is what a server shows them, and what they answer is what it reads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context, ContextVar
from typing import Any
from wsgiref.validate import validator

import anyio
import pytest

from ferrule.expose.callers.wsgi import WSGICaller
from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin

pytestmark = pytest.mark.usefixtures("any_backend")

Start = Callable[..., Callable[[bytes], object]]
TEXT = [("Content-Type", "text/plain")]


def get(path: str = "/", **more: Any) -> ApiRequest:
    return ApiRequest(method="GET", path=path, **more)


def sent(
    app: Any, request: ApiRequest | None = None, origin: Origin | None = None, max_bytes: int = 1000
) -> ApiResponse:
    return WSGICaller(app).call_sync(request or get(), origin or Origin(), max_bytes)


def seen(request: ApiRequest | None = None, origin: Origin | None = None, **caller: Any) -> dict[str, Any]:
    """What an application finds in its environment."""
    found: dict[str, Any] = {}

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        found.update(environ, body=environ["wsgi.input"].read())
        start("204 No Content", [])
        return []

    WSGICaller(app, **caller).call_sync(request or get(), origin or Origin(), 100)
    return found


# --- the environment --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PATCH"])
@pytest.mark.parametrize("host", ["localhost", "example.com:8080", "[::1]:80", "::1", ""])
@pytest.mark.filterwarnings("error")
def test_the_environment_is_what_the_standard_asks_for(method: str, host: str) -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        assert environ["wsgi.input"].read(10) == (b"{}" if method == "POST" else b"")
        if method == "HEAD":
            start("200 OK", TEXT)
            return [b""]
        start("200 OK", TEXT)
        return [b"fine"]

    body = b"{}" if method == "POST" else b""
    headers = (("content-type", "application/json"), ("content-length", "77"), ("x-a", "1"), ("x-a", "ü€"))
    request = ApiRequest(method=method, path="/a%20b/%C3%BC", query="q=1", headers=headers, body=body)
    answer = sent(validator(app), request, Origin(host=host, client=("192.0.2.7", 9)))
    assert answer.status == 200
    assert answer.body == (b"" if method == "HEAD" else b"fine")


def test_the_application_sees_the_outer_request() -> None:
    """Host, scheme and address decide about links, allowed hosts, rate limits and lists of addresses."""
    origin = Origin(scheme="https", host="shop.example:8443", client=("192.0.2.7", 4711), headers=(("x-tenant", "7"),))
    environ = seen(get(headers=(("host", "evil.example"), ("accept", "*/*"))), origin, script_name="/api/")
    assert environ["HTTP_HOST"] == "shop.example:8443"
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("shop.example", "8443")
    assert environ["wsgi.url_scheme"] == "https"
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("192.0.2.7", "4711")
    assert environ["HTTP_X_TENANT"] == "7"
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/api", "/")
    assert "HTTP_COOKIE" not in environ
    assert "HTTP_AUTHORIZATION" not in environ


def test_hosts_with_an_ipv6_address_have_no_port_by_mistake() -> None:
    assert seen(origin=Origin(host="[::1]"))["SERVER_NAME"] == "[::1]"
    assert seen(origin=Origin(host="[::1]:5000"))["SERVER_PORT"] == "5000"
    assert seen(origin=Origin(host="::1", scheme="https"))["SERVER_PORT"] == "443"


def test_the_body_has_its_length_whatever_a_header_says() -> None:
    environ = seen(ApiRequest(method="POST", path="/", headers=(("content-length", "1"),), body=b"12345"))
    assert environ["CONTENT_LENGTH"] == "5"
    assert environ["body"] == b"12345"
    assert "HTTP_CONTENT_LENGTH" not in environ


def test_cookies_are_joined_as_cookies() -> None:
    request = get(headers=(("cookie", "a=1"), ("cookie", "b=2"), ("x-list", "1"), ("x-list", "2")))
    environ = seen(request)
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert environ["HTTP_X_LIST"] == "1, 2"


def test_a_slash_in_a_value_does_not_lead_to_another_operation() -> None:
    """PATH_INFO is decoded: ``/users/1%2Fdelete`` would be the route ``/users/<id>/delete``."""
    with pytest.raises(CallerUnavailable, match="slash"):
        seen(get("/users/1%2fdelete"))
    assert seen(get("/users/1%252Fdelete"))["PATH_INFO"] == "/users/1%2Fdelete"


def test_the_prefix_of_the_outer_request_wins_and_a_redirect_names_it() -> None:
    outer = Origin(scope={"ferrule.wsgi.script_name": "/outer"})
    environ = seen(get("/a", route="/a"), outer, script_name="/own")
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"], environ["REQUEST_URI"]) == ("/outer", "/a", "/outer/a")
    environ = seen(get("/outer/a", query="b=1"), outer)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"], environ["REQUEST_URI"]) == ("/outer", "/a", "/outer/a?b=1")
    assert seen(get("/outer/a", route="/outer/{b}"), outer)["PATH_INFO"] == "/outer/a"
    assert seen(get("/a"), Origin(scope={}), script_name="/own")["SCRIPT_NAME"] == "/own"


def test_the_environment_says_one_thread_at_a_time() -> None:
    assert seen()["wsgi.multithread"] is True
    assert seen(max_threads=1)["wsgi.multithread"] is False


# --- the answer -------------------------------------------------------------------------------------------------------


def test_what_is_written_comes_before_what_is_returned() -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        write = start("200 OK", TEXT)
        write(b"one ")
        return [b"two"]

    assert sent(validator(app)).body == b"one two"


def test_start_response_may_be_called_with_the_first_part() -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterator[bytes]:
        start("201 Created", [("Location", "/1")])
        yield b""
        yield b"x"

    answer = sent(app)
    assert (answer.status, answer.header("location"), answer.body) == (201, "/1", b"x")


def test_an_error_page_replaces_an_answer_that_has_not_begun() -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", TEXT)
        try:
            raise LookupError("nothing")
        except LookupError:
            start("404 Not Found", TEXT, sys.exc_info())
        return [b"gone"]

    assert sent(validator(app)).status == 404


def test_an_error_after_the_answer_has_begun_is_raised() -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterator[bytes]:
        start("200 OK", TEXT)
        yield b"half"
        try:
            raise LookupError("nothing")
        except LookupError:
            start("500 Oops", TEXT, sys.exc_info())

    with pytest.raises(CallerUnavailable) as caught:
        sent(app)
    assert isinstance(caught.value.__cause__, LookupError)


def twice(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    start("200 OK", TEXT)
    return []


def silent(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    return []


def early(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    return [b"x"]


def odd(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    start("fine", TEXT)
    return [b"x"]


def leaves(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    sys.exit(3)


def breaks(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    raise ZeroDivisionError("secret")


@pytest.mark.parametrize("app", [twice, silent, early, odd, leaves, breaks])
def test_what_is_no_answer_is_one_error_without_details(app: Any) -> None:
    """Flask in debug or testing mode raises what a view raised; an exit of a view is not the end of the process."""
    with pytest.raises(CallerUnavailable, match="the application") as caught:
        sent(app)
    assert "secret" not in str(caught.value)


class _Body:
    """An answer that counts what is read of it, and how often it is closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.read = self.closed = 0
        self.error = error

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.read += 1
            yield b"0123456789"

    def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


def test_an_endless_answer_is_cut_and_closed() -> None:
    body = _Body()

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", TEXT)
        return body

    answer = sent(app, max_bytes=25)
    assert (answer.body, answer.is_cut) == (b"0123456789012345678901234"[:25], True)
    assert (body.read, body.closed) == (3, 1)


def test_an_endless_answer_that_is_written_is_cut() -> None:
    written = 0

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        nonlocal written
        write = start("200 OK", TEXT)
        while True:
            written += 1
            write(b"0123456789")

    answer = sent(app, max_bytes=25)
    assert (len(answer.body), answer.is_cut, written) == (25, True, 3)


def test_an_answer_that_just_fits_is_whole() -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", TEXT)
        return [b"12345", b"", b"67890", b""]

    answer = sent(app, max_bytes=10)
    assert (answer.body, answer.is_cut) == (b"1234567890", False)


def test_the_answer_stands_when_its_end_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Teardown functions run in ``close()`` of streamed answers; a server has sent the answer by then."""

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", TEXT)
        return _Ending([b"fine"])

    assert sent(app).body == b"fine"
    assert "failed after its answer" in caplog.text


class _Ending(list[bytes]):
    def close(self) -> None:
        raise RuntimeError("teardown")


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_requests_run_beside_each_other_up_to_the_bound() -> None:
    together = threading.Barrier(2, timeout=30)
    inside = most = 0
    lock = threading.Lock()

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        together.wait()
        with lock:
            inside -= 1
        start("200 OK", TEXT)
        return [b"x"]

    caller = WSGICaller(app, max_threads=2)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(lambda: caller.call(get(), Origin(), max_bytes=10))
    assert most == 2


@pytest.mark.anyio
async def test_an_abandoned_call_ends_with_the_next_part_of_its_answer() -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def __iter__(self) -> Iterator[bytes]:
            begun.set()
            while True:
                go_on.wait(30)
                yield b"x"

        def close(self) -> None:
            closed.set()

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        start("200 OK", TEXT)
        return Slow()

    caller = WSGICaller(app)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: caller.call(get(), Origin(), max_bytes=10**9))
        await anyio.to_thread.run_sync(begun.wait, 30)
        tasks.cancel_scope.cancel()
    go_on.set()
    assert await anyio.to_thread.run_sync(closed.wait, 30)


@pytest.mark.anyio
async def test_calls_that_never_come_back_take_a_bounded_number_of_threads() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        begun.release()
        go_on.wait(60)
        start("200 OK", TEXT)
        return [b"x"]

    caller = WSGICaller(app, max_threads=2)
    try:
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: caller.call(get(), Origin(), max_bytes=10))
                await anyio.to_thread.run_sync(begun.acquire)
                tasks.cancel_scope.cancel()
        with pytest.raises(CallerUnavailable, match="earlier requests"):
            await caller.call(get(), Origin(), max_bytes=10)
    finally:
        go_on.set()


def test_one_caller_serves_several_event_loops() -> None:
    """As after a fork, or where tests run each on a loop of its own."""
    caller = WSGICaller(early_enough)

    async def call() -> int:
        return (await caller.call(get(), Origin(), max_bytes=10)).status

    assert [anyio.run(call) for _ in range(3)] == [200, 200, 200]


def early_enough(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [b"x"]


user: ContextVar[str] = ContextVar("user", default="nobody")


def tells_user(environ: dict[str, Any], start: Start) -> Iterator[bytes]:
    found = user.get()
    user.set("left behind")
    start("200 OK", TEXT)
    yield found.encode()


@pytest.mark.anyio
async def test_context_variables_go_in_and_do_not_come_out() -> None:
    """Traces go on in the application; what it sets is not seen by the next request in the same thread."""
    caller = WSGICaller(tells_user)
    user.set("ada")
    for _ in range(2):
        assert (await caller.call(get(), Origin(), max_bytes=10)).body == b"ada"
    assert user.get() == "ada"
    assert (await WSGICaller(tells_user, context=Context).call(get(), Origin(), max_bytes=10)).body == b"nobody"
