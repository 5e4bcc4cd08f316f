"""Several servers as one."""

# --8<-- [start:code]
from ferrule import ClientGroup, MCPServer

docs, mail = MCPServer("docs"), MCPServer("mail")


@docs.tool
def search(words: str) -> str:
    return f"pages about {words}"


@mail.tool("search")
def search_mail(words: str) -> str:
    return f"letters about {words}"


group = ClientGroup({"docs": docs, "mail": mail})
# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    async with ClientGroup({"docs": docs, "mail": mail}, mode=mode) as both:
        assert sorted(tool.name for tool in await both.list_tools()) == ["docs_search", "mail_search"]
        assert (await both.call_tool("mail_search", {"words": "brass"})).text == "letters about brass"
