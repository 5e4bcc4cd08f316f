"""`Policy`: functions that decide who may see and use which tools, resources, resource templates and prompts.

A policy is asked twice about a call: whether the sender may see the member, without arguments, and whether it may use
it with these. A member that the sender may not see is neither listed nor found by a search nor callable, and is
answered like one that does not exist. One that it may see and not use is listed; its use is answered with `NotAllowed`.

A policy that fails denies. It is not asked again around the body of a task, whose call it has allowed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ferrule.app.components.index import shown_name
from ferrule.app.execution.running_task import is_task_body
from ferrule.app.middleware.access import LISTS, AccessRequest, directory_of, listened_uris, members_of, normal_name
from ferrule.app.results.result_plan import error_result
from ferrule.kernel.finish import finish_result
from ferrule.kernel.serving.members import (
    MAX_LISTENED_TASKS,
    HidesMembers,
    MemberFilter,
    MemberKind,
    ServedMember,
    TaskDirectory,
    current_verdict,
    member_filter,
)
from ferrule.kernel.session import THROUGH_SEARCH
from ferrule.kernel.standard_methods import check_uris
from ferrule.protocol.errors import InvalidParams, MCPError, ResourceNotFound
from ferrule.wire.codec import Encoded, encode, to_builtins
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import Value

if TYPE_CHECKING:
    from ferrule.kernel.server import CallNext, ServerRequestContext

__all__ = ["Answer", "Deny", "NotAllowed", "Policy", "PolicyFunction"]

logger = logging.getLogger("ferrule.policy")

NOT_ALLOWED_CODE: Final = 403
"""An application's code, outside the range that JSON-RPC and the specification reserve (2026-07-28, "Overview")."""

_MAX_TASKS: Final = 10_000
"""Maximum number of tasks of which a process remembers the tool, where the server cannot say it."""

_TASK_METHODS: Final = frozenset({"tasks/get", "tasks/result", "tasks/update", "tasks/cancel"})

Context: TypeAlias = "ServerRequestContext[Any]"


class Deny(Value, frozen=True):
    """The answer of a policy that denies, with the reason.

    Attributes:
        reason: for the log and the audit; never sent.
        message: one sentence for the sender, who may see the member and may not use it.
    """

    reason: str
    message: str = "This is not allowed"


Answer: TypeAlias = bool | Deny | None
"""``True``: allowed. ``None``: no opinion. ``False`` and `Deny`: denied."""

PolicyFunction: TypeAlias = Callable[[AccessRequest], Answer | Awaitable[Answer]]
"""Decides about one request; sync or async, must not block."""


class NotAllowed(MCPError):
    """403: a policy does not allow this use of a member that its sender may see."""

    default_code = NOT_ALLOWED_CODE


class Policy(HidesMembers):
    """A middleware that asks functions who may see and use what, for all members of a server or a gateway.

    Every function is asked until one denies. Where none has an opinion, ``default`` decides. Several policies of one
    server must all allow. Put `Audit` and `Quota` before them in the list of middleware.

    It holds on every transport, also on stdio and in process, where a request has no principal. It is not asked about
    tools that a function of the server calls within a request. For a server that is mounted in another one, put the
    policy into the outer server, which makes the lists.

    Args:
        functions: ``(request) -> True | False | Deny(reason) | None``, sync or async.
        default: what holds where no function has an opinion.
        dry_run: allow everything, and record what would be denied: in the audit and in the log ``ferrule.policy``.
        name: names the policy in reasons; the name of the first function if not given.

    Raises:
        TypeError: no function is given, or one cannot be called.
    """

    def __init__(
        self,
        *functions: PolicyFunction,
        default: Literal["allow", "deny"] = "allow",
        dry_run: bool = False,
        name: str | None = None,
    ) -> None:
        if not functions or not all(callable(function) for function in functions):
            raise TypeError("Policy() takes one or more functions of a request")
        self._functions = functions
        self._default: Answer = True if default == "allow" else Deny("no rule allows it")
        self.dry_run = dry_run
        self.name = _name_of(functions[0]) if name is None else name
        self._tasks: OrderedDict[str, str] = OrderedDict()

    @property
    def hides_members(self) -> bool:
        """See `HidesMembers`: a policy does, unless it is a dry run."""
        return not self.dry_run

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        """See `ferrule.kernel.server.ServerMiddleware`."""
        # Middleware runs a second time around a task's body, whose call was allowed before.
        if ctx.request_id is None or is_task_body(ctx):
            return await call_next(ctx)
        filter = None if self.dry_run else _Filter(self, ctx, member_filter.get())
        token = None if filter is None else member_filter.set(filter)
        try:
            return await self._serve(ctx, call_next)
        except _UnknownThroughSearch as error:
            return finish_result(ctx.server, ctx.session.connection, ctx.method, error_result(str(error)))
        finally:
            if token is not None:
                member_filter.reset(token)

    async def _serve(self, ctx: Context, call_next: CallNext) -> Any:
        if ctx.method in _TASK_METHODS:
            await self._check_task(ctx)
        elif ctx.method == "subscriptions/listen":
            ctx = await self._listening(ctx)
        else:
            named = members_of(ctx)
            if not named and ctx.method == "completion/complete" and not self.dry_run:
                # A handler may take a reference of an unknown type for one of the two.
                raise InvalidParams("Invalid params for completion/complete: `ref` names no prompt and no resource")
            for kind, name, arguments in named:
                await self._check(ctx, kind, name, arguments)
        result = await call_next(ctx)
        if ctx.method in LISTS or ctx.method == "tasks/list":
            return await self._listed(ctx, result)
        if ctx.method == "tools/call":
            self._remember_task(ctx, result)
        return result

    # -- decisions ------------------------------------------------------------------------------------------------

    async def decide(self, request: AccessRequest) -> Deny | None:
        """Return the denial of a request; ``None`` if it is allowed. It ignores ``dry_run``."""
        answer: Answer = None
        for function in self._functions:
            try:
                found: Any = function(request)
                found = await found if isawaitable(found) else found
            except Exception:
                logger.exception("The policy %s failed and denies %s %.200r", self.name, request.kind, request.name)
                return Deny(f"the policy {self.name} failed")
            denial = self._denial(found)
            if denial is not None:
                return denial
            answer = found if found is True else answer
        return None if answer is True else self._denial(self._default)

    def _denial(self, answer: Any) -> Deny | None:
        if answer is None or answer is True:
            return None
        if isinstance(answer, Deny):
            return answer
        if answer is not False:
            logger.error(
                "The policy %s returned %s and denies: it must return True, False, None or Deny",
                self.name,
                type(answer).__name__,
            )
        return Deny(f"denied by {self.name}")

    async def _denied(self, request: AccessRequest, *, is_listed: bool = False) -> Deny | None:
        """Return the denial of a request that must be refused, and record it.

        Args:
            request: the request.
            is_listed: it is one of many in a list, whose request is allowed.
        """
        denial = await self.decide(request)
        return None if denial is None else self._refused(request, denial, is_listed)

    def _refused(self, request: AccessRequest, denial: Deny, is_listed: bool) -> Deny | None:
        """Record a denial, and return it; ``None`` if the policy only observes."""
        verdict = current_verdict.get()
        if self.dry_run:
            if verdict is not None and not is_listed and denial.reason not in verdict.would_deny:
                verdict.would_deny.append(denial.reason)
            level = logging.DEBUG if is_listed else logging.INFO
            logger.log(
                level, "Would be denied (%s): %s %.200r: %s", request.action, request.kind, request.name, denial.reason
            )
            return None
        if verdict is not None and not is_listed:
            verdict.decision, verdict.reason = "denied", denial.reason
        return denial

    async def _check(self, ctx: Context, kind: MemberKind, name: str, arguments: Mapping[str, Any]) -> None:
        """Refuse a use that is denied.

        Raises:
            InvalidParams, ResourceNotFound: the sender may not see the member; as for one that does not exist.
            NotAllowed: it may see the member, and not use it.
        """
        directory = directory_of(ctx.server)
        if kind == "tool" and directory is not None and directory.is_search(name):
            return  # what it finds is asked about
        found = None if directory is None else await directory.find(ctx, kind, name)
        if found is None and kind == "resource_template" and directory is not None:
            found = await directory.find(ctx, "resource", name)  # a URI may be completed in place of its template
        if found is None:
            # A server behind a gateway would suggest similar names, which may be hidden here.
            if directory is not None and kind in ("tool", "prompt") and not self.dry_run:
                self._raise_unknown(ctx, kind, name)
            found = ServedMember(kind, normal_name(kind, name), {})
        members = [found]
        if found.template is not None:
            members.append(replace(found, kind="resource_template", name=found.template, template=None))
        for member in members:
            if await self._denied(AccessRequest.of(ctx, member)) is not None:
                self._raise_unknown(ctx, kind, name)
        for member in members:
            denial = await self._denied(AccessRequest.of(ctx, member, arguments))
            if denial is not None:
                raise NotAllowed(denial.message)

    def _raise_unknown(self, ctx: Context, kind: MemberKind, name: str) -> None:
        """Raise the error for a member that does not exist."""
        if kind == "resource":
            raise ResourceNotFound(name, code=ctx.revision.missing_resource_code)
        text = f"Unknown {kind.replace('_', ' ')}: {shown_name(name)}"
        if THROUGH_SEARCH in ctx.session.notes:  # the call of a search, whose result is the error
            raise _UnknownThroughSearch(text)
        raise InvalidParams(text)

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def _tool_of(self, ctx: Context, task_id: Any) -> str | None:
        if not isinstance(task_id, str):
            return None
        tasks = ctx.server.attachments.get(TaskDirectory)  # type: ignore[type-abstract]  # a protocol as a key
        found = None if tasks is None else await tasks.tool_of(task_id)
        return self._tasks.get(task_id) if found is None else found

    async def _is_task_hidden(self, ctx: Context, task_id: Any) -> bool:
        tool = await self._tool_of(ctx, task_id)
        is_listed = ctx.method not in _TASK_METHODS
        if tool is None:
            if ctx.server.attachments.get(TaskDirectory) is not None:  # type: ignore[type-abstract]  # as above
                return False  # there is no such task, which the handler says
            # It may be of a tool that is denied: made before this process began, by another one, or long ago.
            unknown = AccessRequest.of(ctx, ServedMember("tool", "", {}))
            return self._refused(unknown, Deny("the tool of the task is not known"), is_listed) is not None
        directory = directory_of(ctx.server)
        member = None if directory is None else await directory.find(ctx, "tool", tool)
        request = AccessRequest.of(ctx, member or ServedMember("tool", tool, {}))
        return await self._denied(request, is_listed=is_listed) is not None

    async def _check_task(self, ctx: Context) -> None:
        params: Any = ctx.params
        if is_mapping(params) and await self._is_task_hidden(ctx, params.get("taskId")):
            raise InvalidParams("There is no such task; it may have expired")

    def _remember_task(self, ctx: Context, result: Any) -> None:
        if ctx.server.attachments.get(TaskDirectory) is not None:  # type: ignore[type-abstract]  # as above
            return
        made: Any = to_builtins(result) if isinstance(result, Encoded) else result
        if not is_mapping(made):
            return
        task: Any = made.get("task") if is_mapping(made.get("task")) else made
        params: Any = ctx.params
        task_id = task.get("taskId")
        if isinstance(task_id, str) and is_mapping(params):
            self._tasks[task_id] = str(params.get("name"))
            while len(self._tasks) > _MAX_TASKS:
                self._tasks.popitem(last=False)

    # -- lists and changes ----------------------------------------------------------------------------------------

    async def _listening(self, ctx: Context) -> Context:
        """Return a request for changes without the resources and tasks that its sender may not see."""
        params: Any = ctx.params
        wanted: Any = params.get("notifications") if is_mapping(params) else None
        if not is_mapping(wanted):
            return ctx
        made = dict(wanted)
        # The bounds first: the policy is asked about each of them.
        uris = listened_uris(params)
        check_uris(uris)
        ids: Any = wanted.get("taskIds")
        task_ids = list(dict.fromkeys(each for each in ids if isinstance(each, str))) if is_list(ids) else []
        if len(task_ids) > MAX_LISTENED_TASKS:
            raise InvalidParams(f"A subscription names {MAX_LISTENED_TASKS} tasks at most")
        if "resourceSubscriptions" in wanted:
            named = list(dict.fromkeys(uris))
            made["resourceSubscriptions"] = [uri for uri in named if await self._may_listen(ctx, uri)]
            verdict = current_verdict.get()
            if verdict is not None and verdict.decision == "denied":
                verdict.decision = "allowed"  # the stream is served, without what is denied
        if is_list(ids):
            made["taskIds"] = [each for each in task_ids if not await self._is_task_hidden(ctx, each)]
        return replace(ctx, params={**params, "notifications": made})

    async def _may_listen(self, ctx: Context, uri: str) -> bool:
        try:
            await self._check(ctx, "resource", uri, {})
        except (ResourceNotFound, NotAllowed):
            return False
        return True

    async def _listed(self, ctx: Context, result: Any) -> Any:
        """Return a list without the members that its sender may not see."""
        made: Any = to_builtins(result)
        kept: list[Any] = []
        if ctx.method == "tasks/list":
            key, kept = "tasks", await self._shown_tasks(ctx, made)
        else:
            key, name, kind = LISTS[ctx.method]
            directory = directory_of(ctx.server)
            for item in _items(made, key):
                called: Any = item.get(name) if is_mapping(item) else None
                if not isinstance(called, str):
                    continue
                is_search = kind == "tool" and directory is not None and directory.is_search(called)
                request = await self._request_of(ctx, kind, called, item)
                if is_search or await self._denied(request, is_listed=True) is None:
                    kept.append(item)
        if self.dry_run:
            return result
        # What one sender sees must be in no cache that others share.
        scope = {"cacheScope": "private"} if "cacheScope" in made else {}
        made = {**made, **scope, key: kept}
        return Encoded(encode(made)) if isinstance(result, Encoded) else made

    async def _request_of(
        self, ctx: Context, kind: MemberKind, name: str, definition: Mapping[str, Any]
    ) -> AccessRequest:
        annotations: Any = definition.get("annotations")
        directory = directory_of(ctx.server)
        found = None if directory is None else await directory.find(ctx, kind, name)
        tags: Iterable[str] = () if found is None else found.tags
        return AccessRequest.of(
            ctx, ServedMember(kind, name, annotations if is_mapping(annotations) else {}, frozenset(tags))
        )

    async def _shown_tasks(self, ctx: Context, made: Any) -> list[Any]:
        return [
            task
            for task in _items(made, "tasks")
            if not await self._is_task_hidden(ctx, task.get("taskId") if is_mapping(task) else None)
        ]


class _UnknownThroughSearch(Exception):
    """An unknown tool in a call through a search, whose answer is a result with the text; never leaves `Policy`."""


class _Filter:
    """A `MemberFilter` by one policy, within that of the policies around it."""

    def __init__(self, policy: Policy, ctx: Context, outer: MemberFilter | None) -> None:
        self._policy = policy
        self._ctx = ctx
        self._outer = outer

    async def keeps(self, kind: MemberKind, name: str, annotations: Mapping[str, Any], tags: frozenset[str], /) -> bool:
        """See `MemberFilter`."""
        if self._outer is not None and not await self._outer.keeps(kind, name, annotations, tags):
            return False
        request = AccessRequest.of(self._ctx, ServedMember(kind, name, annotations, tags))
        return await self._policy.decide(request) is None

    def updates(
        self, before: Callable[[str], bool] | None, is_subscribed: Callable[[str], bool], /
    ) -> Callable[[str], bool]:
        """See `MemberFilter`; a policy that waits allows updates of the URIs that the request names, and no others."""
        if self._outer is not None:
            before = self._outer.updates(before, is_subscribed)

        def may_see(uri: str) -> bool:
            if before is not None and not before(uri):
                return False
            # Without the directory, which is async: templates are not asked about, and there are no annotations.
            asked = self._policy.decide(AccessRequest.of(self._ctx, ServedMember("resource", uri, {})))
            try:
                asked.send(None)
            except StopIteration as done:
                return done.value is None
            asked.close()
            return is_subscribed(uri)

        return may_see


def _items(made: Any, key: str) -> list[Any]:
    found: Any = made.get(key) if is_mapping(made) else None
    return list(found) if is_list(found) else []


def _name_of(function: Any) -> str:
    # Callable objects and partials have no `__qualname__`.
    return str(getattr(function, "__qualname__", type(function).__name__))
