from ferrule import MCPServer

app = MCPServer("stock")


@app.tool
def count() -> int:
    return 3


if __name__ == "__main__":
    app.run("http", port=8000, allowed_hosts=["mcp.example.com"], trusted_proxies=["127.0.0.1"])
