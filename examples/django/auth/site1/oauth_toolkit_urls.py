"""URLs with django-oauth-toolkit."""

from django.contrib import admin
from django.urls import include, path
from notes.views import AccountView
from scoped.views import NoteView

from ferrule.django import mcp

urlpatterns = [
    path(".well-known/", mcp.well_known),
    path("admin/", admin.site.urls),
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("account/", AccountView.as_view()),
    path("notes/", NoteView.as_view()),
    path("mcp/", mcp.urls),
]
