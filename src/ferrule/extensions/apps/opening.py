"""`open_page`: the page of a tool as a host gets it, from any server, and what other hosts would refuse in it.

For the test hosts of `ferrule.testing` and of the inspector, and for hosts.

Source: MCP Apps 2026-01-26, "UI Resource Format" and "Resource Discovery".
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ferrule.extensions.apps.listing import FLAT_KEY
from ferrule.extensions.apps.packaging import page_problems
from ferrule.extensions.apps.page import MIME_TYPE, URI_SCHEME
from ferrule.extensions.apps.policy import CSP_KEYS, UiPolicy, host_policy
from ferrule.protocol.errors import MCPError
from ferrule.search.definitions import ui_of
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import Value
from ferrule.wire.types import ResourceContents, Tool

if TYPE_CHECKING:
    from ferrule.client.client import Client

__all__ = ["FindingKind", "OpenedPage", "ViewFinding", "open_page", "page_uri_of", "required_page_uri"]

FindingKind = Literal["resource", "policy", "reference", "text", "data", "visibility", "message", "script"]


class ViewFinding(Value, frozen=True):
    """Something that a host would refuse, or show as an empty frame.

    Attributes:
        kind: ``"resource"``: the page cannot be read, or not as a page; ``"policy"``: its policy is missing or differs;
            ``"reference"``: it loads what the policy does not allow; ``"text"``: a result has no text for hosts
            without views; ``"data"``: structured content is no object, which pages made with the official package
            refuse; ``"visibility"``: the view called a tool that is not for views; ``"message"``: a message
            does not fit the dialect; ``"script"``: an exception in the script of the page, where there is a browser.
        text: what is wrong.
    """

    kind: FindingKind
    text: str


class OpenedPage(Value, frozen=True):
    """A page that was read.

    Attributes:
        uri: its URI.
        html: the document; empty if it cannot be read.
        ui: the ``_meta.ui`` that the policy was made of; empty without one.
        policy: the policy that a host applies.
        findings: what hosts would refuse.
    """

    uri: str
    html: str = ""
    ui: Mapping[str, Any] = {}
    policy: UiPolicy = UiPolicy()
    findings: tuple[ViewFinding, ...] = ()


def page_uri_of(tool: Tool) -> str | None:
    """Return the URI of a tool's page; ``None`` for a tool without one."""
    given = ui_of(tool.meta).get("resourceUri")
    if given is None and tool.meta is not None:
        given = tool.meta.get(FLAT_KEY)
    return given if isinstance(given, str) else None


def required_page_uri(tool: Tool) -> str:
    """Return the URI of a tool's page.

    Raises:
        LookupError: the tool has no page.
    """
    uri = page_uri_of(tool)
    if uri is None:
        raise LookupError(f"the tool {tool.name!r} has no page: its _meta.ui.resourceUri is missing")
    return uri


async def open_page(client: Client, tool: Tool, *, reads_lists_only: bool = False) -> OpenedPage:
    """Read the page of a tool.

    Args:
        client: a connected client, made with ``extensions=CLIENT_SETTINGS``.
        tool: the tool's entry in the list.
        reads_lists_only: take the policy from the entry of ``resources/list`` alone, as some hosts do; otherwise that
            of the content item comes first.

    Raises:
        LookupError: the tool has no page.
        LocalError, RemoteError: the connection failed.
    """
    uri = required_page_uri(tool)
    findings: list[ViewFinding] = []
    _check_tool(tool, findings)
    listed = await _listed_ui(client, uri)
    item = await _read(client, uri, findings)
    if item is None:
        return OpenedPage(uri, findings=tuple(findings))
    html = _document(item, findings)
    read = ui_of(item.meta)
    _check_places(read, listed, findings)
    ui = listed if reads_lists_only else read or listed
    policy, left_out = host_policy(ui)
    findings += [ViewFinding("policy", text) for text in left_out]
    if not html.lstrip("\ufeff \t\r\n").lower().startswith("<!doctype html"):
        findings.append(ViewFinding("resource", f"{uri} is no HTML5 document: it does not begin with <!doctype html>"))
    findings += [ViewFinding("reference", str(problem)) for problem in page_problems(html, policy, label=uri)]
    return OpenedPage(uri, html, ui, policy, tuple(findings))


def _check_tool(tool: Tool, findings: list[ViewFinding]) -> None:
    ui = ui_of(tool.meta)
    findings.extend(
        ViewFinding("policy", f"{key} of {tool.name!r} is on the tool, where hosts ignore it")
        for key in ("csp", "permissions")
        if key in ui
    )
    if "resourceUri" not in ui:
        findings.append(
            ViewFinding("resource", f"{tool.name!r} names its page by {FLAT_KEY} only: hosts read _meta.ui.resourceUri")
        )


async def _listed_ui(client: Client, uri: str) -> Mapping[str, Any]:
    """Return ``_meta.ui`` of the page's entry in the list; a server may leave pages out of it."""
    try:
        listed = await client.list_resources()
    except MCPError:
        return {}
    for each in listed:
        if each.uri == uri:
            return ui_of(each.meta)
    return {}


async def _read(client: Client, uri: str, findings: list[ViewFinding]) -> ResourceContents | None:
    if not uri.startswith(URI_SCHEME):
        findings.append(ViewFinding("resource", f"{uri} does not begin with {URI_SCHEME}"))
    try:
        contents = (await client.read_resource(uri)).contents
    except MCPError as error:
        findings.append(ViewFinding("resource", f"{uri} cannot be read: {error.message}"))
        return None
    if len(contents) != 1:
        findings.append(ViewFinding("resource", f"{uri} is not one text"))
        return None
    if contents[0].mime_type != MIME_TYPE:
        findings.append(ViewFinding("resource", f"{uri} is {contents[0].mime_type!r}, not {MIME_TYPE!r}"))
    return contents[0]


def _document(item: ResourceContents, findings: list[ViewFinding]) -> str:
    if item.text is not None:
        return item.text
    try:
        return b64decode(item.blob or "", validate=True).decode()
    except ValueError as error:
        findings.append(ViewFinding("resource", f"{item.uri} is not text: {error}"))
        return ""


def _check_places(read: Mapping[str, Any], listed: Mapping[str, Any], findings: list[ViewFinding]) -> None:
    """Some hosts read only the list entry, others only the content item."""
    for place, found in {"resources/read": read, "resources/list": listed}.items():
        csp: Any = found.get("csp")
        missing = [key for key in CSP_KEYS if not is_mapping(csp) or key not in csp]
        if missing:
            text = f"{', '.join(missing)} missing in _meta.ui.csp of {place}: some hosts need each"
            findings.append(ViewFinding("policy", text))
    if read and listed and read != listed:
        findings.append(ViewFinding("policy", "_meta.ui differs between resources/read and resources/list"))
