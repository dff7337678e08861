"""Classes that a configuration names: by a dotted path, ``package.module.Class`` or ``package.module:Class``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kafkalog.client.errors import ConfigError


def load(path: str) -> Any:
    """What a dotted path names. ConfigError where there is nothing."""
    module, _, name = path.rpartition(":" if ":" in path else ".")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path} cannot be loaded: {error}") from None
    return found


def instances(given: Any) -> list[Any]:
    """Objects of a property that lists some: objects and classes, or dotted paths with commas between."""
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    elif not isinstance(given, list | tuple):
        given = [given]
    found = [load(each) if isinstance(each, str) else each for each in given]
    return [each() if isinstance(each, type) else each for each in found]
