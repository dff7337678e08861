"""`/config/<type>/<name>`: the configuration of a topic, broker, user, client or address (Kafka: `ConfigEntityZNode`).

Names of users, clients and addresses may hold any character. In paths they are sanitized, as Kafka's `Sanitizer` does:
in form encoding, with `%20` for a space and `%2A` for an asterisk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from broker.metadata.znodes.json_node import read, text, write

VERSION = 1
DEFAULT_NAME = "<default>"
"""The name of the defaults of all brokers, users, clients or addresses."""


def sanitized(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(part: str) -> str:
    """Return the name that a part of a path stands for."""
    return unquote(part)


def encode(config: Mapping[str, str]) -> bytes:
    """Return the data of a configuration."""
    return write({"version": VERSION, "config": dict(config)})


def decode(path: str, data: bytes) -> dict[str, str]:
    """Return the configuration of a node; empty if it has no data.

    Raises:
        ZnodeError: The data cannot be read.
    """
    if not data:
        return {}

    def take(found: dict[str, Any]) -> dict[str, str]:
        return {key: text(value) for key, value in found.get("config", {}).items()}

    return read(path, data, take)
