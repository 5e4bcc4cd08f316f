from notes.models import Note
from notes.views import NoteViewSet

from ferrule import Context
from ferrule.django import mcp

mcp.expose(NoteViewSet)


@mcp.tool
def count_notes(ctx: Context) -> int:
    """Count the notes of the user."""
    return Note.objects.filter(owner=ctx.principal.user).count()
