"""How the client under test authorizes: per scenario, with a user who always agrees."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import anyio.to_thread

from ferrule.auth import ClientCredentials, EnterpriseManaged, OAuth, WorkloadIdentity
from ferrule.auth.client.interaction import CallbackInteraction

REDIRECT_URI = "http://localhost:3000/callback"
CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"


class _StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _visit(url: str) -> str:
    """Where the authorization endpoint sends the user."""
    try:
        urllib.request.build_opener(_StaysHere()).open(url, timeout=10)
    except urllib.error.HTTPError as error:
        with error:
            return str(error.headers["location"])
    raise RuntimeError("the authorization endpoint redirected nowhere")


async def visit(url: str) -> str:
    """A user who agrees."""
    return await anyio.to_thread.run_sync(_visit, url)


def auth_for(name: str, context: dict[str, Any]) -> OAuth:
    """What ``Client(auth=…)`` takes in a scenario."""
    if name == "auth/client-credentials-jwt":
        return ClientCredentials(
            context["client_id"],
            private_key=context["private_key_pem"],
            algorithm=context.get("signing_algorithm", "ES256"),
        )
    if name == "auth/client-credentials-basic":
        return ClientCredentials(context["client_id"], context["client_secret"])
    if name == "auth/wif-jwt-bearer":
        return WorkloadIdentity(context["valid_jwt"], client_id=context["client_id"])
    if name == "auth/enterprise-managed-authorization":
        return EnterpriseManaged(
            context["idp_id_token"],
            idp_token_endpoint=context["idp_token_endpoint"],
            idp_issuer=context["idp_issuer"],
            idp_client_id=context["idp_client_id"],
            client_id=context["client_id"],
            client_secret=context["client_secret"],
        )
    return OAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=CLIENT_METADATA_URL,
        interaction=CallbackInteraction(REDIRECT_URI, visit),
        dpop=True if name.startswith("auth/dpop") else "auto",
    )
