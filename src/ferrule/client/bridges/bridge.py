"""`ToolBridge`: the tools of servers for one model API, and the answers to its calls.

A loop of an agent is: send ``await bridge.tools()`` with the conversation, append the model's message and
``await bridge.answer(response)``, and go on until the answer is empty.

Whatever a model asks for gets an answer, and nothing of it is raised: an unknown tool, malformed arguments, a call that
was not approved or took too long is given to the model as an error. Programs raise only what they do wrong themselves.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, Unpack

import anyio
import anyio.to_thread

from ferrule.client.bridges.apis.api import ModelApi, ToolEntry
from ferrule.client.bridges.apis.known import ApiName, api_named
from ferrule.client.bridges.entries import BridgedTool, bridged_tools, tokens_of
from ferrule.client.bridges.parts import ContentBounds, Text, parts_of
from ferrule.client.bridges.turns import CallOutcome, ModelCall, Status
from ferrule.client.calls.results import ToolFailed
from ferrule.client.concurrent import gather
from ferrule.client.errors import UnknownServer
from ferrule.protocol.errors import FerruleError, RequestTimeout
from ferrule.search.definitions import THE_THREE, is_for_models
from ferrule.wire.json_types import is_mapping
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.client.bridges.options import AnswerOptions, DeferMode
    from ferrule.client.bridges.own_search import OwnSearch
    from ferrule.client.calls.results import ToolCallResult

__all__ = ["Answer", "Approver", "ToolBridge", "ToolSource", "ToolUse"]

logger = logging.getLogger("ferrule.client")

MAX_CALLS: Final = 64
MAX_CONCURRENT: Final = 16
TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that a model asks for, before it is made.

    Attributes:
        id: its id in the response; empty where the API gives none.
        tool: the tool, with its annotations, under the name in the group.
        server: the name of its server; empty where there is one server only.
        arguments: the arguments that the tool will get.
    """

    id: str
    tool: Tool
    server: str
    arguments: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the tool in the group."""
        return self.tool.name


Approver: TypeAlias = Callable[[ToolUse], "bool | str | Awaitable[bool | str]"]
"""Whether a call may be made: ``True``, ``False``, or a text that says to the model why not. Sync functions run in a
thread, so that they may ask at a terminal."""


class ToolSource(Protocol):
    """What has tools: a `Client`, a `ClientGroup`."""

    def list_tools(self) -> Awaitable[list[Tool]]:
        """Return the tools."""
        ...

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        timeout_s: float | None = None,
        raise_on_error: bool | None = None,
    ) -> Awaitable[Any]:
        """Call one."""
        ...


class Answer(list[dict[str, Any]]):
    """The messages, or items, with the results of a response's calls, ready to append; empty if it asks for nothing.

    Attributes:
        outcomes: what became of each call.
        others: items of the response that call something else, unchanged: tools that the provider runs, or the program.
    """

    def __init__(
        self,
        messages: Sequence[dict[str, Any]] = (),
        outcomes: Sequence[CallOutcome] = (),
        others: Sequence[Any] = (),
    ) -> None:
        super().__init__(messages)
        self.outcomes = list(outcomes)
        self.others = list(others)


class ToolBridge:
    """The tools of a client or group for one model API.

    Args:
        source: an open `Client` or `ClientGroup`; anything with `list_tools` and `call_tool`.
        api: the name of the API.
        budget: about how many tokens all definitions together may take (a quarter of the bytes of their JSON);
            ``None``: any number.
        defer: what happens above the budget. ``"api"``: the API's own search loads definitions when the model looks
            for them; ``"search"``: three tools that find, describe and call the others; ``"auto"``: the first where the
            API has it, else the second; ``"never"``: all definitions, whatever they take. The same happens to more
            tools than the API takes: 128 functions in Chat Completions and Gemini.
        always: names of tools in the group that are never deferred.
        strict: use the API's strict mode for each tool whose schema can be written in it; the model's arguments then
            always fit. An optional argument that the model leaves out is then null to it, and absent to the tool.

    Raises:
        ValueError: there is no such API, or it has no search for ``defer="api"``.
    """

    def __init__(
        self,
        source: ToolSource,
        api: ApiName | ModelApi,
        *,
        budget: int | None = None,
        defer: DeferMode = "auto",
        always: Collection[str] = (),
        strict: bool = False,
    ) -> None:
        self.source = source
        self.api = api_named(api) if isinstance(api, str) else api
        if defer not in ("auto", "api", "search", "never"):
            raise ValueError(f'defer is "auto", "api", "search" or "never", not {defer!r}')
        if defer == "api" and not self.api.searches:
            raise ValueError(f'The API {self.api.name!r} has no search of its own; use defer="search"')
        self._budget = budget
        self._defer = defer
        self._always = frozenset(always)
        self._strict = strict
        self._tools: dict[str, BridgedTool] = {}
        self._search: OwnSearch | None = None

    async def tools(self) -> list[dict[str, Any]]:
        """Return the definitions for a request, always in the same order, so that prompt caches stay valid."""
        await self._read()
        entries = [each.entry for each in self._tools.values()]
        made = self.api.tools(entries)
        too_many = self.api.max_tools is not None and len(entries) > self.api.max_tools
        if self._defer == "never" or not (too_many or (self._budget is not None and tokens_of(made) > self._budget)):
            return made
        if self.api.searches and self._defer != "search":
            return self.api.tools(
                [
                    entry if self._tools[entry.name].tool.name in self._always else replace(entry, deferred=True)
                    for entry in entries
                ]
            )
        return await self._with_own_search()

    async def answer(self, response: Any, **options: Unpack[AnswerOptions]) -> Answer:
        """Make the calls that a response asks for, side by side, and return their results as the API's messages.

        Args:
            response: an object of the provider's package, the final message of its stream, or the decoded JSON.
            options: **approve** is asked before anything is called, one call after the other. **timeout_s** (60) bounds
                each call, **max_calls** (64) how many are made, **max_concurrent** (16) how many at once. The model
                gets at most **max_text_bytes** (100,000) and **max_media_bytes** (5,000,000) of each result. **media**:
                the media types that the model takes, of those that the API has; all by default. **others**: names of
                functions that the program runs itself, whose calls are left to it.

        Raises:
            ValueError: a bound is not above 0.
            Exception: what ``approve`` raises; no tool was called then.
        """
        return await _Answering(self, options).answer(response)

    async def entries(self) -> list[ToolEntry]:
        """Return every tool by itself, in the same order, for programs that make definitions of another form."""
        await self._read()
        return [each.entry for each in self._tools.values()]

    async def call(
        self, name: str, arguments: Mapping[str, Any] | str, *, id: str = "", **options: Unpack[AnswerOptions]
    ) -> CallOutcome:
        """Make one call by a tool's name for the model, and return what became of it.

        Args:
            name: the name in the definitions.
            arguments: an object, or its JSON text; a malformed one is an outcome.
            id: the id of the call, for ``approve``.
            options: as for `answer`.

        Raises:
            ValueError, Exception: as `answer`.
        """
        (outcome,) = await _Answering(self, options).outcomes([ModelCall.of_json(id, name, arguments, None)])
        return outcome

    async def find(self, name: str, *, reads: bool = True) -> BridgedTool | None:
        """Return a tool by its name for the model; ``None`` if there is none.

        Args:
            name: the name.
            reads: read the tools again for a name that is not known.
        """
        if name not in self._tools and reads:
            await self._read()
        return self._tools.get(name)

    @property
    def search(self) -> OwnSearch | None:
        """The search in place of definitions; ``None`` while all of them are given."""
        return self._search

    async def _read(self) -> None:
        reserved = THE_THREE if self._search is not None else ()
        tools = [tool for tool in await self.source.list_tools() if is_for_models(tool.meta)]
        self._tools = bridged_tools(
            tools,
            self.api,
            strict=self._strict,
            reserved=reserved,
            servers=_prefixes(self.source),
            known=self._tools,
        )
        if self._search is not None:
            self._search = type(self._search)(self._tools)

    async def _with_own_search(self) -> list[dict[str, Any]]:
        from ferrule.client.bridges.own_search import OwnSearch, search_definitions  # loads SQLite

        if self._search is None:
            self._search = OwnSearch(self._tools)
            await self._read()  # names that the three need are theirs now
        kept = [each.entry for each in self._tools.values() if each.tool.name in self._always]
        three = bridged_tools(search_definitions(), self.api)
        return self.api.tools([*(three[name].entry for name in THE_THREE), *kept])


def _prefixes(source: Any) -> dict[str, str]:
    """Return the beginnings of the names of a group's tools, each with the name of its server."""
    # The source is a client or a group; only a group has servers and a separator.
    servers: Any = getattr(source, "servers", None)
    if not is_mapping(servers):
        return {}
    separator = getattr(source, "separator", "_")  # as above
    return {f"{name}{separator}": name for name in servers}


@dataclass(slots=True)
class _Planned:
    """A call with its tool, or with the outcome that it has without a call."""

    call: ModelCall
    tool: BridgedTool | None = None
    arguments: Mapping[str, Any] | None = None
    outcome: CallOutcome | None = None


class _Answering:
    """One answer."""

    def __init__(self, bridge: ToolBridge, options: AnswerOptions) -> None:
        self._bridge = bridge
        self._api = bridge.api
        self._approve = options.get("approve")
        self._timeout_s = options.get("timeout_s", TIMEOUT_S)
        self._max_calls = _above_0("max_calls", options.get("max_calls", MAX_CALLS))
        self._slots = anyio.Semaphore(_above_0("max_concurrent", options.get("max_concurrent", MAX_CONCURRENT)))
        self._bounds = ContentBounds(
            _above_0("max_text_bytes", options.get("max_text_bytes", ContentBounds().text_bytes)),
            _above_0("max_media_bytes", options.get("max_media_bytes", ContentBounds().media_bytes)),
        )
        media = options.get("media")
        self._media = frozenset(self._api.media if media is None else self._api.media & frozenset(media))
        self._others = frozenset(options.get("others", ()))
        self._has_read = False

    async def answer(self, response: Any) -> Answer:
        turn = self._api.turn(response)
        ours = [call for call in turn.calls if call.name not in self._others]
        others = [*turn.others, *(call.origin for call in turn.calls if call.name in self._others)]
        if not ours:
            return Answer(others=others)
        outcomes = await self.outcomes(ours)
        return Answer(self._api.messages(outcomes), outcomes, others)

    async def outcomes(self, ours: Sequence[ModelCall]) -> list[CallOutcome]:
        """Make calls, and return what became of each, in their order."""
        seen: set[str] = set()
        planned = [await self._plan(call, index, seen) for index, call in enumerate(ours)]
        for each in planned:
            if each.tool is not None and self._approve is not None:
                each.outcome = await self._denied(each, self._approve)
        return await gather([self._outcome(each) for each in planned])

    async def _plan(self, call: ModelCall, index: int, seen: set[str]) -> _Planned:
        """Find the tool of a call, or say why it is not made."""
        if call.id and call.id in seen:
            return _without(call, "duplicate", f"The id {call.id[:100]!r} is that of a call before; use another")
        seen.add(call.id)
        if index >= self._max_calls:
            text = f"Only {self._max_calls} calls are made at a time; make this one again, if it is still needed"
            return _without(call, "too many", text)
        search = self._bridge.search
        asked = call if search is None else search.inner(call)
        if asked.arguments is None:
            return _without(call, "malformed", asked.problem or "The arguments are malformed")
        if search is not None and search.answers(asked.name):
            text, is_error = await search.answer(asked.name, asked.arguments)
            outcome = CallOutcome(call, None, "failed" if is_error else "done", [Text(text)], asked.arguments)
            return _Planned(call, outcome=outcome)
        tool = await self._bridge.find(asked.name, reads=False)
        if tool is None and not self._has_read:  # once, however many names a model makes up
            self._has_read = True
            try:
                tool = await self._bridge.find(asked.name)
            except FerruleError as error:
                return _without(call, "failed", f"The tools could not be listed: {error}")
        if tool is None:
            return _without(call, "unknown tool", f"There is no tool {asked.name[:100]!r}")
        return _Planned(call, tool, tool.plan.restored(asked.arguments))

    async def _denied(self, planned: _Planned, approve: Approver) -> CallOutcome | None:
        assert planned.tool is not None
        assert planned.arguments is not None
        use = ToolUse(planned.call.id, planned.tool.tool, planned.tool.entry.server, planned.arguments)
        verdict = await _verdict(approve, use)
        if verdict is True:
            return None
        reason = verdict if isinstance(verdict, str) and verdict else "The user did not allow this call"
        return CallOutcome(planned.call, planned.tool.tool.name, "denied", [Text(reason)], planned.arguments)

    async def _outcome(self, planned: _Planned) -> CallOutcome:
        if planned.outcome is not None:
            return planned.outcome
        assert planned.tool is not None
        async with self._slots:
            status, text, result = await self._called(planned.tool.tool.name, planned.arguments)
        parts = [Text(text)] if result is None else parts_of(result, self._media, self._bounds)
        return CallOutcome(planned.call, planned.tool.tool.name, status, parts, planned.arguments or {}, result)

    async def _called(
        self, name: str, arguments: Mapping[str, Any] | None
    ) -> tuple[Status, str, ToolCallResult | None]:
        try:
            with anyio.move_on_after(self._timeout_s):
                found: ToolCallResult = await self._bridge.source.call_tool(
                    name, arguments, timeout_s=self._timeout_s, raise_on_error=False
                )
                return ("failed" if found.is_error else "done"), "", found
        except RequestTimeout:
            pass
        except ToolFailed as error:
            return "failed", "", error.result
        except UnknownServer as error:
            return "unknown tool", str(error), None
        except FerruleError as error:
            return "failed", f"The tool could not be called: {error}", None
        except Exception:
            logger.exception("The call of the tool %r for a model failed", name)
            return "failed", "The tool could not be called; the log of the program says why", None
        return "timed out", f"The tool did not answer within {self._timeout_s:g} s; it may have run", None


async def _verdict(approve: Any, use: ToolUse) -> Any:
    if inspect.iscoroutinefunction(approve) or inspect.iscoroutinefunction(type(approve).__call__):
        return await approve(use)
    verdict = await anyio.to_thread.run_sync(approve, use, abandon_on_cancel=True)
    return await verdict if inspect.isawaitable(verdict) else verdict


def _without(call: ModelCall, status: Status, text: str) -> _Planned:
    return _Planned(call, outcome=CallOutcome(call, None, status, [Text(text)], call.arguments or {}))


def _above_0(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} is above 0, not {value}")
    return value
