"""What `docs/how-to/gateway.md` promises: through `proxy` everything arrives as it does without it.

Every request, notification and question of the two newest revisions of either era is filled with every member that its
type knows, and with an unknown one in each object, and sent both ways: once to the server, once through the
proxy. What arrives at either end must be the same. Nothing here is a list written by hand: methods come from the
revisions' tables, members from the wire types, so that a new one is met.
"""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import anyio
import msgspec
import pytest

from ferrule import Client, MCPError, Server
from ferrule.client.config import read_target
from ferrule.client.gateway.proxy import proxy
from ferrule.client.parts import ClientParts
from ferrule.client.server_messages import ServerHooks
from ferrule.client.settings import settings_of
from ferrule.kernel.changes.bus import LIST_CHANGED_METHODS, RESOURCE_UPDATED, Event
from ferrule.protocol.errors import ResourceNotFound
from ferrule.wire.revisions import REVISIONS, Revision, project_params, project_result
from ferrule.wire.struct import OpenBundle
from ferrule.wire.types import META_SUBSCRIPTION_ID, Implementation, ResourceContents, ToolContentBlock
from ferrule.wire.types.content import CONTENT_KINDS

pytestmark = pytest.mark.anyio

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = [MODERN, LEGACY]
PAIRS = [(before, behind) for before in ERAS for behind in ERAS]
UNKNOWN = {"xUnknown": {"deep": [1, "two"]}}
BLOCKS = {
    "text": {"text": "t"},
    "image": {"data": "aGk=", "mimeType": "image/png"},
    "audio": {"data": "aGk=", "mimeType": "audio/wav"},
    "resource": {"resource": {"uri": "u://x", "text": "t", "mimeType": "m/t", **UNKNOWN}},
    "resource_link": {"uri": "u://x", "name": "n", "title": "t", "description": "d", "mimeType": "m/t", "size": 3},
    "x-kind": {"payload": 1},
}
ROUNDS = ("inputResponses", "requestState")
"""Members of params that belong to a round and are tried where there is one."""
HANDSHAKE = ("initialize", "server/discover", "ping", "notifications/initialized", "subscriptions/listen")


def filled(type_: Any, depth: int = 0) -> Any:
    """A JSON value of a wire type with every member there is."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return filled(arguments[0], depth)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        chosen = [
            argument for argument in arguments if argument is not type(None) and argument is not msgspec.UnsetType
        ]
        structs = [
            argument for argument in chosen if isinstance(argument, type) and issubclass(argument, msgspec.Struct)
        ]
        return filled((structs or chosen)[0], depth)
    if origin is list:
        return blocks() if arguments[0] is ToolContentBlock else [filled(arguments[0], depth + 1)]
    if origin is dict:
        return {"any": filled(arguments[1], depth + 1)}
    if type_ is ToolContentBlock:
        return blocks()[0]
    if type_ is ResourceContents:
        return {"uri": "u://x", "mimeType": "m/t", "text": "t", "_meta": {"any": 1}, **UNKNOWN}
    if isinstance(type_, type) and issubclass(type_, OpenBundle):
        keys = {key.wire: filled(key.type, depth + 1) for key in type_.__known_keys__.values()}
        return {**keys, **UNKNOWN}
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        config = type_.__struct_config__
        made = {info.encode_name: filled(info.type, depth + 1) for info in msgspec.structs.fields(type_)}
        return {**made, **({config.tag_field: config.tag} if config.tag_field else {}), **UNKNOWN}
    return {str: "text", int: 1, float: 1, bool: True}.get(type_, {"a": 1})


def blocks() -> list[Any]:
    """A block of each kind."""
    assert set(BLOCKS) >= CONTENT_KINDS
    common = {"annotations": {"audience": ["user"], "priority": 1, "lastModified": "2026-01-01"}, "_meta": {"any": 1}}
    return [{"type": kind, **members, **common, **UNKNOWN} for kind, members in BLOCKS.items()]


def filled_result(revision: Revision, method: str) -> dict[str, Any]:
    """The complete result of a request, as such a server may write it."""
    result = cast("dict[str, Any]", filled(revision.requests[method][1]))
    result.pop("resultType", None)
    if revision.has_result_type:
        result["resultType"] = "complete"
    for key in ("ttlMs", "cacheScope"):
        if not revision.has_cache_hints:
            result.pop(key, None)
    return result


def filled_params(revision: Revision, method: str) -> dict[str, Any]:
    """The params of a request, as such a client may write them, without what belongs to a round."""
    params = cast("dict[str, Any]", filled(revision.requests[method][0]))
    params["_meta"] = {"any": 1, "traceparent": "00-x"}
    return {key: value for key, value in params.items() if key not in ROUNDS}


class Behind:
    """A low-level server that notes what arrives and answers with everything there is."""

    def __init__(self, spoken: Revision | None = None) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.answers: list[Any] = []
        self.say: list[tuple[str, dict[str, Any]]] = []
        self.ask: list[tuple[str, dict[str, Any]]] = []
        self.server: Server[Any] = Server(
            Implementation("behind", "9", title="Behind"),
            logging=True,
            resource_updates=True,
            list_changed=["tools", "prompts"],
        )
        newest = REVISIONS[MODERN]
        for revision in (REVISIONS[LEGACY], newest):
            for method in revision.requests:
                if method not in HANDSHAKE:
                    self._serve(method, revision, spoken)
        for method in REVISIONS[LEGACY].notifications:
            self.server.add_notification_handler(method, self._note, params_type=dict[str, Any])
        self.server.add_notification_handler("notifications/x", self._note, params_type=dict[str, Any])
        self.server.add_request_handler("x/own", self._own, params_type=dict[str, Any], trusted=True)

    async def _note(self, ctx: Any) -> None:
        self.seen.append((ctx.method, ctx.params))

    async def _own(self, ctx: Any) -> Any:
        await self._note(ctx)
        return {"own": 1, **UNKNOWN}

    def _serve(self, method: str, revision: Revision, spoken: Revision | None) -> None:
        async def handle(ctx: Any) -> Any:
            await self._note(ctx)
            is_call = method == "tools/call"
            for said, params in self.say if is_call else ():
                await ctx.session.notify(said, params)
            for asked, params in self.ask if is_call else ():
                self.answers.append(await ctx.session.send_request(asked, params))
            result = filled_result(ctx.revision if method in ctx.revision.requests else revision, method)
            return result if spoken is None else project_result(spoken, method, result)

        self.server.add_request_handler(method, handle, params_type=dict[str, Any], trusted=True)


class Before(ServerHooks):
    """A client that notes what arrives and answers with everything there is."""

    def __init__(self, target: Any, **options: Any) -> None:
        found = read_target(target)
        self.heard: list[tuple[str, Any]] = []
        self.parts = ClientParts(found, settings_of(cast("Any", options), found), self)
        self.request = self.parts.requests.request

    async def __aenter__(self) -> Before:
        await self.parts.sessions.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.parts.sessions.aclose()

    @property
    def discovered(self) -> Any:
        return self.parts.sessions.required().raw

    async def take_notification(self, method: str, params: Any) -> None:
        self.heard.append((method, params))

    async def answer_request(self, dctx: Any, method: str, params: Any) -> Any:
        self.heard.append((method, params))
        return filled(REVISIONS[LEGACY].server_requests[method][1])

    async def prepare(self, session: Any) -> None:
        pass

    async def finish(self, call: Any, result: Any) -> Any:
        return result

    def capabilities(self, revision: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
        return {**found, "experimental": {"x": 1}, "xUnknown": {"y": 1}}


def of_the_message(value: Any) -> Any:
    """What arrived, without what each hop writes for itself."""
    if not isinstance(value, dict):
        return value
    meta = value.get("_meta")
    kept = {key: item for key, item in value.items() if key != "_meta"}
    if isinstance(meta, dict):
        hop = ("progressToken", META_SUBSCRIPTION_ID)
        kept["_meta"] = {key: item for key, item in meta.items() if key not in hop}
    return kept


async def outcome(server: Any, behind: Behind, before: str, **calls: Any) -> dict[str, Any]:
    """What both ends saw of some requests."""
    found: dict[str, Any] = {}
    async with Before(server, mode=before, cache=False, log_level="debug") as client:
        raw = dict(client.discovered)
        found["introduction"] = {k: v for k, v in raw.items() if k != "protocolVersion"}
        for method, params in calls["requests"].items():
            behind.seen.clear()
            client.heard.clear()
            meta = params.pop("_meta") if "_meta" in params else None
            found[method] = await client.request(method, params, meta=meta)
            arrived = [(each, of_the_message(p)) for each, p in behind.seen if each == method]
            found[f"{method} arrived"] = arrived
            found[f"{method} heard"] = [(each, of_the_message(p)) for each, p in client.heard]
        found["answers"] = [of_the_message(answer) for answer in behind.answers]
    return found


def all_requests(revision: Revision, other: Revision) -> dict[str, Any]:
    """Every request that both sides have, or that no revision defines."""
    shared = [method for method in revision.requests if method in other.requests and method not in HANDSHAKE]
    return {**{method: filled_params(revision, method) for method in shared}, "x/own": {"a": 1, **UNKNOWN}}


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_request_and_result_passes(before: str, behind: str) -> None:
    """Both ends see what they would see without a proxy; across the eras, as far as the one behind can say it."""
    front, back = REVISIONS[before], REVISIONS[behind]
    straight, passed = Behind(None if front is back else back), Behind()
    expected = await outcome(straight.server, straight, before, requests=all_requests(front, back))
    found = await outcome(proxy(passed.server, mode=behind), passed, before, requests=all_requests(front, back))
    assert set(found) == set(expected)
    for key, value in expected.items():
        if front is not back:
            value, found[key] = without_envelope(value), without_envelope(found[key])
        assert found[key] == value, key


def without_envelope(value: Any) -> Any:
    """A value without the members that only one era has."""
    if isinstance(value, tuple):
        return tuple(without_envelope(item) for item in value)
    if isinstance(value, list):
        return [without_envelope(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = ("ttlMs", "cacheScope", "resultType", "extensions", "tasks", "task")
    kept = {key: without_envelope(item) for key, item in value.items() if key not in own}
    meta = {k: v for k, v in kept.pop("_meta", {}).items() if not k.startswith("io.modelcontextprotocol/")}
    return {**kept, "_meta": meta} if meta else kept


NOTICES = sorted(set(REVISIONS[MODERN].server_notifications) | set(REVISIONS[LEGACY].server_notifications))
HOP_NOTICES = ("notifications/cancelled", "notifications/progress", "notifications/subscriptions/acknowledged")


def filled_notice(revision: Revision, method: str) -> dict[str, Any]:
    """The params of a notification with everything there is."""
    params = {**cast("dict[str, Any]", filled(revision.server_notifications[method])), "_meta": {"any": 1}}
    return {**params, **({"level": "warning"} if "level" in params else {})}


def notices(front: Revision, back: Revision) -> list[tuple[str, dict[str, Any]]]:
    """What a server behind may say during a call, filled, as far as both sides have it; modern ones say of changes
    elsewhere."""
    said = [m for m in NOTICES if m in front.server_notifications and m in back.server_notifications]
    said = [
        m
        for m in said
        if m not in HOP_NOTICES and (m == "notifications/message" or not (front.is_modern or back.is_modern))
    ]
    return [(m, project_params(back, m, filled_notice(back, m))) for m in said] + [("notifications/x/own", {"a": 1})]


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_notification_of_a_call_passes_before_its_answer(before: str, behind: str) -> None:
    """Without a separate subscription: a message on the stream of a call arrives on the stream of that call."""
    front, back = REVISIONS[before], REVISIONS[behind]
    requests = {"tools/call": {"name": "x", "arguments": {}}}
    heard: list[Any] = []
    for through in (False, True):
        end = Behind()
        end.say = notices(front, back)
        server = proxy(end.server, mode=behind) if through else end.server
        heard.append((await outcome(server, end, before, requests=requests))["tools/call heard"])
    assert [method for method, _ in heard[0]] == [method for method, _ in notices(front, back)]
    assert heard[1] == heard[0]


async def test_every_question_and_answer_of_a_legacy_server_passes() -> None:
    """With every member of params and results, and the client's errors."""
    revision = REVISIONS[LEGACY]
    asked = []
    for method, (params, _) in revision.server_requests.items():
        if method != "ping":
            asked.append((method, {**filled(params), "_meta": {"any": 1}}))
    seen: list[Any] = []
    for through in (False, True):
        end = Behind()
        end.ask = asked
        server = proxy(end.server, mode=LEGACY) if through else end.server
        found = await outcome(server, end, LEGACY, requests={"tools/call": {"name": "x"}})
        seen.append((found["tools/call heard"], found["answers"]))
    assert len(seen[0][0]) == len(asked)
    assert seen[1] == seen[0]


async def test_every_question_of_a_modern_server_passes() -> None:
    """As a round, byte for byte, and so do the answers and the state."""
    revision = REVISIONS[MODERN]
    questions = {
        method: {"method": method, "params": project_params(revision, method, filled(types_[0]))}
        for method, types_ in REVISIONS[LEGACY].server_requests.items()
        if method in ("elicitation/create", "sampling/createMessage", "roots/list")
    }
    seen: list[Any] = []
    for through in (False, True):
        server: Server[Any] = Server("asks")
        arrived: list[Any] = []

        async def call(ctx: Any, arrived: list[Any] = arrived) -> Any:
            arrived.append(of_the_message(ctx.params))
            if "requestState" in ctx.params:
                return filled_result(revision, "tools/call")
            return {"resultType": "input_required", "inputRequests": questions, "requestState": "s", **UNKNOWN}

        server.add_request_handler("tools/list", call, params_type=dict[str, Any], trusted=True)
        server.add_request_handler("tools/call", call, params_type=dict[str, Any], trusted=True)
        async with Before(proxy(server) if through else server, cache=False) as client:
            first = await client.request("tools/call", {"name": "x"})
            answers = {method: {"anything": 1} for method in first["inputRequests"]}
            sent = {"name": "x", "requestState": first["requestState"], "inputResponses": answers}
            seen.append((first, await client.request("tools/call", sent), arrived))
    assert seen[1] == seen[0]


async def test_every_notification_of_a_legacy_client_passes() -> None:
    """A legacy server gets them on the session of that client, also those that no revision defines."""
    revision = REVISIONS[LEGACY]
    end = Behind()
    said = {
        method: {**filled(type_), "_meta": {"any": 1}}
        for method, type_ in revision.notifications.items()
        if method not in (*HANDSHAKE, *HOP_NOTICES)
    }
    async with Before(proxy(end.server, mode=LEGACY), mode=LEGACY) as client:
        await client.request("tools/list")
        end.seen.clear()
        for method, params in {**said, "notifications/x": {"a": 1, **UNKNOWN}}.items():
            await client.parts.sessions.required().channel.notify(method, params)
        with anyio.fail_after(30):
            while len(end.seen) < len(said) + 1:
                await anyio.sleep(0.01)
    assert dict(end.seen) == {**said, "notifications/x": {"a": 1, **UNKNOWN}}


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_what_a_client_says_of_itself_reaches_the_server(before: str, behind: str) -> None:
    """Its name and capabilities, with unknown members."""
    seen: list[Any] = []
    for through in (False, True):
        end = Behind()

        async def tools(ctx: Any) -> Any:
            said = ctx.session.connection
            seen.append((ctx.session.client_info.name, said.client_capabilities_raw))
            return {"tools": []}

        end.server.add_request_handler("tools/list", tools, params_type=dict[str, Any], trusted=True)
        server = proxy(end.server, mode=behind) if through else end.server
        async with Before(server, mode=before, client_info=Implementation("me", "3")) as client:
            await client.request("tools/list")
    assert seen[0] == seen[1]
    assert seen[0][0] == "me"


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_error_passes(before: str, behind: str) -> None:
    """Code, message and data; a resource that does not exist has the code of the revision in front."""
    end = Behind()

    async def call(ctx: Any) -> Any:
        raise MCPError("Own", code=-31999, data={"why": [1], **UNKNOWN})

    async def read(ctx: Any) -> Any:
        raise ResourceNotFound("u://x", code=ctx.revision.missing_resource_code)

    end.server.add_request_handler("tools/call", call)
    end.server.add_request_handler("resources/read", read)
    async with Client(proxy(end.server, mode=behind), mode=before) as client:
        with pytest.raises(MCPError) as raised:
            await client.request("tools/call", {"name": "x"})
        assert (raised.value.message, raised.value.code, raised.value.data) == ("Own", -31999, {"why": [1], **UNKNOWN})
        with pytest.raises(MCPError) as raised:
            await client.request("resources/read", {"uri": "u://x"})
        assert raised.value.code == REVISIONS[before].missing_resource_code


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_change_passes_to_the_listeners(before: str, behind: str) -> None:
    """With every member of the notification, in either era's way of listening."""
    changes = [
        Event(method, method, {**UNKNOWN, "_meta": {"any": 1}})
        for kind, method in LIST_CHANGED_METHODS.items()
        if kind != "resources"
    ]
    changes.append(Event(RESOURCE_UPDATED, "u://x", {"uri": "u://x", **UNKNOWN, "_meta": {"any": 1}}))
    heard: list[Any] = []

    async def nothing(ctx: Any) -> Any:
        return {}

    for through in (False, True):
        end: Server[Any] = Server("behind", list_changed=["tools", "prompts"], resource_updates=True)
        for method in ("tools/list", "prompts/list", "resources/list"):
            end.add_request_handler(method, nothing, trusted=True)
        server = proxy(end, mode=behind) if through else end
        async with Client(server, mode=before) as client:
            async with client.listen(tools=True, prompts=True, uris=["u://x"]) as listening:
                for change in changes:
                    end.bus.publish(change)
                with anyio.fail_after(30):
                    found = [await anext(listening) for _ in changes]
        heard.append(sorted((event.method, repr(of_the_message(event.params))) for event in found))
    assert len(heard[0]) == 3
    assert heard[1] == heard[0]


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_progress_and_the_end_of_a_call_pass(before: str, behind: str) -> None:
    """Progress under the client's own token; a client that gives up ends the call behind."""
    end, ended = Behind(), anyio.Event()

    async def call(ctx: Any) -> Any:
        if ctx.params["name"] == "wait":
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()
        for number in (1, 2):
            await ctx.session.progress(number, 2, f"step {number}")
        return {"content": []}

    end.server.add_request_handler("tools/call", call, params_type=dict[str, Any], trusted=True)
    seen: list[Any] = []
    async with Client(proxy(end.server, mode=behind), mode=before) as client:
        await client.request("tools/call", {"name": "x"}, on_progress=lambda *said: seen.append(said))
        assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]
        with anyio.move_on_after(0.2):
            await client.request("tools/call", {"name": "wait"})
        with anyio.fail_after(30):
            await ended.wait()


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_many_changes_cause_few_notifications(before: str, behind: str) -> None:
    """Ten thousand changes of one list cause one notification or few; the next call is served."""
    end = Behind()
    async with Client(proxy(end.server, mode=behind), mode=before) as client:
        async with client.listen(tools=True) as listening:
            for _ in range(10_000):
                end.server.bus.publish(Event.list_changed("tools"))
            with anyio.fail_after(30):
                assert (await anext(listening)).kind == "tools"
        assert await client.request("x/own", {"a": 1}) is not None
