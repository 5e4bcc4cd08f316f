"""Warnings about deprecated parts of the protocol: once per process, naming proposal and removal."""

from __future__ import annotations

import warnings

import pytest

from ferrule.protocol import deprecations
from ferrule.protocol.deprecations import DEPRECATED, ProtocolDeprecationWarning, warn_deprecated


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecations, "_warned", set())


@pytest.mark.parametrize("name", DEPRECATED)
def test_each_deprecation_warns_once_and_names_the_replacement(name):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            warn_deprecated(name, stacklevel=1)
    (warning,) = seen
    assert issubclass(warning.category, DeprecationWarning)
    assert warning.filename == __file__
    text = str(warning.message)
    assert "SEP-" in text
    assert "no earlier than" in text
    assert "use " in text


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["sampling", "roots", "logging"])
async def test_using_one_in_a_body_warns(name):
    """Also with a client of the legacy era: the author's code is what must change."""
    from ferrule import Context
    from tests.app.rounds.driving import Call, served

    app = served()

    @app.tool
    async def body(ctx: Context) -> str:
        if name == "logging":
            await ctx.info("x")
        else:
            await (ctx.sample("x") if name == "sampling" else ctx.roots())
        return "x"

    with pytest.warns(ProtocolDeprecationWarning, match="SEP-2577") as seen:
        await Call(app).send()
    assert seen[0].filename == __file__  # else Python would hide it from the script that uses it
