from notes.models import Note
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response


class NoteSerializer(serializers.ModelSerializer):
    class Meta:
        model = Note
        fields = ("id", "title", "done")


class NoteViewSet(viewsets.ModelViewSet):
    """Notes of the user."""

    queryset = Note.objects.order_by("id")
    serializer_class = NoteSerializer

    def get_queryset(self):
        return super().get_queryset().filter(owner=self.request.user)

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)

    @action(detail=False)
    def left(self, request):
        """Return the notes that are not done."""
        left = self.get_queryset().filter(done=False)
        return Response(self.get_serializer(left, many=True).data)
