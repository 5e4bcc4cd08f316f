"""What agents get for tokens with a scope."""

from ferrule.django import mcp
from scoped.views import NoteView

mcp.expose(NoteView)


@mcp.tool(scopes="write")
def forget_notes() -> str:
    """Forget all notes."""
    return "forgotten"
