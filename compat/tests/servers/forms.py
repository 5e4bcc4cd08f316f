"""Tools with the return annotations that servers of ``mcp`` 1.x use."""

import datetime
from dataclasses import dataclass
from typing import Any, Dict, List, Literal, Optional, Tuple  # noqa: UP035

from mcp.server.fastmcp import FastMCP, Image
from mcp.types import TextContent
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

mcp = FastMCP("forms")


class Model(BaseModel):
    name: str
    count: int | None = None
    tags: list[str] = Field(default_factory=list)


class Typed(TypedDict):
    a: int


@dataclass
class Data:
    a: int
    b: str = "x"


@mcp.tool()
def text() -> str:
    return "ø"


@mcp.tool()
def number(a: Optional[int] = None, b: Literal["x", "y"] = "x", c: bool = False) -> float:  # noqa: UP045
    return 1.5


@mcp.tool()
def nothing(model: Model | None = None) -> None:
    return None


@mcp.tool()
def words(each: List[Dict[str, Any]] = []) -> List[str]:  # noqa: UP006, B006
    return ["a", "b"]


@mcp.tool()
def pair() -> Tuple[int, str]:  # noqa: UP006
    return 1, "x"


@mcp.tool()
def mapping(options: dict = None, **kwargs) -> dict[str, int]:  # noqa: RUF013
    return {"a": 1}


@mcp.tool()
def old_mapping() -> Dict[str, Any]:  # noqa: UP006
    return {"a": None, "b": [1.0, {"c": True}]}


@mcp.tool()
def model() -> Model:
    return Model(name="x")


@mcp.tool()
def models() -> list[Model]:
    return [Model(name="x", count=1)]


@mcp.tool()
def typed_dict() -> Typed:
    return {"a": 1}


@mcp.tool()
def data() -> Data:
    return Data(1)


class Profile:
    name: str
    email: str | None

    def __init__(self, name: str) -> None:
        self.name = name
        self.email = None

    def __str__(self) -> str:
        return "a profile"


class Opaque:
    def __init__(self, one, two):
        self.one = one


@mcp.tool()
def profile() -> Profile:
    return Profile("x")


@mcp.tool()
def opaque() -> Opaque:
    return "an opaque one"


@mcp.tool()
def maybe() -> str | None:
    return None


@mcp.tool()
def anything() -> Any:
    return {"a": [1, "x"]}


@mcp.tool()
def bare_list() -> list:
    return [{"a": 1}, "x", 2]


@mcp.tool()
def read(bare, any_value: Any = 0, either: list[str] | str = "", maybe: str | None = "", yes: bool = False) -> str:
    return repr((bare, any_value, either, maybe, yes))


@mcp.prompt()
def topic(words, maybe: str | None = "") -> str:
    return repr((words, maybe))


@mcp.tool()
def whole() -> int:
    return 5.0


@mcp.tool()
def price() -> float:
    return "1.5"


@mcp.tool()
def ready() -> bool:
    return 1


@mcp.tool()
def keys() -> list[str]:
    return {"a": 1}.keys()


@mcp.tool()
def unfit() -> int:
    return "five"


@mcp.tool()
def picture() -> Image:
    return Image(data=b"x", format="jpeg")


@mcp.tool()
def block() -> TextContent:
    return TextContent(type="text", text="x")


@mcp.tool()
def blocks() -> list[TextContent]:
    return [TextContent(type="text", text="x")]


@mcp.tool()
def choice(which: Literal["a", "b"] = "a") -> Literal["a", "b"]:
    return "a"


@mcp.tool()
def when():
    return {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "day": datetime.date(2026, 1, 2)}


if __name__ == "__main__":
    mcp.run()
