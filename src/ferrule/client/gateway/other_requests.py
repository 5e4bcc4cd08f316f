"""Requests that a gateway has no handler for: tasks, and methods of extensions and of the servers themselves.

A request that names a task goes to the server that made it, if the task is the sender's own: the servers behind see one
client, the gateway. Any other goes to the first server that has its method: the servers are asked in order until one
does not answer that the method does not exist.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule.client.concurrent import gather
from ferrule.client.gateway.upstreams.upstream import UpstreamUnavailable
from ferrule.client.gateway.views import views_of
from ferrule.kernel.finish import finish_result
from ferrule.protocol.errors import InvalidParams, MCPError
from ferrule.wire.codec import Encoded, decode
from ferrule.wire.json_types import is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.client.gateway.routes import GatewayRoutes
    from ferrule.client.gateway.upstreams.upstream import Upstream
    from ferrule.kernel.server import CallNext, ServerRequestContext
    from ferrule.wire.revisions import Revision

__all__ = ["MAX_TASKS", "NAMED_TASK_METHODS", "GatewayTasks", "forward_other", "other_capabilities", "task_of"]

logger = logging.getLogger("ferrule.client.gateway")

NAMED_TASK_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
"""Requests of the modern extension that name a task, in a header too."""
_LIST_TASKS: Final = "tasks/list"
MAX_TASKS: Final = 10_000
"""Tasks whose owners are remembered; above it, those that began longest ago have no known owner."""
_HANDLED: Final = frozenset({"tools", "prompts", "resources", "completions", "logging"})
_ABSENT: Final = frozenset({int(JsonRpcErrorCode.METHOD_NOT_FOUND)})
_NOT_THERE: Final = frozenset({int(JsonRpcErrorCode.METHOD_NOT_FOUND), int(JsonRpcErrorCode.INVALID_PARAMS)})


def other_capabilities(
    upstreams: Iterable[Upstream], revision: Revision, own: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what servers announce beside lists and log messages: extensions, tasks, experimental members.

    Args:
        upstreams: the servers.
        revision: that of the client. Servers of the other era add experimental members only.
        own: the extensions that the gateway announces itself, which stay as they are.
    """
    found: dict[str, Any] = {}
    extensions: dict[str, Any] = {}
    for upstream in upstreams:
        known = upstream.known
        same_era = known.has_sessions is revision.has_sessions
        for key, value in dict(known.capabilities).items():
            if key == "extensions" and same_era and is_mapping(value):
                for name, settings in value.items():
                    extensions.setdefault(str(name), settings)
            elif key not in _HANDLED and key != "extensions" and (same_era or key == "experimental"):
                found.setdefault(key, value)
    if extensions:
        found["extensions"] = {**extensions, **own}
    return found


class GatewayTasks:
    """Whose the tasks are that began through a gateway, and of which tool."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()

    def begin(self, ctx: ServerRequestContext[Any], upstream: Upstream, task_id: str, tool: str) -> None:
        """Remember a task.

        Args:
            ctx: the request that it began with.
            upstream: its server.
            task_id: its id there.
            tool: the name of its tool as clients see it.
        """
        self._known[upstream.name, task_id] = _party(ctx), tool
        while len(self._known) > MAX_TASKS:
            self._known.popitem(last=False)

    def shows(self, ctx: ServerRequestContext[Any], upstream: Upstream, task_id: str) -> bool:
        """Return whether the sender of a request may know of a task.

        It may of its own, of tools that its view shows. Senders without a principal are one. Of a task that did not
        begin here, or that has been forgotten, they may know, and so may every sender where the server behind knows
        them by credentials of their own.
        """
        known = self._known.get((upstream.name, task_id))
        if known is None:
            return upstream.settings.is_per_user or ctx.transport.principal is None
        party, tool = known
        return party == _party(ctx) and all(view.shows("tools", upstream.name, tool) for view in views_of(ctx))


def _party(ctx: ServerRequestContext[Any]) -> Any:
    party = ctx.transport.principal
    return getattr(party, "id", party)  # a principal may be an object of the program's own verifier


def task_of(result: Any) -> str | None:
    """Return the id of the task that a result of ``tools/call`` has made; ``None`` if it made none."""
    if isinstance(result, Encoded):  # of an extension: the only results that are ready when they come
        result = decode(bytes(result))
    if not is_mapping(result):
        return None
    task: Any = result.get("task") if is_mapping(result.get("task")) else result
    found: Any = task.get("taskId") if task is not result or result.get("resultType") == "task" else None
    return found if isinstance(found, str) else None


async def forward_other(
    upstreams: list[Upstream],
    routes: GatewayRoutes,
    tasks: GatewayTasks,
    ctx: ServerRequestContext[Any],
    call_next: CallNext,
) -> Any:
    """Forward a request without a handler, and return its result.

    Args:
        upstreams: the servers that the sender may reach; no other is asked.
        routes: knows the servers of tasks.
        tasks: knows the owners of tasks.
        ctx: the request.
        call_next: serves it where no server has its method.

    Raises:
        InvalidParams: it names a task that is not the sender's.
        MCPError: no server has the method, or the one that has it answered with an error.
    """
    able = [upstream for upstream in upstreams if upstream.is_up and upstream.has_other(ctx)]
    params: Any = ctx.params
    is_task = ctx.method.startswith("tasks/") and is_mapping(params) and "taskId" in params
    task_id: Any = params["taskId"] if is_task else None
    owner = routes.of_task(task_id) if isinstance(task_id, str) else None
    if owner is not None and owner in upstreams:  # the server that made it may be hidden from the sender
        able = [owner]
    if not able:
        return await call_next(ctx)
    if is_task:
        able = [each for each in able if isinstance(task_id, str) and tasks.shows(ctx, each, task_id)]
        if not able:
            raise InvalidParams("There is no such task; it may have expired")
    if ctx.method == _LIST_TASKS:
        result: Any = await _all_tasks(able, routes, tasks, ctx)
    else:
        result = await _from_first(able, ctx, _NOT_THERE if is_task else _ABSENT)
    return finish_result(ctx.server, ctx.session.connection, ctx.method, result)


async def _from_first(upstreams: list[Upstream], ctx: ServerRequestContext[Any], absent: frozenset[int]) -> Any:
    last: MCPError | None = None
    for upstream in upstreams:
        try:
            return await upstream.call(ctx)
        except UpstreamUnavailable as error:
            last = last or error
        except MCPError as error:
            if error.code not in absent:
                raise
            # The error that says most: a server that has the method, but not this task.
            last = error if last is None or error.code not in _ABSENT else last
    assert last is not None
    raise last


async def _all_tasks(
    upstreams: list[Upstream], routes: GatewayRoutes, tasks: GatewayTasks, ctx: ServerRequestContext[Any]
) -> dict[str, Any]:
    """Return the sender's tasks of all servers as one page.

    Raises:
        MCPError: no server answered with a list.
    """

    async def one(upstream: Upstream) -> list[Any] | MCPError:
        try:
            result: Any = await upstream.call(ctx)
        except MCPError as error:
            logger.debug("tasks/list of the server %r: %s", upstream.name, error)
            return error
        found: Any = result.get("tasks") if is_mapping(result) else None
        named = [each for each in found if is_mapping(each) and isinstance(each.get("taskId"), str)] if found else []
        shown = [task for task in named if tasks.shows(ctx, upstream, task["taskId"])]
        for task in shown:
            routes.remember_task(task["taskId"], upstream)
        return shown

    answers = await gather([one(each) for each in upstreams])
    lists = [answer for answer in answers if not isinstance(answer, MCPError)]
    failed = [answer for answer in answers if isinstance(answer, MCPError)]
    if not lists and failed:
        raise failed[0]
    return {"tasks": [task for shown in lists for task in shown]}
