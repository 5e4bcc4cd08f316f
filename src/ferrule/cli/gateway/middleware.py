"""The middleware that the configuration of a gateway names: policies, quotas and audits in a file of Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ferrule.client.config_file import ConfigError
from ferrule.wire.json_types import is_list

__all__ = ["load_middleware"]


def load_middleware(names: Sequence[str], folder: Path, where: str) -> list[Any]:
    """Return the middleware that a configuration names, outermost first.

    Args:
        names: ``"rules.py:name"``, with a path from ``folder``, or ``"package.module:name"``. What has the name is a
            middleware or a list of them.
        folder: the folder of the configuration.
        where: what to call the place in errors.

    Raises:
        ConfigError: there is no such file, module or name, or what it names is no middleware.
    """
    made: list[Any] = []
    for name in names:
        place, _, attribute = name.rpartition(":")
        if not place:
            raise ConfigError(f"{where}: {name!r} is not FILE.py:NAME or MODULE:NAME")
        try:
            module: Any = _load(folder / place) if place.endswith(".py") else import_module(place)
        except Exception as error:
            raise ConfigError(f"{where}: {place!r} cannot be loaded: {type(error).__name__}: {error}") from error
        found: Any = getattr(module, attribute, None)
        each = found if is_list(found) else [found]
        if not all(callable(one) for one in each):
            raise ConfigError(f"{where}: {place!r} has no middleware {attribute!r}")
        made += each
    return made


def _load(path: Path) -> Any:
    name = f"ferrule_gateway_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = sys.modules[name] = module_from_spec(spec)  # classes of the file find their module by its name
    spec.loader.exec_module(module)
    return module
