from django.urls import include, path
from notes.views import NoteViewSet
from rest_framework.routers import DefaultRouter

from ferrule.django import mcp

router = DefaultRouter()
router.register("notes", NoteViewSet)

urlpatterns = [path("api/", include(router.urls)), path("mcp/", mcp.urls)]
