"""An API with an OpenAPI description, over HTTP, as a server: `from_openapi`, `add_openapi`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack, cast

from ferrule._options import check_options
from ferrule.app.server import MCPServer
from ferrule.expose.callers.http import HTTPCaller
from ferrule.expose.credentials import Credentials, WithCredentials
from ferrule.expose.description.reader import Description, read_description
from ferrule.expose.documents import ReferencedDocuments, Source, load_document
from ferrule.expose.exchange import Caller
from ferrule.expose.exposure import Exposure
from ferrule.expose.requests.routes import CheckedCaller, Route, Routes, routes_of
from ferrule.expose.settings import ExposeKeywords, ExposeSettings

__all__ = ["from_openapi", "read_openapi"]


def read_openapi(
    source: Source, *, allow_remote_references: bool = False, documents: Mapping[str, Any] | None = None
) -> Description:
    """Return the description in an OpenAPI document.

    Args:
        source: the document, its path or its URL; see `load_document`.
        allow_remote_references: fetch other documents that it refers to over HTTP; see `ReferencedDocuments`. Files
            beside a document that is a file are read without it.
        documents: other documents, by URI; relative to that of the document, which is empty for a value.

    Raises:
        NotADescription: it is not a usable OpenAPI description.
        OSError: the file cannot be read.
    """
    document, uri = load_document(source)
    fetch = ReferencedDocuments(uri, allow_remote=allow_remote_references)
    return read_description(document, base_uri=uri, documents=documents, fetch=fetch)


def from_openapi(
    source: Source,
    *,
    base_url: str,
    auth: Credentials | None = None,
    headers: Mapping[str, str] | None = None,
    client: Any = None,
    caller: Caller | None = None,
    allow_remote_references: bool = False,
    documents: Mapping[str, Any] | None = None,
    name: str | None = None,
    server: Mapping[str, Any] | None = None,
    **options: Unpack[ExposeKeywords],
) -> MCPServer[Any]:
    """Return a server whose tools are operations of an API.

    Args:
        source: the OpenAPI document, its path or its URL.
        base_url: the base URL of the API. Requests, and the credentials in them, are never sent to the ``servers`` of
            the document.
        auth: credentials for the API; see `Credentials`.
        headers: headers of every request.
        client: your own ``aiohttp.ClientSession``.
        caller: sends the requests in place of HTTP.
        allow_remote_references: fetch other documents that this one refers to over HTTP.
        documents: other documents, by URI.
        name: the name of the server; ``None`` for the title of the API.
        server: further options of `MCPServer`; the default of ``tool_search`` is ``"auto"``.
        options: the options of `ExposeSettings`. Nothing is exposed without ``include=``.

    Raises:
        NotADescription: the document cannot be read.
        NothingMatches: a pattern matches no operation.
        TypeError: ``include`` is missing, or an option does not exist.
    """
    settings = settings_of("from_openapi()", options)
    description = read_openapi(source, allow_remote_references=allow_remote_references, documents=documents)
    sender: Caller = caller if caller is not None else HTTPCaller(base_url, headers=headers, session=client)
    sender = CheckedCaller(sender, _routes(description).names_another)
    if auth is not None:
        sender = WithCredentials(sender, auth, description.operations)
    given = dict(server or {})
    given.setdefault("version", description.version)
    given.setdefault("tool_search", "auto")
    given["lifespan"] = _closing(sender, given.get("lifespan"))
    app: MCPServer[Any] = MCPServer(name or description.title, **given)
    Exposure(app, sender, settings, base_url=base_url).update(description.operations)
    return app


def _routes(description: Description) -> Routes:
    """Return all routes that a document knows. How its API reads capitals is not known."""
    others = [Route(each.method, each.path) for each in description.skipped]
    return Routes([*routes_of(description.operations), *others], ignore_case=True)


def settings_of(what: str, options: Mapping[str, Any]) -> ExposeSettings:
    """Return keyword arguments as settings.

    Args:
        what: the function that was called, for messages.
        options: its keyword arguments.

    Raises:
        TypeError: ``include`` is missing, an option does not exist, or a description is not text.
    """
    check_options(what, options, ExposeKeywords)
    for name, text in options.get("describe", {}).items():
        if not isinstance(text, str):
            raise TypeError(f"{what}: describe={name!r} is not text, but {type(text).__name__}")
    if "include" not in options:
        raise TypeError(f'{what} exposes nothing by itself: say what, for instance include="tag:users" or include="*"')
    return ExposeSettings(**cast("dict[str, Any]", options))


def _closing(caller: Caller, lifespan: Any) -> Any:
    """Return a lifespan that closes the caller after the user's own lifespan."""

    @asynccontextmanager
    async def closing(app: MCPServer[Any]) -> AsyncGenerator[Any]:
        try:
            if lifespan is None:
                yield {}
            else:
                async with lifespan(app) as state:
                    yield state
        finally:
            await caller.aclose()

    return closing
