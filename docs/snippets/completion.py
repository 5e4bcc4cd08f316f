"""Templates and completion."""

# --8<-- [start:code]
from typing import Literal

from ferrule import Client, MCPServer
from ferrule.types import PromptReference, ResourceTemplateReference

app = MCPServer("archive")
FILES = {"docs": ["intro.md", "usage.md"], "notes": ["today.md"]}


@app.resource("file:///{folder}/{+path}", mime_type="text/markdown")
def read(folder: str, path: str) -> str | None:
    """`{path}` is one segment; `{+path}` may hold slashes."""
    return f"# {folder}/{path}" if path in FILES.get(folder, ()) else None


@app.resource("search:///{folder}{?words,limit}")
def search(folder: str, words: str = "", limit: int = 10) -> list[str]:
    """Query variables are optional where the parameter has a default."""
    return [name for name in FILES[folder] if words in name][:limit]


@app.complete("file:///{folder}/{+path}", "folder")
def folders(typed: str) -> list[str]:
    return [name for name in FILES if name.startswith(typed)]


@app.complete(read, "path")
def paths(typed: str, arguments: dict[str, str]) -> list[str]:
    """`arguments` are those filled in already."""
    return [name for name in FILES.get(arguments.get("folder", ""), ()) if name.startswith(typed)]


@app.prompt
def review(tone: Literal["kind", "strict"] = "kind") -> str:
    """A `Literal` or enum completes itself."""
    return f"Review this in a {tone} tone."


# --8<-- [end:code]


# --8<-- [start:client]
async def use(client: Client) -> list[str]:
    template = ResourceTemplateReference("file:///{folder}/{+path}")
    found = await client.complete(template, "path", "in", context={"folder": "docs"})
    return found.values


# --8<-- [end:client]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule import MCPError
    from ferrule.errors import RegistrationError

    async with Client(app, mode=mode) as client:
        assert await use(client) == ["intro.md"]
        template = ResourceTemplateReference("file:///{folder}/{+path}")
        assert (await client.complete(template, "folder", "")).values == ["docs", "notes"]
        assert (await client.complete(PromptReference("review"), "tone", "s")).values == ["strict"]
        assert (await client.read_resource("file:///docs/intro.md")).contents[0].text == "# docs/intro.md"
        assert (await client.read_resource("search:///docs?words=us")).contents[0].text == '["usage.md"]'
        with pytest.raises(MCPError):
            await client.read_resource("file:///docs/../secret")
        with pytest.raises(MCPError) as caught:
            await client.complete(PromptReference("review"), "style", "")
        assert str(caught.value) == "review has no argument 'style' [-32602]"
    with pytest.raises(RegistrationError, match="'review' has no argument 'style'"):
        app.complete("review", "style")
    with pytest.raises(RegistrationError, match="There is no prompt and no template 'nope' to complete"):
        app.complete("nope", "x")
