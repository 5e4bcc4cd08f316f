"""A chart with a slider, shown by the host (MCP Apps): ferrule dev examples/apps/chart.py"""

from math import exp, sin

from ferrule import MCPServer

app = MCPServer("wave")


@app.ui("chart.html", title="Damped wave")
def wave(damping: float = 0.1) -> list[float]:
    """Show a damped wave; the reader can change the damping."""
    return [round(sin(x / 4) * exp(-damping * x / 4), 3) for x in range(100)]


if __name__ == "__main__":
    app.run("stdio")
