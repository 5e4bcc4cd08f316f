"""Reads OpenAPI documents from files, URLs and values.

A document is foreign data: its size, its nesting and the expansion of its YAML aliases are bounded.
`ReferencedDocuments` bounds the documents that it refers to, and their locations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BufferedReader, RawIOBase
from os import PathLike, fspath
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from ferrule.expose.description.reader import NotADescription
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_object
from ferrule.wire.yaml_data import YamlError, decode_yaml, plain_data

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "MAX_FETCH_S",
    "MAX_REFERENCED_BYTES",
    "MAX_REFERENCED_DOCUMENTS",
    "ReferencedDocuments",
    "Source",
    "load_document",
]

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""Maximum number of bytes of one document."""

MAX_REFERENCED_DOCUMENTS = 100
"""Maximum number of documents that one document may refer to, directly or through others."""

MAX_REFERENCED_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of all referenced documents together."""

MAX_FETCH_S = 120.0
"""Seconds for fetching one document, redirects included; as many for all documents together that it refers to."""

_FEW_VALUES = 100_000
"""Number of values that any document may have; a larger one may have as many as bytes. Aliases count at each use."""

_NEEDS = "reading a description in YAML needs PyYAML: pip install 'ferrule[openapi]'"
_FETCH_TIMEOUT_S = 30.0
"""Seconds for the connection, and between two arrivals of bytes."""
_TOO_SLOW = f"the time for it is over, {MAX_FETCH_S:g} s in all"
_MAX_REDIRECTS = 5
_SUFFIXES = (".json", ".yaml", ".yml")

Source = Mapping[str, Any] | str | bytes | PathLike[str]
"""A decoded document, its text, the path of a file, or an ``http`` or ``https`` URL."""


def load_document(source: Source) -> tuple[dict[str, Any], str]:
    """Return a decoded document and its URI, which is empty for a value or a text.

    Args:
        source: a mapping is the decoded document; bytes, and a text with a line break or beginning with ``{``, are its
            text; ``http://`` and ``https://`` URLs are fetched; anything else is a path.

    Raises:
        NotADescription: it is neither JSON nor YAML, too large, or cannot be fetched.
        OSError: the file cannot be read.
    """
    if isinstance(source, Mapping):
        try:
            return plain_data(dict(source), MAX_DOCUMENT_BYTES // 32), ""
        except YamlError as error:
            raise NotADescription(f"the document {error}") from error
    if isinstance(source, bytes):
        return _decoded(source, ""), ""
    text = fspath(source)
    if isinstance(source, str):
        if text.startswith(("http://", "https://")):

            def check(target: str) -> None:
                if target != text:  # a redirect
                    _check_url(target, text)

            data, url = _fetched(text, MAX_DOCUMENT_BYTES, check, monotonic() + MAX_FETCH_S)
            return _decoded(data, text), url
        if text.lstrip()[:1] == "{" or "\n" in text:
            return _decoded(text.encode("utf-8", "replace"), ""), ""
    path = Path(text)
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise NotADescription(f"{text} is larger than {MAX_DOCUMENT_BYTES >> 20} MB")
    return _decoded(path.read_bytes(), text), path.resolve().as_uri()


class ReferencedDocuments:
    """Reads the documents that a document refers to, within bounds.

    * A document that was read from a file may refer to JSON and YAML files in its own folder and below it.
    * Over HTTP nothing is fetched unless ``allow_remote``. Then the rules are those of URLs in authorization: a
      document on the public internet must not lead to a private network or to this machine, by name, by the address
      that a name has, or by a redirect; plain ``http`` is for loopback.

    Args:
        base_uri: the URI of the document.
        allow_remote: fetch documents over HTTP.
    """

    def __init__(self, base_uri: str, *, allow_remote: bool) -> None:
        self._base_uri = base_uri
        self._allow_remote = allow_remote
        self._documents = 0
        self._bytes = 0
        self._fetching_s = 0.0

    def __call__(self, uri: str) -> Any:
        """Return the document of a URI, decoded.

        Raises:
            PermissionError: the document may not be read.
            NotADescription: it is neither JSON nor YAML, too large, or cannot be fetched.
            OSError: the file cannot be read.
        """
        scheme = urlsplit(uri).scheme
        if self._documents == MAX_REFERENCED_DOCUMENTS:
            raise PermissionError(f"more than {MAX_REFERENCED_DOCUMENTS} documents are not read")
        room = MAX_REFERENCED_BYTES - self._bytes
        if scheme == "file":
            path = self._path(uri)
            if path.stat().st_size > room:
                raise NotADescription(f"more than {MAX_REFERENCED_BYTES >> 20} MB of other documents are not read")
            data, name = path.read_bytes(), path.name
        elif scheme in ("http", "https"):
            if not self._allow_remote:
                raise PermissionError("it is not fetched unless remote references are allowed")
            data, name = self._fetch(uri, room), uri
        else:
            raise PermissionError("only files and http URLs are read")
        self._documents += 1
        self._bytes += len(data)
        return _decoded(data, name)

    def _fetch(self, url: str, max_bytes: int) -> bytes:
        began = monotonic()
        ends_at = began + MAX_FETCH_S - self._fetching_s
        try:
            return _fetched(url, max_bytes, lambda target: _check_url(target, self._base_uri), ends_at)[0]
        finally:
            self._fetching_s += monotonic() - began

    def _path(self, uri: str) -> Path:
        base = urlsplit(self._base_uri)
        parts = urlsplit(uri)
        if base.scheme != "file" or parts.netloc not in ("", base.netloc):
            raise PermissionError("files are read beside a document that is a file itself")
        folder = _file_of(base.path).parent.resolve()
        path = _file_of(parts.path).resolve()  # a symbolic link is judged by where it leads
        if not path.is_relative_to(folder) or path.suffix.lower() not in _SUFFIXES:
            raise PermissionError("only JSON and YAML files in the folder of the document and below are read")
        return path


def _check_url(url: str, base_uri: str) -> None:
    """Check a URL that a document, or a redirect, names.

    Args:
        url: the URL to check.
        base_uri: the URI of the document, which a person chose: no URL may be more private than this one.

    Raises:
        NotADescription: the URL may not be fetched.
    """
    from socket import gaierror, getaddrinfo

    from ferrule.auth.errors import UnsafeUrl
    from ferrule.auth.urls import HostClass, UrlPolicy, class_of_address

    is_url = base_uri.startswith(("http://", "https://"))
    insecure = [urlsplit(base_uri).hostname or ""] if base_uri.startswith("http://") else []
    policy = UrlPolicy(insecure_hosts=insecure)
    allowed = policy.class_for(base_uri) if is_url else HostClass.PUBLIC
    try:
        policy.check(url, allowed)
        parts = urlsplit(url)
        for *_, address in getaddrinfo(parts.hostname, parts.port or 443, type=1):
            if class_of_address(str(address[0])) > allowed:
                raise UnsafeUrl(url, "its name resolves to an address that is more private than the document's")
    except gaierror as error:
        raise NotADescription(f"the host of {url[:200]} is not known") from error
    except (UnsafeUrl, ValueError) as error:
        raise NotADescription(str(error)) from error


def _file_of(path: str) -> Path:
    from urllib.request import url2pathname

    return Path(url2pathname(path)) if "%" in path or Path("/").anchor != "/" else Path(unquote(path))


class _BytesInTime(RawIOBase):
    """The bytes that a connection receives until a time; a time limit of the socket is one for each read only."""

    def __init__(self, connection: Any, ends_at: float) -> None:
        self._connection = connection
        self._raw: Any = connection.makefile("rb", buffering=0)
        self._ends_at = ends_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._ends_at - monotonic()
        if left_s > 0:
            self._connection.settimeout(min(left_s, _FETCH_TIMEOUT_S))
            try:
                return self._raw.readinto(buffer)  # type: ignore[no-any-return]
            except TimeoutError:
                if left_s > _FETCH_TIMEOUT_S:
                    raise
        raise TimeoutError(_TOO_SLOW)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _opener(ends_at: float) -> Any:
    """Return an opener of URLs that follows no redirects and reads answers until a time.

    Args:
        ends_at: the time, by `time.monotonic`.
    """
    from http.client import HTTPResponse
    from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, build_opener

    def response(connection: Any, *arguments: Any, **more: Any) -> HTTPResponse:
        made = HTTPResponse(connection, *arguments, **more)
        made.fp.close()
        made.fp = BufferedReader(_BytesInTime(connection, ends_at))
        return made

    def timed(make_connection: Any) -> Any:
        def make(*arguments: Any, **more: Any) -> Any:
            made = make_connection(*arguments, **more)
            made.response_class = response
            return made

        return make

    class _Http(HTTPHandler):
        def do_open(self, http_class: Any, *arguments: Any, **more: Any) -> Any:
            return super().do_open(timed(http_class), *arguments, **more)

    class _Https(HTTPSHandler):
        def do_open(self, http_class: Any, *arguments: Any, **more: Any) -> Any:
            return super().do_open(timed(http_class), *arguments, **more)

    class _NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any, **more: Any) -> None:
            return None

    return build_opener(_NoRedirects, _Http, _Https)


def _fetched(url: str, max_bytes: int, check: Callable[[str], None], ends_at: float) -> tuple[bytes, str]:
    """Return the content of a URL, and the final URL after redirects, each of which is checked."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    from ferrule.transports.http.backend import without_secrets

    opener = _opener(ends_at)
    shown = without_secrets(url)[:200]
    for _ in range(_MAX_REDIRECTS + 1):
        check(url)
        left_s = ends_at - monotonic()
        if left_s <= 0:
            raise NotADescription(f"{shown} cannot be fetched: {_TOO_SLOW}")
        try:
            request = Request(url, headers={"Accept": "application/json, application/yaml;q=0.9, */*;q=0.5"})
            with opener.open(request, timeout=min(left_s, _FETCH_TIMEOUT_S)) as response:
                data: bytes = response.read(max_bytes + 1)
                is_cut = bool(response.length) and len(data) <= max_bytes
        except HTTPError as error:
            with error:
                location = error.headers.get("location")
                if error.code not in (301, 302, 303, 307, 308) or not location:
                    raise NotADescription(f"{shown} cannot be fetched: it answered {error.code}") from error
            url = _joined(url, location)
            if not url.startswith(("http://", "https://")):
                raise NotADescription(f"{shown} cannot be fetched: it leads to another kind of URL") from error
            continue
        except (OSError, ValueError) as error:
            raise NotADescription(f"{shown} cannot be fetched: {str(error)[:200]}") from error
        except HTTPException as error:  # its text may have parts of the answer, or of the URL with a password
            raise NotADescription(f"{shown} cannot be fetched: {type(error).__name__}") from error
        if is_cut:  # of YAML, a part reads like a whole
            raise NotADescription(f"{shown} cannot be fetched: the connection ended before the document did")
        if len(data) > max_bytes:
            raise NotADescription(f"{shown} is larger than {max_bytes:,} bytes")
        return data, url
    raise NotADescription(
        f"{shown} cannot be fetched: it leads from one URL to another more than {_MAX_REDIRECTS} times"
    )


def _decoded(data: bytes, name: str) -> dict[str, Any]:
    where = name or "the document"
    data = data.removeprefix(b"\xef\xbb\xbf")
    found: Any = None
    if data.lstrip()[:1] == b"{":
        try:
            found = decode(data)
        except DecodeError as error:
            reason = f"{where} is not JSON: {error}"
            if data.rstrip()[-1:] == b"}" and b'"' in data[:200]:  # otherwise it may be YAML in its flow style
                raise NotADescription(reason) from error
    if found is None:
        found = _yaml(data, where)
    if not is_object(found):
        raise NotADescription(f"{where} is not an OpenAPI description, which is an object")
    return found


def _joined(base: str, reference: str) -> str:
    """Return the URL that a redirect leads to; empty for a malformed one."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return ""


def _yaml(data: bytes, where: str) -> Any:
    try:
        return decode_yaml(data, max(_FEW_VALUES, len(data)), needs=_NEEDS)
    except YamlError as error:
        raise NotADescription(f"{where} {error}".replace("is not YAML", "is neither JSON nor YAML", 1)) from error
