"""TokenAuthentication of Django REST framework: clients send ``Authorization: Token …``."""

from site1.base import *  # noqa: F403
from site1.base import INSTALLED_APPS, PERMISSIONS

INSTALLED_APPS = [*INSTALLED_APPS, "rest_framework.authtoken"]
ROOT_URLCONF = "site1.token_urls"
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": PERMISSIONS,
}
