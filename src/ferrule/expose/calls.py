"""The function behind an exposed operation: arguments to a request, through a caller, and the answer to a result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from msgspec.structs import replace

from ferrule.app.errors import ToolError
from ferrule.app.execution.context import Context
from ferrule.expose.answers.challenges import refusal_of
from ferrule.expose.answers.projection import Projection
from ferrule.expose.answers.results import answer_of, with_next_page
from ferrule.expose.exchange import ApiRequest, ApiResponse, Caller, CallerUnavailable, Origin
from ferrule.expose.operations import Operation
from ferrule.expose.requests.build import InvalidArgument, build_request
from ferrule.expose.requests.files import FileContents, InvalidFile, read_file_argument
from ferrule.expose.settings import ExposeSettings
from ferrule.kernel.concurrency.yielding import NEEDS_NO_LOOP
from ferrule.transports.asgi.context import HttpContext
from ferrule.wire.codec import encode_str
from ferrule.wire.json_types import is_list

__all__ = ["MAX_REDIRECTS", "OperationCall"]

logger = logging.getLogger(__name__)

FILE_TIMEOUT_S = 60.0
"""Maximum time in seconds to read a file of another server."""

MAX_REDIRECTS = 5
"""Maximum number of redirects that a call follows, all on the same origin."""


MAX_SHOWN_CHARS = 20_000
"""Maximum number of characters of a response that contradicts its schema, in the error with its text."""


class OperationCall:
    """Calls one operation.

    Args:
        operation: the operation that is called.
        caller: sends the request.
        settings: the options of `expose`.
        constants: values of arguments that the model does not see, by argument.
        base_url: the base URL of links to large files; ``None`` takes the origin of the outer request, and makes no
            links where there is none.
        path_prefix: the path of the API below its origin, for redirects that name an absolute path.
        is_output_published: whether the tool has the operation's output schema, which answers then must fit.
        shows_next_page: whether a list with a further page says which arguments that needs.
    """

    def __init__(
        self,
        operation: Operation,
        caller: Caller,
        settings: ExposeSettings,
        *,
        constants: Mapping[str, Any],
        base_url: str | None = None,
        path_prefix: str = "",
        is_output_published: bool = False,
        shows_next_page: bool = True,
    ) -> None:
        self.operation = operation
        self._caller = caller
        self._settings = settings
        self._constants = dict(constants)
        self._base_url = base_url
        self._path_prefix = path_prefix
        self._is_output_published = is_output_published
        self._shows_next_page = shows_next_page
        self._projection = Projection(settings.of(settings.fields, operation), settings.mask)
        self._files = _file_arguments(operation)
        self._check: Callable[[Any], list[str]] | None = None

    @property
    def needs_no_loop(self) -> bool:
        """Whether a thread can call it without an event loop: its caller can, and no argument is the URL of a file."""
        return getattr(self._caller, NEEDS_NO_LOOP, False) and not self._files  # which most callers lack

    async def __call__(self, ctx: Context[Any], arguments: Mapping[str, Any]) -> Any:
        """Call the operation and return the tool's value.

        Raises:
            ToolError: an argument cannot be sent, or the API refused the request or did not answer.
            RefusedByAPI, InsufficientScope: the API refused the caller's own credentials, and the answer can say so.
        """
        operation = self.operation
        given = {**arguments, **self._constants}
        try:
            files = await self._contents(ctx, given) if self._files else None
            request = build_request(operation, given, files=files)
        except (InvalidArgument, InvalidFile) as error:
            raise ToolError(str(error)) from error
        origin = origin_of(ctx, self._settings.forward_headers)
        try:
            request, response = await self._send(request, origin)
        except CallerUnavailable as error:
            raise ToolError(f"The call failed: {error}") from error
        if response.status in (401, 403):
            refusal = refusal_of(ctx, response, self._settings.forward_headers, self._projection)
            if refusal is not None:
                raise refusal
        base_url = self._base_url
        if (
            base_url is None and origin.scope is not None
        ):  # without an outer request a link has no host that a client could open
            base_url = f"{origin.scheme}://{origin.host}{response.prefix}"
        answer = answer_of(operation, request, response, projection=self._projection, base_url=base_url)
        if self._is_output_published or (self._settings.validate_output != "off" and 200 <= response.status < 300):
            self._compare(answer)
        if self._shows_next_page:
            answer = with_next_page(operation, request, response, answer, self._constants)
        return answer

    async def _send(self, request: ApiRequest, origin: Origin) -> tuple[ApiRequest, ApiResponse]:
        """Return the last request and its answer; a redirect on the same origin is followed."""
        followed = 0
        while True:
            response = await self._caller.call(request, origin, max_bytes=self._settings.max_response_bytes)
            target = self._redirected(request, response, origin)
            if target is None or followed == MAX_REDIRECTS:
                return request, response
            request = target
            followed += 1

    def _redirected(self, request: ApiRequest, response: ApiResponse, origin: Origin) -> ApiRequest | None:
        location = response.header("location")
        if not location or "\\" in location or response.status not in (301, 302, 303, 307, 308):
            return None
        own = self._base_url or f"{origin.scheme}://{origin.host}"
        prefix = self._path_prefix
        try:
            root = urlsplit(own)
            target = urlsplit(urljoin(f"{root.scheme}://{root.netloc}{prefix}{request.target}", location))
            is_own = target.username is None and _origin(target) == _origin(root)
        except ValueError:  # brackets in the place of a host, a port that is not a number
            return None
        if not is_own or _leads_up(target.path) or not f"{target.path}/".startswith(f"{prefix}/"):
            return None
        changed = response.status == 303 or (response.status in (301, 302) and request.method == "POST")
        keeps = ("content-type",) if changed else ()
        return replace(
            request,
            method="GET" if changed and request.method != "HEAD" else request.method,
            # Header values may have spaces and other letters, which a request line has not.
            path=quote(target.path[len(prefix) :], safe=_KEPT_IN_PATH) or ("" if prefix else "/"),
            query=quote(target.query, safe=f"{_KEPT_IN_PATH}?[]"),
            headers=tuple(pair for pair in request.headers if pair[0] not in keeps),
            body=b"" if changed else request.body,
            route="",
        )

    def _compare(self, answer: Any) -> None:
        if self._check is None:
            schema = self.operation.schemas().output
            if schema is None:
                self._check = _fits
            else:
                from ferrule.app.signatures.validation import problems_by

                self._check = problems_by(schema)
        found = self._check(answer)
        if not found:
            return
        logger.warning("%s answered what its description does not say: %s", self.operation.label, "; ".join(found))
        if self._is_output_published:
            # A client refuses a result that contradicts the tool's schema, so the answer is the text of an error.
            text = answer if isinstance(answer, str) else _shown(answer)
            raise ToolError(f"The API answered, though not as this tool's output schema says. Its answer: {text}")

    async def _contents(
        self, ctx: Context[Any], given: Mapping[str, Any]
    ) -> dict[str, FileContents | list[FileContents]]:
        settings = self._settings

        async def read_uri(uri: str) -> FileContents:
            if uri.lower().startswith(("http://", "https://")):
                return await fetch_file(uri, settings.file_origins, settings.max_file_bytes)
            return await read_resource(ctx, uri)

        made: dict[str, FileContents | list[FileContents]] = {}
        for name in self._files:
            value = given.get(name)
            if value is None:
                continue
            if is_list(value):
                made[name] = [await read_file_argument(name, part, read_uri) for part in value]
            else:
                made[name] = await read_file_argument(name, value, read_uri)
        return made


async def read_resource(ctx: Context[Any], uri: str) -> FileContents:
    """Return the contents of a resource of this server, as the sender of the request may read it.

    Raises:
        InvalidFile: there is no such resource, or it has no contents.
    """
    from base64 import b64decode

    from ferrule.protocol.errors import MCPError

    try:
        result = await ctx.read_resource(uri)
    except MCPError as error:
        raise InvalidFile(f"the resource {uri[:200]!r} cannot be read") from error
    if not result.contents:
        raise InvalidFile(f"the resource {uri[:200]!r} is empty")
    first = result.contents[0]
    data = first.text.encode("utf-8", "replace") if first.text is not None else b64decode(first.blob or "")
    return FileContents(data=data, filename=uri.rstrip("/").rpartition("/")[2] or None, content_type=first.mime_type)


async def fetch_file(url: str, origins: tuple[str, ...], max_bytes: int) -> FileContents:
    """Return a file of another server, requested without credentials and without following redirects.

    Args:
        url: the URL of the file.
        origins: the origins from which files may be read.
        max_bytes: the maximum number of bytes of the file.

    Raises:
        InvalidFile: its origin is not one of ``origins``, or it cannot be read.
    """
    from ferrule.protocol.errors import LocalError, MCPError
    from ferrule.transports.http.aiohttp_backend import AiohttpClient
    from ferrule.transports.http.backend import HttpClientRequest
    from ferrule.transports.http.fetching import fetch_bounded

    try:
        parts = urlsplit(url)
        allowed = parts.username is None and _origin(parts) in {_origin(urlsplit(origin)) for origin in origins}
    except ValueError:
        allowed = False
    if not allowed:
        known = ", ".join(origins)
        raise InvalidFile(f"files are read from {known} only" if known else "files are not read from other servers")
    http = AiohttpClient()
    try:
        request = HttpClientRequest("GET", url.partition("#")[0], {"accept": "*/*"}, b"")
        status, headers, body = await fetch_bounded(
            http, request, timeout_s=FILE_TIMEOUT_S, max_bytes=max_bytes, judge=None
        )
    except (LocalError, MCPError, OSError) as error:
        raise InvalidFile(f"the file {url[:200]!r} cannot be read, or is larger than {max_bytes:,} bytes") from error
    finally:
        await http.aclose()
    if status != 200:
        raise InvalidFile(f"the file {url[:200]!r} cannot be read: its server answered {status}")
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    return FileContents(data=body, filename=unquote(urlsplit(url).path.rpartition("/")[2]) or None, content_type=kind)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    default = {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.hostname, default if url.port is None else url.port


_KEPT_IN_PATH = "/:@!$&'()*+,;=~%"


def _leads_up(path: str) -> bool:
    """Return whether a path has a step that leads up, as one of many servers may read it."""
    # Some take a backslash for a slash, and some leave out what follows a semicolon.
    steps = unquote(path).replace("\\", "/").split("/")
    return any(step.partition(";")[0] in (".", "..") for step in steps)


def origin_of(ctx: Context[Any], forward: tuple[str, ...]) -> Origin:
    """Return the facts of the outer request for an application in this process.

    Args:
        ctx: the context of the call.
        forward: names of the headers to forward, in lower case.
    """
    transport = ctx.transport
    headers = transport.headers
    scope = transport.scope if isinstance(transport, HttpContext) else None
    return Origin(
        # As the server that took the request says: any client can send a header about it.
        scheme="https" if scope is not None and scope.get("scheme") == "https" else "http",
        host=headers.get("host", "localhost"),
        client=transport.client,
        headers=tuple((name, headers[name]) for name in forward if name in headers),
        scope=scope,
    )


def _file_arguments(operation: Operation) -> tuple[str, ...]:
    body = operation.body
    if body is None:
        return ()
    names = [member.argument for member in body.fields if member.is_binary]
    if body.form == "binary" and body.argument is not None:
        names.append(body.argument)
    return tuple(names)


def _shown(answer: Any) -> str:
    try:
        text = encode_str(answer)
    except (TypeError, ValueError):  # content: a picture, a file
        return "content that is not data"
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"


def _fits(value: Any) -> list[str]:
    return []
