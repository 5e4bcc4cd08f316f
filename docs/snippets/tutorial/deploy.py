from calculator import app

asgi = app.asgi(allowed_hosts=["mcp.example.com"])
