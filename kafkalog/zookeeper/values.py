"""Nodes of ZooKeeper, operations that change them, and states of a session, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

ANY_VERSION = -1
"""A version that fits every node."""
NO_OWNER = 0
"""The owner of a node that is not ephemeral."""


class SessionState(Enum):
    """A state that a session enters."""

    CONNECTED = "connected"
    """Requests are answered; after EXPIRED, in a new session. All watches are forgotten."""
    SUSPENDED = "suspended"
    """The connection is lost. The session may go on; nothing is known until CONNECTED or EXPIRED."""
    EXPIRED = "expired"
    """The session is gone with its ephemeral nodes."""


class Stat(NamedTuple):
    """The metadata that ZooKeeper keeps of a node."""

    version: int
    """The number of changes of its data."""
    created: int
    """The transaction that created it (czxid)."""
    modified: int
    """The transaction that changed its data last (mzxid)."""
    owner: int
    """The session that an ephemeral node belongs to, or NO_OWNER."""
    created_ms: int = 0
    """The time at which it was created, by ZooKeeper's clock (ctime)."""


class Node(NamedTuple):
    """A node's data; empty where it has none."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node. `is_sequential` appends a number of ten digits to its name."""

    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Change a node's data."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node without children."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Do nothing if the node exists and has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
