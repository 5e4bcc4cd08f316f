"""`package`: one HTML document that needs no server behind it.

A view runs in a frame without a server of its own, so that nothing can be loaded by a relative URL. Local scripts,
style sheets, pictures, fonts and media become part of the document. What it loads from elsewhere must be allowed by the
policy of the page, since the host would refuse it, and the reader would see an empty frame.

``<script src="ferrule:view"></script>`` becomes the view script (`ferrule.extensions.apps.view_script`).

Source: MCP Apps 2026-01-26, "Content Requirements" and "Host Behavior".
"""

from __future__ import annotations

import html
import mimetypes
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ferrule.extensions.apps.errors import PageError
from ferrule.extensions.apps.policy import CSP_KEYS, UiPolicy, allows
from ferrule.extensions.apps.references import Element, Use, elements_of, in_css, in_script, in_srcset
from ferrule.extensions.apps.view_script import view_script
from ferrule.wire.patterns import pattern
from ferrule.wire.struct import Value

__all__ = ["MAX_PAGE_BYTES", "Packaged", "package", "page_problems"]

MAX_PAGE_BYTES: Final = 10 * 1024 * 1024
"""Default of the maximum size of a page with all that is inlined, in bytes of UTF-8."""

_VIEW: Final = "ferrule:view"
_MAX_IMPORTS: Final = 32
_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_REMOTE: Final = ("http:", "https:", "ws:", "wss:")
_SCRIPT_TYPES: Final = ("", "module", "text/javascript", "application/javascript", "text/ecmascript")
_ICONS: Final = frozenset({"icon", "apple-touch-icon", "mask-icon"})
_ONLY_HINTS: Final = frozenset({"preload", "modulepreload", "prefetch", "manifest"})
_LOADING: Final[dict[str, tuple[str, ...]]] = {
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "feimage": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
    "body": ("background",),
}
_TYPES: Final = {  # those that `mimetypes` does not know on every system
    ".avif": "image/avif",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".otf": "font/otf",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_POLICY_KEYS: Final[dict[Use, str]] = dict(zip(("connect", "resources", "frames", "base_uris"), CSP_KEYS, strict=True))


_MAX_FILES: Final = 5000
"""Of files in one page, each as often as it is inlined: style sheets that import each other multiply."""


class Packaged(Value, frozen=True):
    """A page as hosts get it.

    Attributes:
        html: the document.
        files: the files that it was made of.
    """

    html: str
    files: tuple[Path, ...]


def package(
    text: str, policy: UiPolicy, *, label: str, folder: Path | None = None, max_bytes: int = MAX_PAGE_BYTES
) -> Packaged:
    """Return a document with its local files inlined.

    Args:
        text: the document.
        policy: what it may load from elsewhere.
        label: the name of the document in errors: its path.
        folder: where relative URLs begin; ``None`` for a document that is no file, which has none.
        max_bytes: maximum size of the result in UTF-8.

    Raises:
        PageError: a local file is missing, a URL is not allowed by the policy, or the page is too large.
    """
    if len(text) > max_bytes:
        raise PageError(f"the page has more than {max_bytes:,} bytes", file=label)
    packer = _Packer(policy, folder, max_bytes=max_bytes)
    made = packer.document(text, label)
    size = len(made.encode())
    if size > max_bytes:
        raise PageError(
            f"the page has {size:,} bytes with its files, and at most {max_bytes:,} are allowed", file=label
        )
    return Packaged(made, tuple(packer.files))


def page_problems(html: str, policy: UiPolicy, *, label: str) -> list[PageError]:
    """Return what a packaged document refers to and hosts would not load; empty if there is nothing.

    Args:
        html: the document as hosts get it.
        policy: the policy of its resource.
        label: the name of the document in the problems.
    """
    found: list[PageError] = []
    _Packer(policy, None, found.append).document(html, label)
    return found


def _raise(problem: PageError) -> None:
    raise problem


class _Packer:
    """Replaces the parts of one document; `files` are those that were read.

    Args:
        policy, folder: see `package`.
        refuse: called with each problem; if it returns, the reference stays as it is.
        max_bytes: maximum number of bytes of all files together, each as often as it is inlined.
    """

    def __init__(
        self,
        policy: UiPolicy,
        folder: Path | None,
        refuse: Callable[[PageError], None] = _raise,
        *,
        max_bytes: int = MAX_PAGE_BYTES,
    ) -> None:
        self._left = max_bytes
        self._files_left = _MAX_FILES
        self._policy = policy
        self._folder = folder
        self._refuse = refuse
        self.files: dict[Path, None] = {}

    def document(self, text: str, label: str) -> str:
        edits: list[tuple[int, int, str]] = []
        deferred: list[str] = []
        found = elements_of(text)
        for place, element in enumerate(found):
            match element.tag:
                case "script" if "src" in element.attributes:
                    self._script(element, _end_of(found, place, text), label, edits, deferred)
                case "#script":
                    self._check_script(text[element.start : element.end], element, label, element.line)
                case "link":
                    self._link(element, label, edits)
                case "#style":
                    styles = text[element.start : element.end]
                    edits.append((element.start, element.end, self._css(styles, label, element.line, self._folder)))
                case "iframe" | "frame" | "embed" | "object" | "base":
                    self._frame(element, label)
                case _:
                    self._attributes(element, text, label, edits)
        if deferred:
            ends = [element.start for element in found if element.tag == "/body"]
            edits.append((ends[-1] if ends else len(text), ends[-1] if ends else len(text), "\n".join(deferred) + "\n"))
        made = _edited(text, edits)
        return made if made.lstrip("\ufeff \t\r\n").lower().startswith("<!doctype") else f"<!doctype html>\n{made}"

    # -- elements ------------------------------------------------------------------------------------------------------

    def _script(
        self, element: Element, end: int, label: str, edits: list[tuple[int, int, str]], deferred: list[str]
    ) -> None:
        url = element.get("src")
        if url == _VIEW:
            edits.append((element.start, end, _script_tag({}, view_script())))
            return
        file = self._local(url, "resources", label, element.line, self._folder)
        if file is None:
            return
        code = self._read(file, label, element.line)
        self._check_script(code, element, str(file), 1)
        kept = {name: value for name, value in element.attributes.items() if name not in _SRC_ATTRIBUTES}
        made = _script_tag(kept, code)
        # A browser runs them after the document; without `src` it would run them at their place.
        waits = ("defer" in element.attributes or "async" in element.attributes) and element.get("type") != "module"
        if waits:
            deferred.append(made)
        edits.append((element.start, end, "" if waits else made))

    def _check_script(self, code: str, element: Element, label: str, line: int) -> None:
        kind = element.get("type").lower()
        if kind not in _SCRIPT_TYPES:
            return
        for reference in in_script(code, is_module=kind == "module"):
            at = line + reference.line - 1
            if _is_remote(reference.url):
                self._check(reference.url, reference.use, label, at)
            elif reference.use == "resources" and reference.url.startswith((".", "/")):
                self._refuse(
                    PageError(
                        f"{reference.url!r} is a module beside this one, and a view has no server that gives it: "
                        "bundle the modules into one script",
                        file=label,
                        line=at,
                    )
                )

    def _link(self, element: Element, label: str, edits: list[tuple[int, int, str]]) -> None:
        relations = set(element.get("rel").lower().split())
        if not relations & {"stylesheet", *_ICONS, *_ONLY_HINTS}:
            return
        file = self._local(element.get("href"), "resources", label, element.line, self._folder)
        if file is None:
            return
        if "stylesheet" in relations:
            styles = self._css(self._read(file, label, element.line), str(file), 1, file.parent, (file,))
            media = element.get("media")
            kept = f' media="{html.escape(media)}"' if media else ""
            edits.append((element.start, element.end, f"<style{kept}>\n{styles}\n</style>"))
        elif relations & _ICONS:
            edits.append((element.start, element.end, _tag(element, {"href": self._data(file, label, element.line)})))
        else:
            edits.append((element.start, element.end, ""))

    def _frame(self, element: Element, label: str) -> None:
        name = {"base": "href", "object": "data"}.get(element.tag, "src")
        url = element.get(name)
        if not url or _is_inert(url):
            return
        if element.tag in ("embed", "object"):
            self._refuse(PageError(f"hosts show no <{element.tag}> (object-src 'none')", file=label, line=element.line))
        elif not _is_remote(url):
            reason = f"<{element.tag}> refers to {url!r}, and a view has no server that gives it"
            self._refuse(PageError(reason, file=label, line=element.line))
        else:
            self._check(url, "base_uris" if element.tag == "base" else "frames", label, element.line)

    def _attributes(self, element: Element, text: str, label: str, edits: list[tuple[int, int, str]]) -> None:
        changed: dict[str, str] = {}
        for name in _LOADING.get(element.tag, ()):
            value = element.get(name)
            if value:
                made = self._srcset(value, label, element.line) if name == "srcset" else None
                changed[name] = self._url(value, label, element.line, self._folder) if made is None else made
        styles = element.attributes.get("style")
        if styles and "url(" in styles.lower():
            changed["style"] = self._css(styles, label, element.line, self._folder)
        if any(value != element.attributes.get(name) for name, value in changed.items()):
            is_closed = text[element.start : element.end].endswith("/>")
            edits.append((element.start, element.end, _tag(element, changed, is_closed=is_closed)))

    def _srcset(self, value: str, label: str, line: int) -> str:
        parts = [(self._url(url, label, line, self._folder), descriptor) for url, descriptor in in_srcset(value)]
        return ", ".join(f"{url} {descriptor}".strip() for url, descriptor in parts)

    # -- CSS -----------------------------------------------------------------------------------------------------------

    def _css(self, text: str, label: str, line: int, folder: Path | None, inside: tuple[Path, ...] = ()) -> str:
        """Return CSS with what it imports and loads; ``inside``: the files that import one another down to this one."""
        edits: list[tuple[int, int, str]] = []
        for reference in in_css(text):
            at = line + reference.line - 1
            if reference.media is None:
                url = self._url(reference.url, label, at, folder)
                if url != reference.url:
                    edits.append((reference.start, reference.end, f'url("{url}")'))
                continue
            file = self._local(reference.url, "resources", label, at, folder)
            if file is None:
                continue
            if file in inside or len(inside) > _MAX_IMPORTS:
                raise PageError(f"{reference.url!r} imports itself", file=label, line=at)
            styles = self._css(self._read(file, label, at), str(file), 1, file.parent, (*inside, file))
            edits.append((reference.start, reference.end, _under(reference.media, styles)))
        # Within a document `</style` ends the styles, wherever it stands.
        return _edited(text, edits).replace("</style", "<\\/style")

    # -- URLs ----------------------------------------------------------------------------------------------------------

    def _url(self, url: str, label: str, line: int, folder: Path | None) -> str:
        """Return a URL that the page can load: itself, or the file as a ``data:`` URL."""
        file = self._local(url, "resources", label, line, folder)
        if file is None:
            return url
        fragment = urlsplit(url).fragment
        return self._data(file, label, line) + (f"#{fragment}" if fragment else "")

    def _local(self, url: str, use: Use, label: str, line: int, folder: Path | None) -> Path | None:
        """Return the file of a relative URL; ``None`` for a URL that is not a file.

        Raises:
            PageError: the policy does not allow it, or there is no such file.
        """
        if not url or _is_inert(url):
            return None
        if _is_remote(url):
            self._check(url, use, label, line)
            return None
        if _SCHEME.match(url):
            self._refuse(PageError(f"{url!r} cannot be loaded by a view", file=label, line=line))
            return None
        if folder is None or self._folder is None:
            reason = f"{url!r} is a file, and this page is given as text, which has no folder: give the page as a file"
            self._refuse(PageError(reason, file=label, line=line))
            return None
        path = unquote(urlsplit(url).path)
        try:
            file = (self._folder / path.lstrip("/") if path.startswith("/") else folder / path).resolve()
            is_file = file.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, links in a circle
            raise PageError(f"{url[:200]!r} is not the name of a file", file=label, line=line) from error
        if not is_file:
            raise PageError(f"there is no file {url!r} (looked for {file})", file=label, line=line)
        return file

    def _check(self, url: str, use: Use, label: str, line: int) -> None:
        absolute = f"https:{url}" if url.startswith("//") else url
        if not allows(getattr(self._policy, use), absolute):
            split = urlsplit(absolute)
            reason = (
                f"{url!r} is not allowed by the page's policy, so that hosts do not load it: make it a local file, or "
                f'allow it with csp={{"{_POLICY_KEYS[use]}": ["{split.scheme}://{split.netloc}"]}}'
            )
            self._refuse(PageError(reason, file=label, line=line))

    def _read(self, file: Path, label: str, line: int) -> str:
        try:
            return self._bytes(file, label, line).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PageError(f"{file} is not UTF-8: {error}", file=label, line=line) from error

    def _data(self, file: Path, label: str, line: int) -> str:
        content = self._bytes(file, label, line)
        kind = _TYPES.get(file.suffix.lower()) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return f"data:{kind};base64,{b64encode(content).decode('ascii')}"

    def _bytes(self, file: Path, label: str, line: int) -> bytes:
        """Return the content of a file, within what is left for the page.

        Raises:
            PageError: the file cannot be read, or the page becomes too large.
        """
        self.files[file] = None
        try:
            with file.open("rb") as stream:
                content = stream.read(self._left + 1)
        except OSError as error:
            raise PageError(f"{file} cannot be read: {error.strerror}", file=label, line=line) from error
        self._left -= len(content)
        self._files_left -= 1
        if self._left < 0 or self._files_left < 0:
            raise PageError(
                f"with {file.name} the files of the page are more than may be part of it", file=label, line=line
            )
        return content


_SRC_ATTRIBUTES: Final = frozenset({"src", "defer", "async", "integrity", "crossorigin", "referrerpolicy"})


def _under(conditions: str, styles: str) -> str:
    """Return the styles of an ``@import`` under its conditions: a layer, ``supports(…)`` and media, in this order."""
    match = _CONDITIONS.fullmatch(conditions)
    if match is None:
        return styles
    rules = [
        "" if match["layer"] is None else f"@layer {match['name'] or ''}".strip(),
        "" if match["supports"] is None else f"@supports ({match['supports']})",
        "" if not match["media"] else f"@media {match['media']}",
    ]
    for rule in reversed([rule for rule in rules if rule]):
        styles = f"{rule} {{\n{styles}\n}}"
    return styles


_CONDITIONS = pattern(
    r"\s*(?P<layer>layer(?:\((?P<name>[^)]*)\))?(?=\s|$))?\s*"
    r"(?:supports\((?P<supports>(?:[^()]|\([^()]*\))*)\))?\s*(?P<media>.*?)\s*",
    re.DOTALL,
)


def _is_remote(url: str) -> bool:
    return url.startswith("//") or url.lower().startswith(_REMOTE)


def _is_inert(url: str) -> bool:
    """Return whether a URL loads nothing: a fragment, or data that is part of it."""
    return url.startswith("#") or url.lower().startswith(("data:", "blob:", "about:", "javascript:"))


def _end_of(found: list[Element], place: int, text: str) -> int:
    """Return the offset behind the end tag of the script at a place of the list."""
    return next((element.end for element in found[place + 1 :] if element.tag == "/script"), len(text))


def _written(attributes: Mapping[str, str | None]) -> str:
    """Return attributes as they follow the name of a tag."""
    return "".join(
        f" {name}" if value is None else f' {name}="{html.escape(value)}"' for name, value in attributes.items()
    )


def _script_tag(attributes: Mapping[str, str | None], code: str) -> str:
    # `</script` ends a script wherever it stands, and `<!--` can make the browser look for its end elsewhere.
    safe = _ENDS_SCRIPT.sub(r"<\\\1", code)
    return f"<script{_written(attributes)}>\n{safe}\n</script>"


_ENDS_SCRIPT = pattern(r"(?i)<(/script|!--)")


def _tag(element: Element, changed: dict[str, str], *, is_closed: bool = False) -> str:
    return f"<{element.tag}{_written({**element.attributes, **changed})}{' /' if is_closed else ''}>"


def _edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    last = 0
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[last:start], replacement]
        last = end
    return "".join([*parts, text[last:]])
