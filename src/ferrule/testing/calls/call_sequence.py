"""`CallSequence`: the calls that reached a server, and assertions about their order.

It looks at the server, so that it works for every client, agent and model loop. A call that asks its user is one call,
in both eras: later rounds of it are not counted.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.wire.codec import encode_str, to_builtins
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import Value

__all__ = ["CallSequence", "ToolCallSeen", "calls_of"]


class ToolCallSeen(Value, frozen=True):
    """One call that reached a server.

    Attributes:
        tool: the tool's name.
        arguments: its arguments as JSON.
    """

    tool: str
    arguments: Mapping[str, Any]


class CallSequence:
    """The calls of tools that reached a server, in the order in which they began; `calls_of` makes one."""

    def __init__(self) -> None:
        self.calls: list[ToolCallSeen] = []

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def names(self) -> list[str]:
        """The names of the tools, one for each call."""
        return [call.tool for call in self.calls]

    def clear(self) -> None:
        """Forget the calls so far."""
        self.calls.clear()

    def of(self, tool: str) -> list[Mapping[str, Any]]:
        """Return the arguments of each call of a tool."""
        return [call.arguments for call in self.calls if call.tool == tool]

    def assert_exactly(self, *tools: str) -> None:
        """Assert that these tools were called in this order, and nothing else."""
        assert self.names == list(tools), f"expected {list(tools)}; {self._shown()}"

    def assert_in_order(self, *tools: str) -> None:
        """Assert that these tools were called in this order; other calls may stand between."""
        rest = iter(self.names)
        missing = [tool for tool in tools if not any(tool == name for name in rest)]
        assert not missing, f"{missing[0]!r} does not come where it is expected in {list(tools)}; {self._shown()}"

    def assert_called(self, tool: str, /, *, times: int | None = None, **arguments: Any) -> None:
        """Assert that a tool was called, with these arguments among others.

        Args:
            tool: the tool's name.
            times: how often; ``None`` for at least once.
            arguments: arguments that such a call has.
        """
        found = [each for each in self.of(tool) if all(each.get(name) == value for name, value in arguments.items())]
        what = f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
        if times is None:
            assert found, f"{what} was not called; {self._shown()}"
        else:
            assert len(found) == times, f"{what} was called {len(found)} times, not {times}; {self._shown()}"

    def assert_never(self, *tools: str) -> None:
        """Assert that none of these tools was called."""
        called = [tool for tool in tools if tool in self.names]
        assert not called, f"{called[0]!r} was called; {self._shown()}"

    def assert_before(self, first: str, then: str) -> None:
        """Assert that each call of ``then`` comes after some call of ``first``."""
        names = self.names
        assert then not in names or first in names[: names.index(then)], (
            f"{then!r} was called before {first!r}; {self._shown()}"
        )

    def _shown(self) -> str:
        lines = [f"  {call.tool}({encode_str(call.arguments)[:200]})" for call in self.calls]
        return "the calls were:\n" + "\n".join(lines) if lines else "there were no calls"

    async def note(self, ctx: ServerRequestContext[Any], call_next: Any) -> Any:
        """Record a call and go on with it; the middleware that `calls_of` adds."""
        params: Any = ctx.params
        if ctx.method == "tools/call" and params is not None:
            found: Any = params if is_mapping(params) else to_builtins(params)
            if found.get("requestState") is None and found.get("inputResponses") is None:
                self.calls.append(ToolCallSeen(str(found.get("name")), found.get("arguments") or {}))
        return await call_next(ctx)


@contextmanager
def calls_of(server: Any) -> Generator[CallSequence]:
    """Record the calls of tools that reach a server of this process while the context lasts.

    Args:
        server: an `MCPServer`, or a low-level `Server`.
    """
    given: Any = server
    kernel: Server[Any] = given if isinstance(server, Server) else given.lowlevel
    made = CallSequence()
    middleware: Sequence[Any] = kernel.middleware
    kernel.middleware = [made.note, *middleware]
    try:
        yield made
    finally:
        kernel.middleware = [each for each in kernel.middleware if each != made.note]
