import hmac
import os

from notes import app

from ferrule.transports.asgi import HttpContext, HttpRefusal

TOKEN = os.environ["NOTES_TOKEN"]


async def authenticate(context: HttpContext) -> str:
    sent = context.headers.get("authorization", "")
    if not hmac.compare_digest(sent.encode(), f"Bearer {TOKEN}".encode()):
        raise HttpRefusal(401, "A token is needed", [("WWW-Authenticate", "Bearer")])
    return "owner"


if __name__ == "__main__":
    app.run(
        "http",
        host=os.environ.get("HOST", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8000")),
        allowed_hosts=["localhost", "127.0.0.1", *os.environ.get("NOTES_HOSTS", "").split()],
        authenticate=authenticate,
    )
