"""What an agent does in the shop, without a model: fixed decisions, real calls.

It finds a product, looks where it is, writes an order and places it. The shop asks the user before it does; the first
time the user says no. Then it cancels the order, and looks whether the pieces are back.

python agent.py http://127.0.0.1:8000/mcp/ --user ada --password 'tell nobody'
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from ferrule import Client


class User:
    """The person before the screen: says no once, then yes."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, params: Any) -> dict[str, str]:
        """Answer a question of the shop."""
        self.asked.append(params.message)
        answer = "no" if len(self.asked) == 1 else "yes"
        print(f"  shop: {params.message}  user: {answer}")
        return {"value": answer}


async def shop(client: Client, user: User) -> None:
    """Find, order, cancel."""

    async def call(name: str, **arguments: Any) -> Any:
        result = await client.call_tool(name, arguments, raise_on_error=True)
        return result.data if result.data is not None else result.structured_content

    found = await call("product_list", search="brass ferrule", in_stock=True, ordering="price")
    sku = found["results"][0]["sku"]
    print(f"  {found['count']} kinds of brass ferrules, the cheapest for {found['results'][0]['price']}: {sku}")
    before = (await call("product_retrieve", sku=sku))["pieces_in_stock"]
    places = await call("where_is", sku=sku)
    print(f"  {before} pieces in {len(places)} warehouse")

    address = (await call("address_list"))["results"][0]["id"]
    order = (await call("order_create", address=address, note="by an agent"))["id"]
    line = await call("line_create", order_pk=str(order), product=sku, pieces=1)
    print(f"  a draft with {line['pieces']} piece")

    refused = await client.call_tool("place_order", {"order": order})
    assert refused.is_error, refused.text
    print(f"  {refused.text}")
    print(f"  order: {await call('place_order', order=order)}")
    after = (await call("product_retrieve", sku=sku))["pieces_in_stock"]
    assert after == before - 1, (before, after)
    again = await client.call_tool("place_order", {"order": order})
    assert again.is_error, again.text
    assert "placed already" in again.text, again.text

    cancelled = await call("order_cancel", id=order)
    assert (await call("product_retrieve", sku=sku))["pieces_in_stock"] == before
    print(f"  order: {cancelled['state']}, the pieces are back")
    assert len(user.asked) == 2, user.asked


def token_of(url: str, name: str, password: str) -> str:
    """Sign in at the site of the endpoint (simplejwt), and return an access token."""
    body = json.dumps({"username": name, "password": password}).encode()
    request = Request(urljoin(url, "/api/token/"), body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as response:
        return str(json.load(response)["access"])


async def main() -> None:
    """Do it as the command line says."""
    parser = argparse.ArgumentParser(description="An agent without a model, in the shop.")
    parser.add_argument("url", help="of the endpoint")
    parser.add_argument("--user", default="ada")
    parser.add_argument("--password", default="tell nobody")
    parser.add_argument("--token", help="a token of authtoken, in place of signing in")
    given = parser.parse_args()
    if given.token is None:
        credentials = f"Bearer {await asyncio.to_thread(token_of, given.url, given.user, given.password)}"
    else:
        credentials = f"Token {given.token}"
    user = User()
    async with Client(given.url, headers={"Authorization": credentials}, elicitation_handler=user.answer) as client:
        print(client.protocol_version)
        await shop(client, user)


if __name__ == "__main__":
    asyncio.run(main())
