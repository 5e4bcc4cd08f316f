"""django-oauth-toolkit: the project is the authorization server, and clients sign their users in at a browser."""

from site1.base import *  # noqa: F403
from site1.base import INSTALLED_APPS, PERMISSIONS

INSTALLED_APPS = [*INSTALLED_APPS, "oauth2_provider", "scoped"]
ROOT_URLCONF = "site1.oauth_toolkit_urls"
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["oauth2_provider.contrib.rest_framework.OAuth2Authentication"],
    "DEFAULT_PERMISSION_CLASSES": PERMISSIONS,
}
OAUTH2_PROVIDER = {
    "SCOPES": {"read": "See what you see", "write": "Write in your name"},
    # A token is bound to the URL of the endpoint (RFC 8707); it must also do for the views that the endpoint calls.
    "RESOURCE_SERVER_TOKEN_RESOURCE_VALIDATOR": "ferrule.django.access.oauth_toolkit.validate_resource",
    # Clients register themselves (RFC 7591); without these two lines an administrator registers each one.
    "DCR_ENABLED": True,
    "DCR_REGISTRATION_PERMISSION_CLASSES": ["oauth2_provider.dcr.AllowAllDCRPermission"],
}
MCP = {"NAME": "notes", "SCOPES_SUPPORTED": ["read"]}  # clients ask for more where a tool needs it
