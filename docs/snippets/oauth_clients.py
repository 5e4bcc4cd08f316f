"""Ways for a client to a token."""

# --8<-- [start:code]
from ferrule import Client
from ferrule.auth import EncryptedFileStorage, OAuth


async def with_a_browser(url: str) -> list[str]:
    """A user consents once; the tokens outlive the program."""
    async with Client(url, auth=OAuth(storage=EncryptedFileStorage())) as client:
        return [tool.name for tool in await client.list_tools()]


# --8<-- [end:code]


# --8<-- [start:token]
def with_a_token(url: str, token: str) -> Client:
    return Client(url, auth=token)  # sent as a bearer token, to this server's origin only


# --8<-- [end:token]


# --8<-- [start:paste]
from ferrule.auth import PasteInteraction


def on_another_machine(url: str) -> Client:
    """Shows a URL, and asks for the address on which the browser ended."""
    return Client(url, auth=OAuth(interaction=PasteInteraction()))


# --8<-- [end:paste]


# --8<-- [start:web]
from ferrule.auth import CallbackInteraction


def in_a_web_application(url: str, send_user_to) -> Client:
    """`await send_user_to(authorization_url)` returns the URL of the redirect to your redirect URI."""
    return Client(url, auth=OAuth(interaction=CallbackInteraction("https://app.example.com/callback", send_user_to)))


# --8<-- [end:web]


# --8<-- [start:document]
from ferrule.auth import ClientMetadata


def known_by_a_document(url: str) -> Client:
    """The identity is the URL of a JSON document that you publish; without support for it the client registers."""
    return Client(
        url,
        auth=OAuth(
            client_metadata_url="https://app.example.com/client.json",
            metadata=ClientMetadata(name="My program"),
            scopes="drawers:read",
        ),
    )


# --8<-- [end:document]


# --8<-- [start:machine]
from ferrule.auth import ClientCredentials


def with_a_secret(url: str, issuer: str) -> Client:
    return Client(url, auth=ClientCredentials("robot", "its secret", issuer=issuer))


def with_a_key(url: str, issuer: str, pem: str) -> Client:
    """Signs an assertion (private_key_jwt): no secret goes over the wire."""
    return Client(url, auth=ClientCredentials("robot", private_key=pem, algorithm="ES256", issuer=issuer))


# --8<-- [end:machine]


# --8<-- [start:workload]
from pathlib import Path

from ferrule.auth import WorkloadIdentity


def with_the_platforms_token(url: str, issuer: str, path: str) -> Client:
    """The function is called for each token request, so a rotated token is read again."""
    return Client(url, auth=WorkloadIdentity(lambda: Path(path).read_text(), issuer=issuer))


# --8<-- [end:workload]


# --8<-- [start:enterprise]
from ferrule.auth import EnterpriseManaged


def through_the_employer(url: str, issuer: str, idp_token_endpoint: str, id_token: str) -> Client:
    """Cross-app access: the ID token of single sign-on becomes an ID-JAG, and that an access token."""
    return Client(
        url,
        auth=EnterpriseManaged(
            id_token,
            idp_token_endpoint=idp_token_endpoint,
            idp_client_id="at the identity provider",
            idp_client_secret="its secret there",
            client_id="at the server's authorization server",
            client_secret="its secret here",
            issuer=issuer,
        ),
    )


# --8<-- [end:enterprise]


async def check(mode: str) -> None:
    """Each way against a server on loopback, and what an authorization server saw of it."""
    import json
    import tempfile
    from urllib.parse import parse_qsl

    import pytest
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    from ferrule import MCPError, MCPServer
    from ferrule.auth import DemoIssuer, JwtTokens, MemoryProvider, RegisteredClient, ResourceServer
    from ferrule.auth.errors import AuthError
    from ferrule.transports.http.aiohttp_backend import AiohttpClient
    from ferrule.transports.http.backend import HttpClientOptions, HttpClientRequest
    from tests.auth.support import Relay, serving

    seen: list[dict[str, str]] = []

    class Issuer(DemoIssuer):
        """The demo issuer, and grants that it does not have: what comes in is noted and a token given."""

        async def __call__(self, scope, receive, send) -> None:
            if scope["type"] != "http" or scope["path"] not in ("/token", "/idp"):
                await super().__call__(scope, receive, send)
                return
            body = (await receive())["body"]
            form = dict(parse_qsl(body.decode()))
            if form["grant_type"] not in ("authorization_code", "refresh_token"):
                seen.append(form)
                answer = {"access_token": self.mint(self.resource, scope="drawers:read"), "token_type": "Bearer"}
                if scope["path"] == "/idp":
                    answer = {
                        "access_token": "the ID-JAG",
                        "token_type": "N_A",
                        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
                    }
                headers = [(b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
                return

            async def again():
                return {"type": "http.request", "body": body, "more_body": False}

            await super().__call__(scope, again, send)

    async def browse(url: str) -> str:
        http = AiohttpClient(HttpClientOptions(proxy=None))
        try:
            response = await http.open(HttpClientRequest("GET", url))
            await response.aclose()
            return response.headers["location"]
        finally:
            await http.aclose()

    async def tools(client: Client) -> list[str]:
        async with client:
            return [tool.name for tool in await client.list_tools()]

    issuer_at, server_at = Relay(), Relay()
    async with serving(issuer_at) as issuer_port, serving(server_at) as server_port:
        issuer_url, url = f"http://127.0.0.1:{issuer_port}", f"http://127.0.0.1:{server_port}/mcp"
        robot = RegisteredClient("robot", "its secret", grants=("client_credentials",), method="client_secret_post")
        issuer = Issuer(
            issuer_url,
            MemoryProvider("ada", clients=(robot,)),
            methods=("none", "client_secret_post", "private_key_jwt"),
        )
        issuer.resource = url
        issuer_at.app = issuer
        app = MCPServer("drawers", auth=ResourceServer(JwtTokens(issuer_url), resource=url))
        app.add_tool(lambda: 3, name="count")
        endpoint = server_at.app = app.asgi(loopback=True)

        with tempfile.TemporaryDirectory() as folder:
            auth = OAuth(
                interaction=CallbackInteraction("http://127.0.0.1:33418/callback", browse),
                storage=EncryptedFileStorage(folder),
            )
            assert await tools(Client(url, auth=auth, mode=mode)) == ["count"]
            again = OAuth(storage=EncryptedFileStorage(folder))
            assert await tools(Client(url, auth=again, mode=mode)) == ["count"]
            shown: list[str] = []

            async def paste(_: str) -> str:
                found = next(word for text in shown for word in text.split() if word.startswith("http"))
                return await browse(found)

            pasted = OAuth(interaction=PasteInteraction(show=shown.append, ask=paste))
            assert await tools(Client(url, auth=pasted, mode=mode)) == ["count"]

            assert await tools(with_a_token(url, issuer.mint(url))) == ["count"]
            assert await tools(with_a_secret(url, issuer_url)) == ["count"]
            assert (seen[-1]["grant_type"], seen[-1]["client_secret"]) == ("client_credentials", "its secret")
            key = ec.generate_private_key(ec.SECP256R1())
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode()
            assert await tools(with_a_key(url, issuer_url, pem)) == ["count"]
            assert seen[-1]["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            path = Path(folder) / "token"
            path.write_text("the platform's JWT")
            assert await tools(with_the_platforms_token(url, issuer_url, str(path))) == ["count"]
            assert seen[-1]["assertion"] == "the platform's JWT"
            seen.clear()
            assert await tools(through_the_employer(url, issuer_url, f"{issuer_url}/idp", "the ID token")) == ["count"]
            assert [form.get("subject_token", form.get("assertion")) for form in seen] == ["the ID token", "the ID-JAG"]
        with pytest.raises(AuthError, match=r"belong to 'https://other.example.com', but the server now names"):
            await tools(with_a_secret(url, "https://other.example.com"))
        with pytest.raises(MCPError, match="This server needs an access token"):
            await tools(Client(url, mode=mode))
        for make in (on_another_machine, known_by_a_document):
            assert isinstance(make(url), Client)
        assert isinstance(in_a_web_application(url, browse), Client)
        await endpoint.aclose()
