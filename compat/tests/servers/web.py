"""A ``FastMCP`` server as it was written for the web."""

import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel
from starlette.responses import PlainTextResponse

mcp = FastMCP("web", port=int(sys.argv[2]))
mcp.settings.log_level = "WARNING"


class Sure(BaseModel):
    sure: bool


@mcp.custom_route("/health", methods=["GET"])
async def health(request):
    return PlainTextResponse("fine")


@mcp.tool()
async def agent(ctx: Context) -> str:
    answer = await ctx.elicit("Sure?", Sure)
    has_agent = "user-agent" in ctx.request_context.request.headers
    return f"{'yes' if answer.data.sure else 'no'} {has_agent}"


if __name__ == "__main__":
    mcp.run(transport=sys.argv[1])
