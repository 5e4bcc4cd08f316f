"""The tools of a gateway as the fast path of its server sees them: each call goes to the server behind as it came.

`GatewayTools` finds the server and the name of a tool; `GatewayTool` sends a call and writes its result, whose parts
stay the bytes that the server has sent. An outcome of another kind (an error, a question, content that the client's
revision has in another form) continues in the gateway's handler of ``tools/call``, which takes it in place of sending.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import UNSET, Raw, Struct

from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.gateway.backend_sessions import BackendSession, serving
from ferrule.client.gateway.plain.sending import EncodedPath, PlainForward, first_outcome
from ferrule.client.gateway.views import GatewayViews
from ferrule.kernel.concurrency.from_thread import from_thread, runs_in
from ferrule.kernel.fast_path.fast_tools import OWNER, FastCall, FastTool, WriteResult
from ferrule.protocol.errors import FerruleError
from ferrule.search.definitions import THE_THREE
from ferrule.wire.codec import decode, encode, plain_decoder, plain_encode, to_builtins
from ferrule.wire.plain_answers import EncodedResult, names_its_server
from ferrule.wire.plain_calls import ABSENT, NO_ARGUMENTS, decode_plain_call, without_progress_token
from ferrule.wire.types import META_SERVER_INFO

if TYPE_CHECKING:
    from ferrule.client.fast_path.prepared import PreparedCall
    from ferrule.client.gateway.proxy import Proxy
    from ferrule.client.gateway.routes import GatewayRoutes
    from ferrule.client.gateway.upstreams.upstream import Upstream
    from ferrule.kernel.concurrency.first_step import StartedCoroutine
    from ferrule.kernel.server import Handler, Server, ServerRequestContext
    from ferrule.wire.revisions import Revision

__all__ = ["MAX_NAMES", "MAX_NAME_CHARS", "GatewayTool", "GatewayTools"]

MAX_NAMES: Final = 4096
"""Names of tools that are remembered with their servers; at the limit all are looked up again."""
MAX_NAME_CHARS: Final = 256
"""Characters of a name that is remembered; calls of longer ones are no plain calls."""
_MAX_META_BYTES: Final = 4096
_TOKEN: Final = b'"progressToken"'

_read_object: Final = plain_decoder(dict[str, Any])


class GatewayTools:
    """The tools of a gateway; see `ferrule.kernel.fast_path.fast_tools.FastTools`.

    Args:
        server: the server in front.
        routes: which server has a name.
        own: the gateway's own middleware, which has no effect on calls of tools.
        is_own: returns whether the gateway itself serves a name.

    Attributes:
        handler: the handler of ``tools/call`` of the gateway.
        writers: see `FastTool`.
    """

    def __init__(self, server: Server[Any], routes: GatewayRoutes, own: Any, is_own: Callable[[str], bool]) -> None:
        self._server = server
        self._routes = routes
        self._own = own
        self._is_own = is_own
        self._known: dict[str, GatewayTool] = {}
        self._version = -1
        self._judged: list[Any] = []
        self._views: list[GatewayViews] = []
        self.handler: Handler = _no_handler
        self.fast_calls = 0
        self.barred: list[Any] = []
        self.writers: dict[str, WriteResult] = {}

    def find_fast(self, name: str, sender: Any = OWNER, /) -> FastTool | None:
        """See `FastTools`."""
        if self._server.middleware != self._judged:
            self._judge()
        if self.barred:
            return None
        for views in self._views:
            if views.views:
                return None
        if self._version != self._routes.version:
            self._known.clear()
            self._version = self._routes.version
        tool = self._known.get(name) or self._find(name)
        return tool if tool is not None and tool.upstream.keeper.is_up else None

    def _judge(self) -> None:
        """Look whether other middleware wants to see the calls."""
        self._judged = list(self._server.middleware)
        others = [each for each in self._judged if each is not self._own]
        self._views = [each for each in others if isinstance(each, GatewayViews)]
        self.barred = self._judged if len(self._views) < len(others) else []

    def _find(self, name: str) -> GatewayTool | None:
        routes = self._routes
        if len(name) > MAX_NAME_CHARS or name in THE_THREE or self._is_own(name) or routes.is_open("tools", name):
            return None
        found = routes.of_name("tools", name)
        if found is None or found[0].proxy is None or found[0].has_limits or found[0].settings.is_per_user:
            return None
        if len(self._known) >= MAX_NAMES:
            self._known.clear()
        made = self._known[name] = GatewayTool(self, name, found[0], found[0].proxy, found[1])
        return made


class _Route(Struct, gc=False):
    """The way of one call.

    Attributes:
        arguments: as the client has sent them.
        backend: the session with the server behind.
        path, prepared: see `ferrule.client.gateway.plain.sending.PlainSender`.
        has_token: whether the client asks for progress.
    """

    arguments: bytes | Raw
    backend: BackendSession
    path: EncodedPath
    prepared: PreparedCall
    has_token: bool


class GatewayTool:
    """One tool of a server behind; see `ferrule.kernel.fast_path.fast_tools.FastTool`.

    Args:
        tools: the tools of the gateway.
        name: its name in front.
        upstream, proxy: its server.
        own_name: its name there.
    """

    __slots__ = ("_own_name", "_proxy", "_tools", "name", "upstream", "writers")

    waits_plainly: ClassVar[bool] = True

    def __init__(self, tools: GatewayTools, name: str, upstream: Upstream, proxy: Proxy, own_name: str) -> None:
        self._tools = tools
        self.name = name
        self.upstream = upstream
        self._proxy = proxy
        self._own_name = own_name
        self.writers = tools.writers

    def decode(self, arguments: bytes | Raw, /) -> bytes | Raw:
        """See `FastTool`: the arguments stay bytes, without line breaks, which would end a message of a stream."""
        if arguments is NO_ARGUMENTS:
            return b""
        _read_object(arguments)
        if b"\n" in bytes(arguments) or b"\r" in bytes(arguments):
            raise ValueError("The arguments have line breaks")
        return arguments

    def admits(self, call: FastCall, /) -> bool:
        """See `FastTool`; the way of the call takes the place of its arguments."""
        given = decode_plain_call(call.frame).params.meta
        meta, has_token = None if given is ABSENT else bytes(given), False
        if meta is not None:
            if len(meta) > _MAX_META_BYTES:
                return False
            if _TOKEN in meta:
                # The number differs in each call, and the prepared call does not depend on it.
                meta, has_token = without_progress_token(meta), True
                if _TOKEN in meta:
                    return False
        arguments = call.arguments
        client = call.carrier.client_of(call) if call.sender.revision.has_sessions else None
        backend, client_key = self._proxy.plain_backend(client)
        if backend is None:
            return False
        sender, has_arguments = backend.client.plain, arguments != b""
        path = sender.ready()
        if path is None:
            return False
        key: Hashable = (self._own_name, client_key, meta, has_arguments, has_token)
        prepared = sender.prepared.get(key)
        if prepared is None:
            client = client or call.carrier.client_of(call)
            kept = self._proxy.meta_of_plain(client, {} if meta is None else decode(meta))
            if kept is None:
                return False
            prepared = sender.prepare(key, self._own_name, kept, has_arguments=has_arguments, has_token=has_token)
            if prepared is None:
                return False
        call.arguments = _Route(arguments, backend, path, prepared, has_token)
        return True

    async def start(self, call: FastCall, /) -> EncodedResult | FirstOutcome:
        """See `FastTool`."""
        route: _Route = call.arguments
        upstream, backend = self.upstream, route.backend
        started = monotonic()
        forward: Any = PlainForward(call)
        token = serving.set((backend, forward, serving.get()))
        backend.active.append(forward)
        backend.users += 1
        upstream.active += 1
        upstream.lists.expire()
        try:
            on_progress = forward.progress if route.has_token else None
            outcome = await backend.client.plain.send(route.path, route.prepared, route.arguments, on_progress)
        except (FerruleError, OSError) as error:
            outcome = FirstOutcome(started, error=error)
        finally:
            upstream.active -= 1
            self._proxy.end_plain(backend, forward)
            serving.reset(token)
        if type(outcome) is EncodedResult:
            upstream.requests += 1
            upstream.keeper.succeed()
        return outcome

    def leave(self, call: FastCall, /) -> None:
        """See `FastTool`; there is nothing to reset."""

    def make_writer(self, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
        """See `FastTool`."""
        return _writer_for(revision, finish)

    def request_of(self, call: FastCall, /) -> ServerRequestContext[Any]:
        """See `FastTool`."""
        request = call.request
        if request is None:
            if not runs_in(call.loop):
                return from_thread(call.loop, lambda: self.request_of(call))
            request = call.request = call.carrier.make_request(call)
        return request

    def go_on(self, call: FastCall, begun: StartedCoroutine) -> Handler:
        """See `FastTool`: the gateway's handler takes an outcome in place of sending the call."""
        general = self._tools.handler

        async def handler(request: ServerRequestContext[Any]) -> Any:
            outcome = await begun
            if type(outcome) is EncodedResult:
                return _decoded(outcome)
            token = first_outcome.set(outcome)
            try:
                return await general(request)
            finally:
                first_outcome.reset(token)

        return handler


async def _no_handler(ctx: ServerRequestContext[Any], /) -> Any:
    raise NotImplementedError


# -- results ----------------------------------------------------------------------------------------------------------

_TEXT: Final[Mapping[str, Any]] = {"type": "text", "text": "x"}
_IMAGE: Final[Mapping[str, Any]] = {"type": "image", "data": "eA==", "mimeType": "image/png"}
_SAMPLES: Final[tuple[Mapping[str, Any], ...]] = (
    {"content": []},
    {"content": [], "structuredContent": {}},
    {
        "content": [_TEXT, _IMAGE],
        "structuredContent": {"a": [1, {"b": None}]},
        "isError": True,
        "_meta": {"a": 1},
        "resultType": "complete",
    },
)
"""Results of every form that `EncodedResult` has, with an object as the structured value."""
_NO_OBJECTS: Final[tuple[Any, ...]] = ("x", 1, 1.5, True, [], [{}])
_LEAST_BLOCK: Final = len('[{"type":"text"}]')
"""Bytes of content that is not empty."""


def _writer_for(revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
    """Return the function that writes results for a revision.

    It does what the general path does with the samples; it writes nothing where that changes them in another way than
    by the wrapper of structured values that are no objects.
    """
    stamp: dict[str, Any] = {}
    for sample in _SAMPLES:
        made: dict[str, Any] = dict(to_builtins(finish(sample)))
        expected = {key: value for key, value in sample.items() if key not in ("resultType", "_meta")}
        meta = made.pop("_meta", {})
        stamp = {key: value for key, value in meta.items() if key != "a"}
        kind = made.pop("resultType", None)
        if made != expected or not {META_SERVER_INFO}.issuperset(stamp) or bool(kind) is not revision.has_result_type:
            return _leave_it
    begin = b',"result":{"resultType":"complete","content":' if revision.has_result_type else b',"result":{"content":'
    own_name = b',"_meta":' + encode(stamp) if stamp else b""
    wrapper = _wrapper_of(finish)

    def write(value: Any) -> tuple[bytes, ...] | None:
        if type(value) is not EncodedResult:
            return None
        parts: list[Any] = [value.content]
        if value.structured_content is not ABSENT:
            structured = bytes(value.structured_content)
            if structured.startswith(b"{"):
                parts += (b',"structuredContent":', structured)
            elif wrapper is None or structured == b"null" or len(bytes(value.content)) < _LEAST_BLOCK:
                return None
            else:
                parts += (b',"structuredContent":', wrapper[0], structured, wrapper[1])
        if value.is_error is not UNSET:
            parts += (b',"isError":', plain_encode(value.is_error))
        if value.meta is not ABSENT:
            if own_name and not names_its_server(value):
                return None
            parts += (b',"_meta":', value.meta)
        else:
            parts.append(own_name)
        return begin, b"".join(parts), b"}}"

    return write


def _wrapper_of(finish: Callable[[Any], Any]) -> tuple[bytes, bytes] | None:
    """Return what stands before and after a structured value that is no object; ``None`` if that is not certain.

    Only for results with content: the general path may write the value into content that is empty.
    """
    given = [{"content": [_TEXT], "structuredContent": value} for value in _NO_OBJECTS]
    made = [to_builtins(finish(each))["structuredContent"] for each in given]
    if made == list(_NO_OBJECTS):
        return b"", b""
    return (b'{"result":', b"}") if made == [{"result": value} for value in _NO_OBJECTS] else None


def _leave_it(value: Any) -> None:
    return None


def _decoded(result: EncodedResult) -> dict[str, Any]:
    """Return a result as the handlers of a proxy return it."""
    made: dict[str, Any] = {"content": decode(bytes(result.content))}
    if result.structured_content is not ABSENT:
        made["structuredContent"] = decode(bytes(result.structured_content))
    if result.is_error is not UNSET:
        made["isError"] = result.is_error
    if result.result_type is not UNSET:
        made["resultType"] = result.result_type
    if result.meta is not ABSENT:
        made["_meta"] = decode(bytes(result.meta))
    return made
