"""The endpoints as functions from settings, client and request to a `Reply`; each may raise `Denied`."""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ferrule.auth.dpop_proof import InvalidProof, read_proof
from ferrule.auth.issuer.clients import match_redirect
from ferrule.auth.issuer.provider import AuthorizationRequest, RegisteredClient
from ferrule.auth.issuer.settings import Denied, IssuerRequest, IssuerSettings, Reply, hashed, json_reply
from ferrule.auth.jose import unverified_header, verify_jwt
from ferrule.auth.pkce import challenge_of
from ferrule.wire.json_types import is_object

__all__ = ["authorize", "introspect", "issue_token", "revoke"]

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # RFC 7636, 4.2: a SHA-256 in base64url
_URL_CHARS = "!#$%&'()*+,/:;=?@[]~"
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")  # RFC 7636, 4.1


async def authorize(settings: IssuerSettings, client: RegisteredClient | None, request: IssuerRequest) -> Reply:
    """Return the redirect of the authorization endpoint, with a code or an error (RFC 6749, 4.1.2).

    Raises:
        Denied: the client or its redirect URI is unknown, so there must be no redirect.
    """
    query = request.query
    if client is None:
        raise Denied("invalid_client", "There is no such client")
    redirect_uri = match_redirect(client, query.get("redirect_uri"))
    if redirect_uri is None:
        raise Denied("invalid_request", "The redirect URI is not one of this client's")
    answer: dict[str, str | None] = {"state": query.get("state"), "iss": settings.issuer}
    try:
        answer["code"] = await _decided(settings, client, redirect_uri, query)
    except Denied as denied:
        answer |= {"error": denied.error, "error_description": str(denied)}
    joint = "&" if "?" in redirect_uri else "?"
    location = f"{redirect_uri}{joint}{urlencode({name: value for name, value in answer.items() if value is not None})}"
    location = quote(location, safe=_URL_CHARS)  # a header must be ASCII
    return Reply(302, [("location", location), ("cache-control", "no-store"), ("referrer-policy", "no-referrer")])


async def _decided(settings: IssuerSettings, client: RegisteredClient, redirect_uri: str, query: dict[str, str]) -> str:
    if query.get("response_type") != "code":
        raise Denied("unsupported_response_type", "Only response_type=code is supported")
    challenge = query.get("code_challenge", "")
    if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
        raise Denied("invalid_request", "PKCE with S256 is needed")
    scopes = _scopes(settings, query.get("scope"))
    resource = _resource(settings, query.get("resource"))
    subject = await settings.provider.decide(AuthorizationRequest(client, redirect_uri, scopes, resource, query))
    if subject is None:
        raise Denied("access_denied", "The user does not consent")
    code = secrets.token_urlsafe(32)
    record = {
        "client_id": client.client_id,
        "redirect_uri": query.get("redirect_uri"),
        "challenge": challenge,
        "scopes": list(scopes),
        "resource": resource,
        "subject": subject,
    }
    await settings.provider.put(f"code {hashed(code)}", record, ttl_s=settings.code_ttl_s)
    return code


def _scopes(settings: IssuerSettings, scope: str | None) -> tuple[str, ...]:
    asked = tuple(dict.fromkeys((scope or "").split())) or settings.default_scopes
    if settings.scopes and not set(asked) <= set(settings.scopes):
        raise Denied("invalid_scope", "A scope is not known")
    return asked


def _resource(settings: IssuerSettings, resource: str | None) -> str | None:
    if resource is not None:
        try:
            parts = urlsplit(resource)
            is_url = bool(parts.scheme and parts.netloc and not parts.fragment)
        except ValueError:
            is_url = False
        if not is_url:
            raise Denied("invalid_target", "The resource is not an absolute URL")
        if settings.resources and resource not in settings.resources:
            raise Denied("invalid_target", "The resource is not known")
    return resource


async def issue_token(settings: IssuerSettings, client: RegisteredClient, request: IssuerRequest) -> Reply:
    """Return the response of the token endpoint (RFC 6749, 3.2); the client was authenticated already.

    Raises:
        Denied: the grant is not allowed for the client, or the code, refresh token, scope or proof is not valid.
    """
    grant = request.form.get("grant_type")
    if grant not in client.grants:
        known = grant in ("authorization_code", "refresh_token", "client_credentials")
        raise Denied("unauthorized_client" if known else "unsupported_grant_type", "The client may not use this grant")
    thumbprint = _proof_of(settings, request)
    if grant == "authorization_code":
        return await _for_code(settings, client, request.form, thumbprint)
    if grant == "refresh_token":
        return await _for_refresh(settings, client, request.form, thumbprint)
    scopes = _scopes(settings, request.form.get("scope"))
    facts = {"subject": client.client_id, "scopes": list(scopes), "family": secrets.token_urlsafe(8)}
    resource = _resource(settings, request.form.get("resource"))
    return _token_reply(settings, client, facts, resource, thumbprint, None)


def _proof_of(settings: IssuerSettings, request: IssuerRequest) -> str | None:
    """Return the thumbprint of the key that the tokens are to be bound to; ``None`` for bearer tokens."""
    proof = request.headers.get("dpop")
    if proof is None:
        return None
    try:
        found = read_proof(
            proof, "POST", request.url, now=settings.clock(), window_s=300.0, token=None, algorithms=("ES256",)
        )
    except InvalidProof as error:
        raise Denied("invalid_dpop_proof", str(error)) from None
    return found.thumbprint


async def _for_code(
    settings: IssuerSettings, client: RegisteredClient, form: dict[str, str], thumbprint: str | None
) -> Reply:
    provider, name = settings.provider, hashed(form.get("code", ""))
    # Taken before the checks, so that a wrong request uses the code up (RFC 6749, 4.1.2).
    found = await provider.get(f"code {name}", take=True)
    if found is None:
        used = await provider.get(f"used {name}")
        if (
            used is not None
        ):  # a code that is used twice was stolen: revoke the tokens of its first use (RFC 6749, 4.1.2)
            await provider.put(f"revoked {used['family']}", {}, ttl_s=settings.refresh_ttl_s)
        raise Denied("invalid_grant", "The code is not known, has expired or was used")
    if found["client_id"] != client.client_id or found["redirect_uri"] != form.get("redirect_uri"):
        raise Denied("invalid_grant", "The code was given to another client or for another redirect URI")
    verifier = form.get("code_verifier", "")
    if not _VERIFIER.fullmatch(verifier):
        raise Denied("invalid_grant", "A code_verifier is needed")
    # In constant time: the client chooses one of the two values.
    if not hmac.compare_digest(challenge_of(verifier), found["challenge"]):
        raise Denied("invalid_grant", "The code_verifier does not match")
    resource = _consented(found, form)
    family = secrets.token_urlsafe(8)
    await provider.put(f"used {name}", {"family": family}, ttl_s=settings.code_ttl_s)
    facts = {**found, "family": family, "resource": resource, "thumbprint": thumbprint}
    refresh = await _new_refresh(settings, client, facts)
    return _token_reply(settings, client, facts, resource, thumbprint, refresh)


def _consented(found: dict[str, Any], form: dict[str, str]) -> str | None:
    """Return the resource that the user consented to, ``None`` without one; a later request must not name another."""
    consented: str | None = found["resource"]
    if form.get("resource", consented) != consented:
        raise Denied("invalid_target", "The resource is another one than was consented to")
    return consented


async def _new_refresh(settings: IssuerSettings, client: RegisteredClient, facts: dict[str, Any]) -> str | None:
    if "refresh_token" not in client.grants:
        return None
    token = secrets.token_urlsafe(32)
    kept = {name: facts.get(name) for name in ("subject", "scopes", "resource", "family", "thumbprint")}
    record = {**kept, "client_id": client.client_id, "rotated_at": None}
    await settings.provider.put(f"refresh {hashed(token)}", record, ttl_s=settings.refresh_ttl_s)
    return token


async def _for_refresh(
    settings: IssuerSettings, client: RegisteredClient, form: dict[str, str], thumbprint: str | None
) -> Reply:
    """Rotate the refresh token, and return the response.

    The old token remains valid for ``grace_s`` seconds, for a client that lost the response. A use after that means
    that it was stolen, and all tokens of the family are revoked (RFC 9700, 4.14.2).
    """
    provider = settings.provider
    key = f"refresh {hashed(form.get('refresh_token', ''))}"
    found = await provider.get(key)
    if found is None or found["client_id"] != client.client_id:
        raise Denied("invalid_grant", "The refresh token is not known or has expired")
    family = found["family"]
    if await provider.get(f"revoked {family}") is not None:
        raise Denied("invalid_grant", "The refresh token was revoked")
    if found["thumbprint"] is not None and found["thumbprint"] != thumbprint:
        raise Denied("invalid_dpop_proof", "The refresh token is bound to another key")
    now = settings.clock()
    if found["rotated_at"] is not None and now - found["rotated_at"] > settings.grace_s:
        await provider.put(f"revoked {family}", {}, ttl_s=settings.refresh_ttl_s)
        raise Denied("invalid_grant", "The refresh token was used before")
    asked = (form.get("scope") or "").split()
    if not set(asked) <= set(found["scopes"]):
        raise Denied("invalid_scope", "A refresh cannot widen the scope")
    resource = _consented(found, form)
    if found["rotated_at"] is None:
        await provider.put(key, {**found, "rotated_at": now}, ttl_s=settings.refresh_ttl_s)
    refresh = await _new_refresh(settings, client, found)
    facts = {**found, "scopes": asked or found["scopes"]}
    return _token_reply(settings, client, facts, resource, thumbprint, refresh)


def _token_reply(
    settings: IssuerSettings,
    client: RegisteredClient,
    facts: dict[str, Any],
    resource: str | None,
    thumbprint: str | None,
    refresh: str | None,
) -> Reply:
    scope = " ".join(facts["scopes"])
    token = settings.sign_access_token(
        {
            "sub": facts["subject"],
            "aud": resource or settings.issuer,
            "client_id": client.client_id,
            "scope": scope,
            "family": facts["family"],
            "cnf": None if thumbprint is None else {"jkt": thumbprint},
        }
    )
    answer = {
        "access_token": token,
        "token_type": "Bearer" if thumbprint is None else "DPoP",
        "expires_in": int(settings.access_ttl_s),
        "scope": scope,
    }
    if refresh is not None:
        answer["refresh_token"] = refresh
    return json_reply(answer)


async def _claims_of(settings: IssuerSettings, token: str) -> dict[str, Any] | None:
    """Return the claims of a valid access token of this issuer; ``None`` for anything else."""
    try:
        unverified_header(token)
        _, claims = verify_jwt(token, settings.signing_key, ["ES256"])
    except ValueError:
        return None
    if claims.get("iss") != settings.issuer or settings.clock() >= claims.get("exp", 0):
        return None
    for name in (f"revoked {claims.get('family')}", f"revoked {claims.get('jti')}"):
        if await settings.provider.get(name) is not None:
            return None
    return claims


async def introspect(settings: IssuerSettings, client: RegisteredClient, request: IssuerRequest) -> Reply:
    """Return the response of the introspection endpoint (RFC 7662).

    Raises:
        Denied: the client has no secret; only resource servers may introspect.
    """
    if client.secret is None:
        raise Denied("invalid_client", "Introspection needs a confidential client", status=401)
    claims = await _claims_of(settings, request.form.get("token", ""))
    if claims is None:
        return json_reply({"active": False})
    return json_reply({"active": True, "token_type": "DPoP" if is_object(claims.get("cnf")) else "Bearer", **claims})


async def revoke(settings: IssuerSettings, client: RegisteredClient, request: IssuerRequest) -> Reply:
    """Revoke a token and return the response (RFC 7009); an unknown token is not an error (section 2.2)."""
    token, provider = request.form.get("token", ""), settings.provider
    found = await provider.get(f"refresh {hashed(token)}")
    if found is not None:
        if found["client_id"] == client.client_id:
            await provider.put(f"revoked {found['family']}", {}, ttl_s=settings.refresh_ttl_s)
        return json_reply({})
    claims = await _claims_of(settings, token)
    if claims is not None and claims.get("client_id") == client.client_id:
        await provider.put(f"revoked {claims['jti']}", {}, ttl_s=settings.access_ttl_s)
    return json_reply({})
