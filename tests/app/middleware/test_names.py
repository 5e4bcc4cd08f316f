"""Names in the options of middleware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.app.middleware.names import names_of
from ferrule.middleware import Audit, Quota, QuotaExceeded, RateLimit, RateLimited
from tests.app.support import call


def test_a_text_is_one_name() -> None:
    assert names_of("tools/call") == ("tools/call",)
    assert names_of(["a", "b"]) == ("a", "b")
    assert names_of(each for each in "ab") == ("a", "b")
    assert names_of(()) == ()


def served(middleware: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x", middleware=[middleware])

    @app.tool
    async def work(city: str = "") -> str:
        return city

    return app


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: RateLimit(1, per_s=60, methods="tools/call"), RateLimited),
        (lambda: Quota(1, window_s=60, methods="tools/call"), QuotaExceeded),
    ],
)
async def test_a_limit_of_one_method_counts_it(make: Callable[[], Any], error: type[Exception]) -> None:
    """The letters of its name are no methods, so that nothing was counted."""
    app = served(make())
    await call(app, "work")
    with pytest.raises(error):
        await call(app, "work")


@pytest.mark.anyio
async def test_an_audit_of_one_method_and_one_argument_records_them() -> None:
    records: list[Any] = []
    app = served(Audit(records.append, on_failure="refuse", methods="tools/call", arguments="city"))
    await call(app, "work", {"city": "Oslo"})
    assert [record["arguments"] for record in records] == [{"city": "Oslo"}]
