import os
import time

from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Tasks

app = MCPServer(
    "reports",
    store=os.environ.get("STORE", "sqlite:///reports.db"),
    extensions=[Tasks(lease_s=5)],  # seconds after which another process takes over from one that died
)

SECONDS = float(os.environ.get("SECONDS_A_CHAPTER", "2"))


def write_chapter(number: int) -> str:
    """The slow part, in a thread."""
    print(f"writing chapter {number}", flush=True)
    time.sleep(SECONDS)
    return f"chapter {number}"


@app.tool(task="optional", resumable=True)
async def report(ctx: Context, chapters: int = 10) -> str:
    """Write a report; it takes about 20 seconds."""
    written: list[str] = []
    for number in range(1, chapters + 1):
        written.append(await ctx.step(f"chapter-{number}", write_chapter, number))
        await ctx.progress(number, chapters, f"chapter {number} is written")
    return ", ".join(written)


if __name__ == "__main__":
    app.run("http", port=int(os.environ.get("PORT", "8000")))
