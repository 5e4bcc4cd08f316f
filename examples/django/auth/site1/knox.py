"""django-rest-knox: clients send ``Authorization: Token …``, one token for each login."""

from site1.base import *  # noqa: F403
from site1.base import INSTALLED_APPS, PERMISSIONS

INSTALLED_APPS = [*INSTALLED_APPS, "knox"]
ROOT_URLCONF = "site1.knox_urls"
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["knox.auth.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": PERMISSIONS,
}
