"""Who has done what, and what was refused."""

# --8<-- [start:code]
import os

from ferrule import MCPServer
from ferrule.middleware import Audit, AuditFile, Deny, Policy, Quota

audit = Audit(
    AuditFile("audit.jsonl", max_bytes=64 << 20, backups=9),
    on_failure="refuse",  # or "continue": the choice is yours, and must be made
    arguments=["account"],  # shown as they are; nothing else is
    key=os.environ.get("AUDIT_KEY", "a key of sixteen bytes or more"),  # for the HMAC of all arguments
    chain=True,  # ferrule audit verify finds what was changed
)


def no_payroll(request):
    return Deny("payroll is closed") if request.arguments and request.arguments.get("account") == "payroll" else None


app = MCPServer(
    "bank",
    middleware=[audit, Quota(100, window_s=60), Policy(no_payroll)],  # in this order
)


@app.tool
def balance(account: str) -> int:
    return 4000


# --8<-- [end:code]


# --8<-- [start:sinks]
from ferrule.middleware import AuditLog

to_the_log = Audit(AuditLog("my.audit"), on_failure="continue")


async def send(record):
    """Any function takes records: dicts with the members of AuditRecord."""
    RECORDS.append(record)


to_a_service = Audit(send, on_failure="continue")
# --8<-- [end:sinks]

RECORDS: list = []


async def check(mode: str) -> None:
    """In both eras, in a folder that goes away."""
    import json
    import tempfile
    from pathlib import Path

    import pytest

    from ferrule import Client, MCPError
    from ferrule.middleware import check_chains

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        options = {"on_failure": "refuse", "arguments": ["account"], "key": "k" * 16, "chain": True}
        app.lowlevel.middleware[:] = [Audit(AuditFile(path), **options), *app.lowlevel.middleware[1:], to_a_service]
        try:
            async with Client(app, mode=mode) as client:
                await client.call_tool("balance", {"account": "rent"})
                with pytest.raises(MCPError):
                    await client.call_tool("balance", {"account": "payroll"})
        finally:
            app.lowlevel.middleware[:] = [audit, *app.lowlevel.middleware[1:-1]]
        lines = path.read_bytes().splitlines()
        assert check_chains(lines, key=b"k" * 16).problems == []
        first, second = map(json.loads, lines)
        assert (first["decision"], first["outcome"], first["arguments"]) == ("allowed", "ok", {"account": "rent"})
        assert (second["decision"], second["reason"]) == ("denied", "payroll is closed")
        assert to_a_service.flush()
        assert [record["outcome"] for record in RECORDS][-1:] == ["ok"]
