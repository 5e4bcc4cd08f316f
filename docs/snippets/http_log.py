"""The log level and the access log of an HTTP server."""

# --8<-- [start:code]
from ferrule import MCPServer

app = MCPServer("press")

if __name__ == "__main__":
    app.run("http", log_level="info", access_log=True)
# --8<-- [end:code]


async def check(mode: str) -> None:
    """Each request has a line, without its query."""
    import asyncio
    import logging

    from ferrule import Client

    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    logger, handler = logging.getLogger("uvicorn.access"), Lines()
    logger.setLevel(logging.NOTSET)  # a server before this one in the process may have set another
    logger.addHandler(handler)
    serving = asyncio.ensure_future(
        app.run_async(
            "http", port=0, log_level=None, access_log=True, on_started=lambda host, port: bound.set_result(port)
        )
    )
    try:
        async with Client(f"http://127.0.0.1:{await bound}/mcp?token=secret", mode=mode) as client:
            await client.ping()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert any('"POST /mcp HTTP/1.1" 200' in line for line in lines), lines
    assert "secret" not in "".join(lines)
