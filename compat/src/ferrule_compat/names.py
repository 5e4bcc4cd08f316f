"""Answers the imports of ``mcp`` and ``mcp.*`` in this process, before an installed package of that name is looked at.

`install` puts a finder first. Each old module is made when it is imported, and its names are looked up when they are
used. A module or name that is not offered fails with a sentence that names it, so that a user can report it; for
``hasattr`` and ``except ImportError`` it fails as any missing name does.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

__all__ = ["MODULES", "NotOffered", "install", "where_to_report"]

_IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]


def _from(module: str, names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names.split()}


_LOWLEVEL = _from("lowlevel", "NotificationOptions Server lifespan") | {"request_ctx": "session:request_ctx"}
_PROMPTS = _from("components", "AssistantMessage Message Prompt PromptManager UserMessage")
_RESOURCES = _from(
    "resources",
    "BinaryResource DirectoryResource FileResource FunctionResource HttpResource Resource ResourceManager "
    "ResourceTemplate TextResource",
)
_TOOLS = _from("components", "Tool ToolManager")
_MEDIA = _from("content", "Audio Image")
_FASTMCP = _from("fastmcp", "FastMCP Settings") | {"Context": "context:Context"}
_OPTIONS = {"InitializationOptions": "types:InitializationOptions"}
_SESSION = {"ServerSession": "session:ServerSession", "ServerSessionT": "typing:Any"}
_STDIO = _from("transports", "stdio_server")
_ERRORS = _from("exceptions", "McpError UrlElicitationRequiredError")
_ELICITATION = _from(
    "context",
    "AcceptedElicitation AcceptedUrlElicitation CancelledElicitation DeclinedElicitation elicit_url "
    "elicit_with_validation",
) | {"ElicitationResult": "typing:Any", "UrlElicitationResult": "typing:Any"}
_METADATA = _from("functions", "FuncMetadata func_metadata")
_CLIENT = {
    name: f"refused:{name}"
    for name in (
        "ClientSession", "ClientSessionGroup", "StdioServerParameters", "sse_client", "stdio_client",
        "streamablehttp_client", "streamable_http_client",
    )
}  # fmt: skip

MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    "mcp": {**_SESSION, **_STDIO, **_ERRORS, **_CLIENT, "*": "types:*"},
    "mcp.types": {"*": "types:*"},
    "mcp.server": {**_LOWLEVEL, **_OPTIONS, **_SESSION, "FastMCP": "fastmcp:FastMCP"},
    "mcp.server.elicitation": _ELICITATION,
    "mcp.server.fastmcp": {**_FASTMCP, **_MEDIA, "Icon": "types:Icon"},
    "mcp.server.fastmcp.exceptions": _from(
        "exceptions", "FastMCPError InvalidSignature ResourceError ToolError ValidationError"
    ),
    "mcp.server.fastmcp.prompts": _PROMPTS,
    "mcp.server.fastmcp.prompts.base": {**_PROMPTS, "PromptArgument": "types:PromptArgument"},
    "mcp.server.fastmcp.prompts.manager": _PROMPTS,
    "mcp.server.fastmcp.resources": _RESOURCES,
    "mcp.server.fastmcp.resources.base": _RESOURCES,
    "mcp.server.fastmcp.resources.resource_manager": _RESOURCES,
    "mcp.server.fastmcp.resources.templates": _RESOURCES,
    "mcp.server.fastmcp.resources.types": _RESOURCES,
    "mcp.server.fastmcp.server": {**_FASTMCP, **_MEDIA},
    "mcp.server.fastmcp.tools": _TOOLS,
    "mcp.server.fastmcp.tools.base": _TOOLS,
    "mcp.server.fastmcp.tools.tool_manager": _TOOLS,
    "mcp.server.fastmcp.utilities": {},
    "mcp.server.fastmcp.utilities.func_metadata": _METADATA,
    "mcp.server.fastmcp.utilities.logging": _from("utilities", "configure_logging get_logger"),
    "mcp.server.fastmcp.utilities.types": _MEDIA,
    "mcp.server.lowlevel": _LOWLEVEL,
    "mcp.server.lowlevel.helper_types": {"ReadResourceContents": "types:ReadResourceContents"},
    "mcp.server.lowlevel.server": {**_LOWLEVEL, "ReadResourceContents": "types:ReadResourceContents"},
    "mcp.server.models": _OPTIONS,
    "mcp.server.session": _SESSION,
    "mcp.server.sse": _from("transports", "SseServerTransport"),
    "mcp.server.stdio": _STDIO,
    "mcp.server.streamable_http": {
        "EventStore": "typing:Any",
        "MCP_SESSION_ID_HEADER": "utilities:MCP_SESSION_ID_HEADER",
        "StreamableHTTPServerTransport": "refused:StreamableHTTPServerTransport",
    },
    "mcp.server.streamable_http_manager": _from("transports", "StreamableHTTPASGIApp StreamableHTTPSessionManager"),
    "mcp.server.transport_security": _from("transports", "TransportSecuritySettings"),
    "mcp.shared": {},
    "mcp.shared.context": {"RequestContext": "session:RequestContext"},
    "mcp.shared.exceptions": _ERRORS,
    "mcp.shared.message": _from("utilities", "ClientMessageMetadata ServerMessageMetadata"),
    "mcp.shared.session": {"RequestResponder": "refused:RequestResponder"},
    "mcp.shared.version": {"LATEST_PROTOCOL_VERSION": "types:LATEST_PROTOCOL_VERSION"},
    "mcp.client": _CLIENT,
    "mcp.client.session": _CLIENT,
    "mcp.client.sse": _CLIENT,
    "mcp.client.stdio": _CLIENT,
    "mcp.client.streamable_http": _CLIENT,
}
"""Old module → old name → where it is here; ``"*"`` for all names of ``mcp.types``."""

_PACKAGES: Final = frozenset(name.rpartition(".")[0] for name in MODULES)


class NotOffered(NotImplementedError):
    """Something of the old SDK that can be imported and not used."""


def where_to_report() -> str:
    """Return where a missing name is reported: the address that the installed distribution names."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        links = [text.split(", ", 1)[1] for text in metadata("ferrule-compat").get_all("Project-URL") or ()]
    except PackageNotFoundError:
        links = []
    return f"Please report this line and the name of the server{f' at {links[0]}' if links else ' to ferrule-compat'}"


def _missing(what: str) -> str:
    return f"ferrule-compat does not offer {what} of the official MCP SDK 1.x. {where_to_report()}."


class _Old(ModuleType):
    """A module under an old name; its names are looked up on first use."""

    def __getattr__(self, name: str) -> Any:
        module = self.__name__
        if name.startswith("__"):
            raise AttributeError(name)
        table = MODULES[module]
        where = table.get(name)
        if where is None and "*" in table:
            from ferrule_compat.wire_types import NAMES

            where = f"types:{name}" if name in NAMES else None
        if where is None:
            sentence = _missing(f"{name!r} of {module!r}")
            caller = sys._getframe(1)
            # `from … import` would replace the text of an AttributeError.
            if caller.f_lasti >= 0 and caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
                raise ImportError(sentence, name=module)
            raise AttributeError(sentence)
        found = _load(*where.split(":"))
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        from ferrule_compat.wire_types import NAMES

        table = MODULES[self.__name__]
        return sorted({*table, *(NAMES if "*" in table else ()), *self.__dict__} - {"*"})


def _load(home: str, name: str) -> Any:
    if home == "typing":
        return Any
    if home == "types":
        from ferrule_compat import wire_types

        return wire_types.ReadResourceContents if name == "ReadResourceContents" else wire_types.find(name)
    if home == "refused":
        return _refused(name)
    return getattr(import_module(f"ferrule_compat.{home}"), name)


def _refused(name: str) -> type:
    """Return a class that stands for a name which some servers import and few use."""

    def refuse(self: object, *_: object, **__: object) -> None:
        raise NotOffered(_missing(f"the use of {name}"))

    return type(name, (), {"__init__": refuse, "__doc__": f"{name} of the old SDK, which is not offered."})


class _Finder:
    """Finds the old modules; asked by Python before it looks for installed packages."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return how to make an old module; ``None`` for the modules of others.

        Raises:
            ModuleNotFoundError: it is one of ``mcp`` that is not offered.
        """
        if fullname.partition(".")[0] != "mcp":
            return None
        if fullname not in MODULES:
            # Without `name=`: Python would take it for a missing attribute of the package, and say less.
            raise ModuleNotFoundError(_missing(f"the module {fullname!r}"))
        return ModuleSpec(fullname, _Finder, origin="ferrule-compat", is_package=fullname in _PACKAGES)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """Return an empty module."""
        return _Old(spec.name, f"{spec.name} of the official MCP SDK 1.x, by ferrule-compat.")

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Set the names for ``import *``."""
        module.__all__ = [name for name in dir(module) if not name.startswith("_")]  # type: ignore[attr-defined]
        if module.__name__ == "mcp":
            import_module("mcp.types")  # `import mcp` made it reachable


def install() -> None:
    """Answer every import of ``mcp`` in this process from now on."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        del sys.modules[name]
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
