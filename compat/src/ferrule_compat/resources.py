"""The resources and templates of the old ``FastMCP``, with the manager that keeps them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ferrule_compat.components import Registered, name_of
from ferrule_compat.content import as_json
from ferrule_compat.functions import FuncMetadata
from ferrule_compat.models import Model, to_uri
from ferrule_compat.wire_types import find

__all__ = [
    "BinaryResource",
    "DirectoryResource",
    "FileResource",
    "FunctionResource",
    "HttpResource",
    "Resource",
    "ResourceManager",
    "ResourceTemplate",
    "TextResource",
]


class Resource(Model):
    """What a client can read at one URI; a subclass has ``async read() -> str | bytes``."""

    uri: Any
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"
    icons: Any = None
    annotations: Any = None
    meta: Any = None

    def __init__(self, /, **given: Any) -> None:
        super().__init__(**given)
        self.uri = to_uri(self.uri)
        self.name = self.name or str(self.uri)

    def definition(self) -> Any:
        """Return the resource's entry in the list."""
        return find("Resource")(
            uri=self.uri,
            name=self.name or "",
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
            icons=self.icons,
            annotations=self.annotations,
            _meta=self.meta,
        )

    async def read(self) -> str | bytes:
        """Return the contents."""
        raise NotImplementedError


class TextResource(Resource):
    """A given text."""

    text: str

    async def read(self) -> str:
        """Return the text."""
        return self.text


class BinaryResource(Resource):
    """Given bytes."""

    data: bytes

    async def read(self) -> bytes:
        """Return the bytes."""
        return self.data


class FunctionResource(Resource):
    """What a function returns: text, bytes, or data as JSON."""

    fn: Callable[[], Any]

    @classmethod
    def from_function(
        cls,
        fn: Callable[[], Any],
        uri: str,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        icons: Any = None,
        annotations: Any = None,
        meta: Any = None,
    ) -> FunctionResource:
        """Return a resource made of a function."""
        return cls(
            uri=uri,
            name=name_of(fn, name),
            title=title,
            description=description or fn.__doc__ or "",
            mime_type=mime_type or "text/plain",
            icons=icons,
            annotations=annotations,
            meta=meta,
            fn=fn,
        )

    async def read(self) -> str | bytes:
        """Return what the function returns."""
        try:
            found = self.fn()
            if inspect.isawaitable(found):
                found = await found
            if isinstance(found, Resource):
                return await found.read()
            return found if isinstance(found, str | bytes) else as_json(found)
        except Exception as error:
            raise ValueError(f"Error reading resource {self.uri}: {error}") from error


class FileResource(Resource):
    """A file."""

    path: Any
    is_binary: bool = False

    def __init__(self, /, **given: Any) -> None:
        super().__init__(**given)
        self.path = _absolute(self.path)
        self.is_binary = self.is_binary or not self.mime_type.startswith("text/")

    async def read(self) -> str | bytes:
        """Return the contents of the file."""
        import anyio.to_thread

        try:
            return await anyio.to_thread.run_sync(self.path.read_bytes if self.is_binary else self.path.read_text)
        except Exception as error:
            raise ValueError(f"Error reading file {self.path}: {error}") from error


class DirectoryResource(Resource):
    """The names of the files of a folder, as JSON."""

    path: Any
    recursive: bool = False
    pattern: str | None = None
    mime_type: str = "application/json"

    def __init__(self, /, **given: Any) -> None:
        super().__init__(**given)
        self.path = _absolute(self.path)

    async def read(self) -> str:
        """Return the names."""
        search = self.path.rglob if self.recursive else self.path.glob
        found = [str(each.relative_to(self.path)) for each in search(self.pattern or "*") if each.is_file()]
        return json.dumps({"files": found}, indent=2)


class HttpResource(Resource):
    """What is at a URL of the web."""

    url: str
    mime_type: str = "application/json"

    async def read(self) -> str:
        """Return the text of the response."""
        import httpx  # pyright: ignore[reportMissingImports] - of the server's environment

        async with httpx.AsyncClient() as client:
            response = await client.get(self.url)
            response.raise_for_status()
            return str(response.text)


def _absolute(path: Any) -> Path:
    made = Path(path)
    if not made.is_absolute():
        raise ValueError("Path must be absolute")
    return made


class ResourceTemplate:
    """Resources with ``{name}`` in their URI, which are the parameters of a function."""

    def __init__(self, fn: Callable[..., Any], uri_template: str, name: str, description: str, **options: Any) -> None:
        self.fn = fn
        self.uri_template = uri_template
        self.name = name
        self.description = description
        self.title = options.get("title")
        self.mime_type = options.get("mime_type") or "text/plain"
        self.icons = options.get("icons")
        self.annotations = options.get("annotations")
        self.meta = options.get("meta")
        self._metadata = FuncMetadata(fn, structured_output=False)
        self.context_kwarg = self._metadata.context_kwarg
        self.parameters = self._metadata.parameters
        in_uri = set(re.findall(r"{(\w+)}", uri_template))
        in_function = set(self.parameters["properties"])
        if in_uri != in_function:
            raise ValueError(f"Mismatch between URI parameters {in_uri} and function parameters {in_function}")
        parts = re.split(r"{(\w+)}", uri_template)
        # Names at the odd places, text between them.
        self._pattern = "".join(f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(parts))

    def definition(self) -> Any:
        """Return the template's entry in the list."""
        return find("ResourceTemplate")(
            uriTemplate=self.uri_template,
            name=self.name,
            title=self.title,
            description=self.description,
            mimeType=self.mime_type,
            icons=self.icons,
            annotations=self.annotations,
            _meta=self.meta,
        )

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the parameters in a URI; ``None`` if it is not of this template."""
        found = re.fullmatch(self._pattern, uri)
        return found.groupdict() if found else None

    async def create_resource(self, uri: str, params: dict[str, Any], context: Any = None) -> Resource:
        """Return the resource at a URI; raises `ValueError` if the function fails."""
        try:
            kwargs = self._metadata.bind(params)
            if self.context_kwarg is not None:
                kwargs[self.context_kwarg] = context
            found = self._metadata.spec.call_with(**kwargs)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            raise ValueError(f"Error creating resource from template: {error}") from error
        return FunctionResource(
            uri=uri,
            name=self.name,
            description=self.description,
            mime_type=self.mime_type,
            meta=self.meta,
            fn=lambda: found,
        )


class ResourceManager:
    """The resources and templates of a server by URI."""

    def __init__(self, warn_on_duplicate_resources: bool = True) -> None:
        self._registered: Registered[Resource] = Registered("Resource", warn_on_duplicate_resources)
        self._resources = self._registered.members
        self._templates: dict[str, ResourceTemplate] = {}

    def add_resource(self, resource: Resource) -> Resource:
        """Return the resource that is registered at the URI now."""
        return self._registered.add(str(resource.uri), resource)

    def add_template(
        self,
        fn: Callable[..., Any],
        uri_template: str,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        **options: Any,
    ) -> ResourceTemplate:
        """Return the template made of a function; raises `ValueError` if its parameters are not those of the URI."""
        described = description or fn.__doc__ or ""
        made = ResourceTemplate(
            fn, uri_template, name_of(fn, name), described, title=title, mime_type=mime_type, **options
        )
        self._templates[uri_template] = made
        return made

    async def get_resource(self, uri: Any, context: Any = None) -> Resource:
        """Return the resource at a URI; raises `ValueError` if there is none."""
        text = str(uri)
        if text in self._resources:
            return self._resources[text]
        for template in self._templates.values():
            params = template.matches(text)
            if params:
                return await template.create_resource(text, params, context=context)
        raise ValueError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Resource]:
        """Return all resources."""
        return list(self._resources.values())

    def list_templates(self) -> list[ResourceTemplate]:
        """Return all templates."""
        return list(self._templates.values())
