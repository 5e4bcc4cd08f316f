from ferrule import MCPServer, ToolError

app = MCPServer("calculator", version="1.0")


@app.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@app.tool
def divide(a: float, b: float) -> float:
    """Divide a by b."""
    if b == 0:
        raise ToolError("b is zero; give another divisor.")
    return a / b


if __name__ == "__main__":
    app.run("stdio")
