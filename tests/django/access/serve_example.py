"""Serves the example of authentication with one package, in the environment with the packages.

Usage: serve_example.py ADDRESS, with ``DJANGO_SETTINGS_MODULE``. Makes the tables, the users ada and bob, and tokens of
both; prints the tokens as one JSON object, and serves.
"""

# The packages are not typed, and in an environment of their own.
# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

CLIENT_DOCUMENT = "https://client.example/metadata.json"
REDIRECT_URI = "http://127.0.0.1:33419/callback"


class Documents:
    """Fetches the metadata document of a client, without a network."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and the seconds for which it is valid."""
        assert client_id == CLIENT_DOCUMENT
        document = {"client_id": client_id, "client_name": "A client", "redirect_uris": [REDIRECT_URI]}
        return {**document, "token_endpoint_auth_method": "none", "grant_types": ["authorization_code"]}, 600


def with_client_documents() -> None:
    """Let clients of django-oauth-toolkit be known by a document, which the example leaves out."""
    from django.conf import settings

    settings.OAUTH2_PROVIDER.update(CIMD_ENABLED=True, CIMD_METADATA_FETCHER="serve_example.Documents")


def made(package: str, user: Any, other: Any) -> dict[str, Any]:
    """Return tokens: a valid one of each user, and an expired one; make the client that is known before."""
    from django.utils import timezone

    from ferrule.django import mcp
    from ferrule.django.access.tokens import authentication_classes, make_token

    if package == "oauth_toolkit":
        from oauth2_provider.models import AccessToken, Application

        known = {"client_type": "public", "authorization_grant_type": "authorization-code"}
        Application.objects.create(client_id="known", name="Known", redirect_uris=REDIRECT_URI, **known)
        for name, owner, hours in (("valid", user, 1), ("expired", user, -1), ("other", other, 1)):
            expires = timezone.now() + timedelta(hours=hours)
            AccessToken.objects.create(user=owner, token=f"{name}-token", scope="read", expires=expires)
        return {"keyword": "Bearer", "valid": "valid-token", "expired": "expired-token", "other": "other-token"}
    token, of_other = (make_token(each, authentication_classes(mcp)) for each in (user, other))
    found = {"keyword": token.keyword, "valid": token.token, "other": of_other.token}
    if package == "knox":
        from knox.models import AuthToken

        found["expired"] = AuthToken.objects.create(user, expiry=timedelta(hours=-1))[1]
    elif package == "simplejwt":
        from rest_framework_simplejwt import tokens

        expired = tokens.AccessToken.for_user(user)
        expired.set_exp(lifetime=timedelta(hours=-1))
        found["expired"] = str(expired)
    return found


def main(address: str) -> None:
    """Serve on an address until the process is ended."""
    import django
    from django.conf import settings

    package = settings.SETTINGS_MODULE.rpartition(".")[2]
    if package == "oauth_toolkit":
        with_client_documents()
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    ada = User.objects.create_user("ada", password="x", is_staff=True)
    bob = User.objects.create_user("bob")
    print(json.dumps(made(package, ada, bob)), flush=True)
    call_command("runserver", address, use_reloader=False)


if __name__ == "__main__":
    main(sys.argv[1])
