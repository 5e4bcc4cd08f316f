"""Policies, quotas and audits of a gateway's configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule import MCPError
from ferrule.cli.gateway.middleware import load_middleware
from ferrule.client.config_file import ConfigError
from tests.cli.gateway.support import docs_server, names, running, served, write_file

pytestmark = pytest.mark.anyio

RULES = """
from pathlib import Path
from ferrule.middleware import Audit, AuditFile, Policy, Quota

def no_writes(request):
    return False if request.name.endswith("_write") else None

AUDIT = Audit(AuditFile(Path(__file__).parent / "audit.jsonl"), on_failure="refuse")
STACK = [AUDIT, Quota(2, window_s=10_000, per=("subject", "tool")), Policy(no_writes)]
NUMBER = 3
"""


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_a_gateway_with_a_policy_a_quota_and_an_audit(tmp_path: Path, mode: str) -> None:
    """Quotas are counted in the gateway's store, and views hold as well."""
    (tmp_path / "rules.py").write_text(RULES)
    options = {
        "middleware": "rules.py:STACK",
        "store": f"sqlite:///{tmp_path}/store.db",
        "auth": {"tokens": {"token-of-ada": "ada"}},
        "views": {"work": {"excludeTools": ["one_header"]}},
    }
    async with served(docs_server()) as (one,):
        path = write_file(tmp_path / "mcp.json", {"one": {"url": one}}, **options)
        for calls in (2, 0):  # the second gateway has another memory and the same store
            async with running(path) as gateway, gateway.client("work", auth="token-of-ada", mode=mode) as client:
                assert await names(client) == ["one_search"]
                for _ in range(calls):
                    await client.call_tool("one_search", {"query": "x"})
                for name, code in (("one_search", 429), ("one_write", -32602), ("one_header", -32602)):
                    with pytest.raises(MCPError) as refused:
                        await client.call_tool(name, {"query": "x"})
                    assert refused.value.code == code if calls else refused.value.code in (code, 429)
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    assert [(each["member"], each["decision"]) for each in records[:5]] == [
        ("one_search", "allowed"),
        ("one_search", "allowed"),
        ("one_search", "over_quota"),
        ("one_write", "denied"),
        ("one_header", "allowed"),
    ]
    assert all(each["subject"] == "ada" for each in records)
    assert "token-of-ada" not in (tmp_path / "audit.jsonl").read_text()


@pytest.mark.parametrize("name", ["rules.py", "rules.py:NUMBER", "rules.py:NOTHING", "none.py:STACK", "no.module:X"])
def test_what_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    with pytest.raises(ConfigError, match="here"):
        load_middleware([name], tmp_path, "here")


def test_a_module_and_a_single_middleware(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    found = load_middleware(["rules.py:AUDIT", "ferrule.middleware:MaskErrors"], tmp_path, "here")
    assert len(found) == 2
