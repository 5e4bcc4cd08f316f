"""URLs with django-rest-knox."""

from django.urls import path
from knox.views import LoginView, LogoutView
from notes.views import AccountView
from rest_framework.authentication import BasicAuthentication

from ferrule.django import mcp

urlpatterns = [
    path("login/", LoginView.as_view(authentication_classes=[BasicAuthentication])),
    path("logout/", LogoutView.as_view()),
    path("account/", AccountView.as_view()),
    path("mcp/", mcp.urls),
]
