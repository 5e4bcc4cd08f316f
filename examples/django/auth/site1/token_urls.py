"""URLs with TokenAuthentication."""

from django.urls import path
from notes.views import AccountView
from rest_framework.authtoken.views import obtain_auth_token

from ferrule.django import mcp

urlpatterns = [
    path("login/", obtain_auth_token),
    path("account/", AccountView.as_view()),
    path("mcp/", mcp.urls),
]
