"""djangorestframework-simplejwt: clients send ``Authorization: Bearer …`` with a JWT of this project."""

from site1.base import *  # noqa: F403
from site1.base import PERMISSIONS

ROOT_URLCONF = "site1.simplejwt_urls"
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework_simplejwt.authentication.JWTAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": PERMISSIONS,
}
