"""Pictures: out of a tool, and into one."""

from __future__ import annotations

# --8<-- [start:plot]
import io

from ferrule import Client, Image, MCPServer, ToolError

app = MCPServer("charts")


@app.tool(annotations={"readOnlyHint": True})
def plot(values: list[float], title: str = "") -> Image:
    """Draw a line chart."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.plot(values)
    axes.set_title(title)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return Image(file.getvalue(), format="png")


# --8<-- [end:plot]


# --8<-- [start:pillow]
@app.tool(annotations={"readOnlyHint": True})
def swatch(colour: str, width: int = 64) -> Image:
    """Show a colour."""
    import PIL.Image

    file = io.BytesIO()
    PIL.Image.new("RGB", (width, width), colour).save(file, format="PNG")
    return Image(file.getvalue(), format="png")


# --8<-- [end:pillow]

# --8<-- [start:file]
from pathlib import Path

FOLDER = Path("pictures")


@app.tool(annotations={"readOnlyHint": True})
def picture(name: str) -> list[str | Image]:
    """Show a picture of the folder, with a text."""
    path = FOLDER / f"{Path(name).name}.png"
    if not path.is_file():
        raise ToolError(f"There is no picture {name!r}.")
    return [f"{name}, {path.stat().st_size} bytes:", Image(path=path)]


# --8<-- [end:file]

# --8<-- [start:upload]
from typing import Annotated

from ferrule import Field


@app.tool
def upload(name: str, content: Annotated[bytes, Field(max_length=2_000_000)]) -> str:
    """Save a PNG picture."""
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ToolError("Only PNG pictures are accepted.")
    (FOLDER / f"{Path(name).name}.png").write_bytes(content)
    return f"{len(content)} bytes"


# --8<-- [end:upload]


async def check(mode: str) -> None:
    """In both eras; the libraries that draw are tried where they are installed."""
    import base64
    import importlib.util
    import tempfile

    global FOLDER
    png = b"\x89PNG\r\n\x1a\nrest"
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        async with Client(app, mode=mode) as client:
            assert (await client.call_tool("upload", {"name": "../a", "content": png})).text == "12 bytes"
            wrong = await client.call_tool("upload", {"name": "a", "content": b"GIF89a"})
            assert wrong.text == "Only PNG pictures are accepted."
            text, image = (await client.call_tool("picture", {"name": "a"})).content
            assert (text.text, image.mime_type) == ("a, 12 bytes:", "image/png")
            assert base64.b64decode(image.data) == png
            assert (await client.call_tool("picture", {"name": "b"})).text == "There is no picture 'b'."
            for module, tool, arguments in (
                ("matplotlib", "plot", {"values": [1, 2]}),
                ("PIL", "swatch", {"colour": "red"}),
            ):
                if importlib.util.find_spec(module):
                    (drawn,) = (await client.call_tool(tool, arguments, raise_on_error=True)).content
                    assert (drawn.type, drawn.mime_type) == ("image", "image/png")
