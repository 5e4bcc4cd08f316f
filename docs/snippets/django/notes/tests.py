from django.contrib.auth.models import User
from notes.models import Note

from ferrule.django.testing import MCPTestCase


class NoteTools(MCPTestCase):
    @classmethod
    def setUpTestData(cls):
        cls.ada = User.objects.create_user("ada")
        cls.bob = User.objects.create_user("bob")

    def test_a_note_belongs_to_its_user(self):
        made = self.mcp_client(self.ada).call("note_create", title="Buy milk")
        self.assertEqual(made["title"], "Buy milk")
        self.assertEqual(Note.objects.get().owner, self.ada)
        self.assertEqual(self.mcp_client(self.bob).call("note_list")["results"], [])

    def test_a_note_needs_a_user(self):
        self.assertToolDenied("note_create", None, title="Buy milk")
