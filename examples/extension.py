"""A protocol extension of one's own: receipts for what tools have done, with both halves.

The server's half has a setting, two methods, a result kind, and notifications in both directions; tools find it in
their request. The client's half declares it, takes the notifications and finishes the result kind. A client that does
not declare the extension gets none of it.

python examples/extension.py                        shows it in both eras
python examples/extension.py stdio                  serves over stdin and stdout
python examples/extension.py http --port 8000       serves http://127.0.0.1:8000/mcp
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ferrule import Client, Context, MCPServer
from ferrule.errors import InvalidParams
from ferrule.extensions.base import Extension, ExtensionMethod, ExtensionNotification
from ferrule.extensions.client import ClientExtension
from ferrule.kernel.server import ServerRequestContext

ISSUED = "notifications/receipts/issued"
FILED = "notifications/receipts/filed"


@dataclass(frozen=True)
class Number:
    """Params that name a receipt."""

    number: int


class Receipts(Extension):
    """The server's half: keeps the last receipts."""

    identifier: ClassVar[str] = "com.example/receipts"
    in_handshake: ClassVar[bool] = True  # legacy clients may declare it in their handshake

    def __init__(self, keep: int = 100) -> None:
        self.keep = keep
        self.receipts: dict[int, str] = {}
        self.filed: set[int] = set()

    def settings(self) -> Mapping[str, Any]:
        return {"keep": self.keep}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {
            "receipts/list": ExtensionMethod(self._list, cacheable=True),
            "receipts/print": ExtensionMethod(self._print, Number),
        }

    def notifications(self) -> Mapping[str, ExtensionNotification]:
        return {FILED: ExtensionNotification(self._file, Number)}

    def result_types(self) -> Iterable[str]:
        return ["printing"]

    async def issue(self, ctx: Context, text: str) -> None:
        """Keep a receipt, and tell a client that declares the extension."""
        number = max(self.receipts, default=0) + 1
        self.receipts[number] = text
        while len(self.receipts) > self.keep:
            del self.receipts[min(self.receipts)]
        if self.is_declared(ctx):
            await ctx.session.notify(ISSUED, {"number": number})

    async def _list(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {"receipts": [{"number": number, "text": text} for number, text in self.receipts.items()]}

    async def _print(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        if ctx.params.number not in self.receipts:
            raise InvalidParams(f"There is no receipt {ctx.params.number}")
        lines = f"*** {self.receipts[ctx.params.number]} ***"
        # Result kinds are of the modern era; a legacy client gets a plain result.
        return {"resultType": "printing", "lines": lines} if ctx.revision.has_result_type else {"printed": lines}

    async def _file(self, ctx: ServerRequestContext[Any]) -> None:
        self.filed.add(ctx.params.number)


class ReceiptsClient(ClientExtension):
    """The client's half: remembers what was issued."""

    identifier: ClassVar[str] = Receipts.identifier

    def __init__(self) -> None:
        self.issued: list[int] = []

    def notifications(self) -> Mapping[str, Any]:
        return {ISSUED: self._take}

    def result_types(self) -> Mapping[str, Any]:
        return {"printing": self._finish}

    async def all(self) -> list[dict[str, Any]]:
        """Return the receipts."""
        return list((await self.request("receipts/list"))["receipts"])

    async def printed(self, number: int) -> str:
        """Return a receipt as it is printed, and tell the server that it is filed."""
        lines = str((await self.request("receipts/print", {"number": number}))["printed"])
        await self.client.session.channel.notify(FILED, {"number": number})
        return lines

    def _take(self, params: Mapping[str, Any]) -> None:
        self.issued.append(params["number"])  # not async: done before the call of the tool returns

    async def _finish(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        return {"printed": result["lines"]}


app = MCPServer("till", extensions=[Receipts(keep=10)])


@app.tool
async def sell(item: str, ctx: Context) -> str:
    """Sell an item."""
    await Receipts.of(ctx).issue(ctx, f"one {item}")
    return f"sold {item}"


async def show(client: Client) -> None:
    """Sell something and print the receipt."""
    receipts = client.extension(ReceiptsClient)
    receipts.issued = []
    print(f"  the server keeps {receipts.server_settings['keep'] if receipts.server_settings else 0} receipts")
    print(f"  {(await client.call_tool('sell', {'item': 'lamp'})).text}, receipts issued: {len(receipts.issued)}")
    print(f"  {await receipts.printed(receipts.issued[-1])}")
    print(f"  the last one: {(await receipts.all())[-1]['text']}")


if __name__ == "__main__":
    from showing import main

    main(app, show, extensions=[ReceiptsClient()])
