"""What agents get: the view, as the user whose token they have."""

from ferrule import Context
from ferrule.django import mcp
from notes.views import AccountView

mcp.expose(AccountView)


@mcp.tool
def my_name(ctx: Context) -> str:
    """Return the name of the user."""
    return str(ctx.principal.user.username)
