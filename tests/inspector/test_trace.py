"""The recorded messages: complete, with their times, without credentials, within a bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ferrule.inspector.feed import Feed
from ferrule.inspector.trace import ENTRY_BYTES, MAX_OPEN, ConnectionTrace, MessageStore, TracingHttpClient
from ferrule.transports.http.backend import HttpClientRequest, HttpConnectFailed
from ferrule.wire.codec import decode
from ferrule.wire.types import META_SUBSCRIPTION_ID

URL = "http://server.example/mcp"


class Notes(Feed):
    """A feed whose events can be read directly."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def publish_event(self, kind: str, **facts: Any) -> None:
        self.lines.append(facts)


class Answer:
    """A ready-made answer in pieces."""

    def __init__(self, status: int, headers: Mapping[str, str], *pieces: bytes) -> None:
        self.status = status
        self.headers = headers
        self._pieces = [*pieces, b""]
        self.is_closed = False

    async def receive(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def aclose(self) -> None:
        self.is_closed = True


class Wire:
    """An HTTP client that gives ready-made answers."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self._answers = list(answers)

    async def open(self, request: HttpClientRequest) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Nothing to close."""


async def exchange(
    *answers: Answer | Exception, request: HttpClientRequest | None = None
) -> tuple[Notes, MessageStore]:
    """One request and its whole answer through the tracing client."""
    notes, store = Notes(), MessageStore()
    client = TracingHttpClient(Wire(*answers), ConnectionTrace("main", notes, store), URL)
    headers = {"content-type": "application/json", "authorization": "Bearer hush", "x-api-key": "hush"}
    body = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}'
    response = await client.open(request or HttpClientRequest("POST", URL, headers, body))
    while await response.receive():
        pass
    await response.aclose()
    return notes, store


@pytest.mark.anyio
async def test_a_json_answer_is_one_message_with_its_time() -> None:
    """The number of chunks in which the body arrives makes no difference."""
    text = b'{"jsonrpc":"2.0","id":7,"result":{"ok":true}}'
    notes, store = await exchange(Answer(200, {"content-type": "application/json; charset=utf-8"}, text[:9], text[9:]))
    asked, answered = notes.lines
    assert (asked["what"], asked["method"], asked["subject"]) == ("request", "tools/call", "add")
    assert (answered["what"], answered["method"]) == ("result", "tools/call")
    assert answered["took_ms"] >= 0
    kept = store.get(answered["number"])
    assert decode(kept[0])["result"] == {"ok": True}
    assert kept[1]["status"] == 200


@pytest.mark.anyio
async def test_each_event_of_a_stream_is_a_message() -> None:
    """The stream is split anywhere, with comments and an event that is not JSON."""
    stream = (
        b': hello\n\ndata: {"method":"notifications/progress","params":{}}\n\n'
        b'data: no json\n\ndata: {"id":7,"error":{"code":-1,"message":"no"}}\n\n'
    )
    pieces = [stream[at : at + 11] for at in range(0, len(stream), 11)]
    notes, _ = await exchange(Answer(200, {"content-type": "text/event-stream"}, *pieces))
    assert [line["what"] for line in notes.lines] == ["request", "notification", "raw", "error"]


@pytest.mark.anyio
async def test_credentials_are_not_kept() -> None:
    """Of either side."""
    answer = Answer(
        200, {"content-type": "application/json", "set-cookie": "hush", "x-auth-token": "hush", "x-more": "yes"}, b"{}"
    )
    _, store = await exchange(answer)
    kept = repr([store.get(number) for number in range(1, store.last + 1)])
    assert "hush" not in kept
    assert "yes" in kept


@pytest.mark.anyio
async def test_a_sign_in_elsewhere_is_named_and_not_kept() -> None:
    """The bodies of a token request and its response contain credentials."""
    request = HttpClientRequest(
        "POST", "http://issuer.example/token?code=hush", {"content-type": "application/json"}, b'{"secret":"hush"}'
    )
    notes, store = await exchange(
        Answer(200, {"content-type": "application/json"}, b'{"access_token":"hush"}'), request=request
    )
    assert [line["method"] for line in notes.lines] == ["POST /token", "200 POST /token"]
    assert "hush" not in repr([store.get(number) for number in range(1, store.last + 1)])


@pytest.mark.anyio
async def test_a_refusal_without_json_is_noted_with_its_status() -> None:
    """A proxy's page, a challenge."""
    notes, _ = await exchange(Answer(502, {"content-type": "text/html"}, b"<h1>Bad gateway"))
    assert notes.lines[-1]["method"] == "502 POST /mcp"
    assert notes.lines[-1]["status"] == 502


@pytest.mark.anyio
async def test_a_request_that_fails_is_noted_and_still_fails() -> None:
    """Recording does not change the result."""
    notes = Notes()
    client = TracingHttpClient(
        Wire(HttpConnectFailed(URL, "nobody there")), ConnectionTrace("main", notes, MessageStore()), URL
    )
    with pytest.raises(HttpConnectFailed):
        await client.open(HttpClientRequest("GET", URL))
    assert "nobody there" in notes.lines[-1]["method"]


def test_the_store_keeps_the_newest_within_its_bound() -> None:
    """A message larger than the bound is kept while it is the last one."""
    store = MessageStore(max_bytes=2 * (ENTRY_BYTES + 40) + 20)
    numbers = [store.put(b"x" * 40, None) for _ in range(4)]
    assert [store.get(number) is not None for number in numbers] == [False, False, True, True]
    big = store.put(b"y" * 500, None)
    assert store.get(big) is not None
    assert store.get(numbers[-1]) is None


def test_millions_of_tiny_messages_are_bounded_too() -> None:
    """A message takes more memory than its text: a server that repeats ``{}`` must not fill the memory."""
    store = MessageStore(max_bytes=100_000)
    numbers = [store.put(b"{}", {"headers": {"x": "y" * 1000}}) for _ in range(1000)]
    assert sum(store.get(number) is not None for number in numbers) < 100


def test_an_answer_is_matched_by_direction_and_id() -> None:
    """Both sides count their requests by themselves, so one id may be under way twice."""
    notes = Notes()
    trace = ConnectionTrace("main", notes, MessageStore())
    trace.note("out", {"id": 1, "method": "tools/call"})
    trace.note("in", {"id": 1, "method": "elicitation/create"})
    trace.note("out", {"id": 1, "result": {}})
    trace.note("in", {"id": 1, "result": {}})
    assert [line["method"] for line in notes.lines[2:]] == ["elicitation/create", "tools/call"]
    trace.note("in", {"id": "unknown", "result": {}})
    assert "took_ms" not in notes.lines[-1]


# -- which messages belong together -----------------------------------------------------------------------------------


def noted(*messages: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of messages on a pipe; `of` names the event, not the number."""
    notes = Notes()
    trace = ConnectionTrace("main", notes, MessageStore())
    for direction, message in messages:
        trace.note("out" if direction == "out" else "in", {"jsonrpc": "2.0", **message})
    return notes.lines


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    """A request."""
    return {"id": id, "method": method, "params": params}


def test_an_answer_names_its_request() -> None:
    """Also where the other side uses the same id."""
    lines = noted(
        ("out", request(1, "tools/call", name="add")),
        ("in", request(1, "elicitation/create", message="?")),
        ("out", {"id": 1, "result": {}}),
        ("in", {"id": 1, "result": {"isError": True, "content": []}}),
        ("in", {"id": 1, "result": {}}),
    )
    assert [line.get("of") for line in lines] == [None, 1, 2, 1, None]
    assert [line.get("is_error", False) for line in lines] == [False, False, False, True, False]


def test_progress_cancellation_and_log_belong_to_their_call() -> None:
    """By the token, by the id, and for the log as long as only one call runs."""
    lines = noted(
        ("out", request(1, "tools/call", name="a", _meta={"progressToken": "t"})),
        ("in", {"method": "notifications/message", "params": {"data": "x"}}),
        ("out", request(2, "tools/call", name="b", _meta={"progressToken": 1})),
        ("in", {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
        ("in", {"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}}),
        ("in", {"method": "notifications/progress", "params": {"progressToken": "other"}}),
        ("in", {"method": "notifications/message", "params": {"data": "x"}}),
        ("out", {"method": "notifications/cancelled", "params": {"requestId": 1}}),
        ("in", {"method": "notifications/tools/list_changed"}),
    )
    assert [line.get("of") for line in lines] == [None, 1, None, 3, 1, None, None, 1, None]


@pytest.mark.parametrize("result", [{"task": {"taskId": "t1"}}, {"resultType": "task", "taskId": "t1"}])
def test_requests_for_a_task_belong_to_the_call_that_made_it(result: dict[str, Any]) -> None:
    """In both eras; the state of an unknown task stands alone."""
    lines = noted(
        ("out", request(1, "tools/call", name="a")),
        ("in", {"id": 1, "result": result}),
        ("out", request(2, "tasks/get", taskId="t1")),
        ("in", {"id": 2, "result": {"taskId": "t1", "status": "working"}}),
        ("out", request(3, "tasks/get", taskId="t2")),
    )
    assert [line.get("of") for line in lines] == [None, 1, 1, 3, None]


def test_what_a_subscription_sends_belongs_to_it() -> None:
    """By the id of the request that listens."""
    lines = noted(
        ("out", request(7, "subscriptions/listen")),
        ("in", {"method": "notifications/tools/list_changed", "params": {"_meta": {META_SUBSCRIPTION_ID: 7}}}),
        ("in", {"method": "notifications/message", "params": {"data": "x"}}),
    )
    assert [line.get("of") for line in lines] == [None, 1, None]


def test_open_requests_are_bounded() -> None:
    """A server may ask and never take the answer."""
    notes = Notes()
    trace = ConnectionTrace("main", notes, MessageStore())
    for number in range(MAX_OPEN + 1):
        trace.note("in", {"jsonrpc": "2.0", **request(number, "ping")})
    for number in (0, MAX_OPEN):
        trace.note("out", {"jsonrpc": "2.0", "id": number, "result": {}})
    assert [line.get("of") for line in notes.lines[-2:]] == [None, MAX_OPEN + 1]
