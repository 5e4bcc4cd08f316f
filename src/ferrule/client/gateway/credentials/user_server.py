"""One server behind a gateway that is used with each caller's own credentials.

`UserServer` is a server in this process that stands for it: it has a `proxy` for each caller, made when the caller
first needs it, with connections and sessions of its own. So nothing of one caller is ever sent with the credential of
another.

A caller who has not signed in sees one tool, ``sign_in``. A call that needs a sign-in answers with the link: as a
question (elicitation in URL mode) to clients that can show one, else as the text of a failed call. After it the real
lists appear, and a changed list is announced.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.auth.errors import AuthError
from ferrule.client.gateway.backend_sessions import declared_by
from ferrule.client.gateway.credentials.caller import caller_id, caller_now
from ferrule.client.gateway.credentials.sign_in import SignIn, SignInRequired
from ferrule.client.gateway.credentials.user_auth import SignedInUser
from ferrule.client.gateway.proxy import DependsOnCaller, Proxy, proxy
from ferrule.client.targets import HttpTarget
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.errors import InvalidParams, LocalError, MCPError
from ferrule.transports.background import Background
from ferrule.wire.json_types import is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.client.options import ClientOptions
    from ferrule.kernel.dispatch import TransportContext
    from ferrule.wire.revisions import Revision

__all__ = ["MAX_USERS", "SIGN_IN_TOOL", "MakeAuth", "UserServer"]

logger = logging.getLogger("ferrule.client.gateway")

MakeAuth = Callable[[str, "TransportContext", "UserServer"], Any]
"""``(caller's id, transport context, server) -> auth``: the credentials of one caller, as for ``Client(auth=…)``."""

MAX_USERS: Final = 1000
"""Callers whose connections to one server are open; the one that was used longest ago is closed first."""
SIGN_IN_TOOL: Final = "sign_in"
WAIT_S: Final = 50.0
"""Seconds that a call waits for a sign-in after its client has shown the link; less than usual time limits of calls."""

_STATE: Final = "ferrule-sign-in"
_KEY: Final = "ferrule_sign_in"
_OWN: Final = frozenset({"initialize", "server/discover", "ping", "subscriptions/listen", "logging/setLevel"})
_EMPTY: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_KINDS: Final = ("tools", "prompts", "resources")


class _User:
    """The connections of one caller."""

    __slots__ = ("auth", "in_use", "is_open", "life", "lock", "proxy")

    def __init__(self, made: Proxy, auth: Any) -> None:
        self.proxy = made
        self.auth = auth
        self.life = AsyncExitStack()
        self.lock = anyio.Lock()
        self.is_open = False
        self.in_use = 0


class UserServer:
    """A server behind, with the credentials of each caller.

    Args:
        name: its name in the configuration.
        target: where it is.
        make_auth: makes the credentials of one caller.
        options: options of the clients that connect to it, as for `Client`.

    Attributes:
        server: the server in this process that stands for it.
        background: runs sign-ins.
    """

    def __init__(self, name: str, target: HttpTarget, make_auth: MakeAuth, options: ClientOptions) -> None:
        self.name = name
        self._target = target
        self._make_auth = make_auth
        self._options = options
        self._users: OrderedDict[str, _User] = OrderedDict()
        self.background = Background()
        self.server: Server[Any] = Server(
            name, lifespan=self._lifespan, middleware=[self._serve], list_changed=_KINDS, logging=True
        )
        self.server.attachments[UserServer] = self
        self.server.attachments[DependsOnCaller] = DependsOnCaller()
        self.server.capability_sources.append(_capabilities)

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        self.background = Background()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.background.aclose()
                users = list(self._users.values())
                self._users.clear()
                for user in users:
                    await user.life.aclose()

    def announce(self) -> None:
        """Announce that the lists have changed: somebody has signed in."""
        for kind in _KINDS:
            self.server.bus.publish(Event.list_changed(kind))

    # -- one request --------------------------------------------------------------------------------------------------

    async def _serve(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Middleware: forward every request of the protocol with the credentials of its caller."""
        if ctx.request_id is None or ctx.method in _OWN:
            return await call_next(ctx)
        user = await self._user(ctx.transport)
        user.in_use += 1
        try:
            result = await self._for_user(user, ctx)
        finally:
            user.in_use -= 1
        return finish_result(ctx.server, ctx.session.connection, ctx.method, result)

    async def _for_user(self, user: _User, ctx: ServerRequestContext[Any]) -> Any:
        sent, answer = _without_answer(ctx)
        if answer is not None:
            refusal = await self._take_answer(user, answer)
            if refusal is not None:
                return refusal
        token = caller_now.set(ctx.transport)
        try:
            await self._open(user)
            if sent.method == "tools/call" and sent.params.get("name") == SIGN_IN_TOOL and _asks(user):
                return await self._signed_in(user, sent)
            return await user.proxy.forward(sent)
        except SignInRequired:
            return await self._ask(user, sent)
        except AuthError as error:
            logger.warning("A caller has no credential for the server %r: %s", self.name, error)
            raise MCPError(
                f"No credential of yours for {self.name!r} can be obtained", code=JsonRpcErrorCode.INTERNAL_ERROR
            ) from error
        finally:
            caller_now.reset(token)

    async def _open(self, user: _User) -> None:
        async with user.lock:
            if user.is_open:
                return
            server = user.proxy.server
            await user.life.enter_async_context(server.lifespan())
            user.is_open = True

    async def _signed_in(self, user: _User, ctx: ServerRequestContext[Any]) -> Any:
        """Answer a call of ``sign_in`` by a caller who is known: unless the server has a tool of this name."""
        page = await user.proxy.forward(replace(ctx, method="tools/list", params={}))
        tools: Any = page.get("tools") if is_mapping(page) else None
        if any(is_mapping(tool) and tool.get("name") == SIGN_IN_TOOL for tool in tools or ()):
            return await user.proxy.forward(ctx)
        return _text(f"You are signed in to {self.name}. Its tools are in the list now.", is_error=False)

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _ask(self, user: _User, ctx: ServerRequestContext[Any]) -> Any:
        """Answer a request that needs a sign-in: a list with what there is, a call with the question."""
        if ctx.method in _EMPTY:
            listed = [_sign_in_tool(self.name)] if ctx.method == "tools/list" else []
            return {_EMPTY[ctx.method]: listed}
        sign_in = await user.auth.begin() if _asks(user) else None
        if sign_in is None:
            raise LocalError(f"The sign-in to {self.name!r} ended; send the request again")
        return self._question(sign_in, ctx)

    def _question(self, sign_in: SignIn, ctx: ServerRequestContext[Any]) -> Any:
        text = f"Sign in to {self.name} to use it"
        declared = declared_by(ctx.session.connection).get("elicitation")
        may_round = ctx.method in ctx.revision.input_required_methods
        if may_round and is_mapping(declared) and is_mapping(declared.get("url")):
            params = {"mode": "url", "message": text, "url": sign_in.link}
            requests = {_KEY: {"method": "elicitation/create", "params": params}}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": _STATE}
        message = f"{text}: {sign_in.link}"
        if ctx.method == "tools/call":
            return _text(
                f"{message}\nShow this link to the user, and call again when the user has signed in.", is_error=True
            )
        raise MCPError(message, code=JsonRpcErrorCode.INVALID_REQUEST)

    async def _take_answer(self, user: _User, answer: Any) -> Any:
        """Take the client's answer to the question; return the result where the user refused, ``None`` to go on."""
        action: Any = answer.get("action") if is_mapping(answer) else None
        if action != "accept":
            return _text(f"You did not sign in to {self.name}.", is_error=True)
        sign_in = user.auth.running if _asks(user) else None
        if sign_in is not None:
            with anyio.move_on_after(WAIT_S):
                await sign_in.is_done.wait()
        return None

    # -- callers ------------------------------------------------------------------------------------------------------

    async def _user(self, context: TransportContext) -> _User:
        key = caller_id(context, self.name)
        user = self._users.get(key)
        if user is None:
            auth = self._make_auth(key, context, self)
            made = Proxy.of(proxy(self._target, **{**self._options, "auth": auth}))
            made.use_bus(self.server.bus)
            user = self._users[key] = _User(made, auth)
            await self._close_oldest()
        self._users.move_to_end(key)
        return user

    async def _close_oldest(self) -> None:
        for key in list(self._users)[: max(0, len(self._users) - MAX_USERS)]:
            if not self._users[key].in_use:
                await self._users.pop(key).life.aclose()


def _asks(user: _User) -> bool:
    return isinstance(user.auth, SignedInUser)


def _capabilities(revision: Revision) -> Mapping[str, Any]:
    """Return what is announced before any caller has signed in."""
    made: dict[str, Any] = {kind: {"listChanged": True} for kind in _KINDS}
    return {**made, "completions": {}} if revision.has_completions_capability else made


def _without_answer(ctx: ServerRequestContext[Any]) -> tuple[ServerRequestContext[Any], Any]:
    """Return a request without an answer to our own question, and the answer; ``None`` for a request without one."""
    params = ctx.params
    if not is_mapping(params) or params.get("requestState") != _STATE:
        return ctx, None
    answers: Any = params.get("inputResponses")
    if not is_mapping(answers):
        raise InvalidParams("This request has a state and no answers")
    kept = {key: value for key, value in params.items() if key not in ("requestState", "inputResponses")}
    return replace(ctx, params=kept), answers.get(_KEY) or {}


def _sign_in_tool(server: str) -> dict[str, Any]:
    return {
        "name": SIGN_IN_TOOL,
        "title": f"Sign in to {server}",
        "description": f"Signs the user in to {server}. Its other tools can be used after that. Call it first.",
        "inputSchema": {"type": "object"},
    }


def _text(text: str, *, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
