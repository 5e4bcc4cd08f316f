"""For django-oauth-toolkit: tokens that are bound to the endpoint are valid for the views that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ferrule.django.exposing.caller import endpoint_url

__all__ = ["validate_resource"]


def validate_resource(request_uri: str, audiences: Sequence[str]) -> bool:
    """Return whether a token with these audiences (RFC 8707) is valid for a request.

    A view that the endpoint calls is judged by the URL of the endpoint, which the token was issued for. Any other
    request is judged by its own URL, as django-oauth-toolkit does it.

    For ``OAUTH2_PROVIDER["RESOURCE_SERVER_TOKEN_RESOURCE_VALIDATOR"]``, as
    ``"ferrule.django.access.oauth_toolkit.validate_resource"``.

    Args:
        request_uri: the URL of the request, without its query.
        audiences: the URLs that the token is bound to; without any it is valid everywhere.
    """
    validators: Any = import_module("oauth2_provider.oauth2_validators")
    return bool(validators.validate_resource_as_url_prefix(endpoint_url() or request_uri, audiences))
