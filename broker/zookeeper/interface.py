"""The interface of a session with ZooKeeper, its values (`kafkalog.zookeeper.values`) and its errors.

All methods are called on the event loop, and all callbacks are called there. Paths are absolute, below the chroot of
`zookeeper.connect`.

A watch is set by a read, and tells of the first change after that read, once. When the connection is lost, all watches
are forgotten, and requests that wait for an answer end with `ConnectionLossError`: ZooKeeper may have carried them out
or not. So after every `CONNECTED`, code that watches has to read again, and code that writes has to read what the nodes
hold. Writes that matter name the version that they are based on.

A session that ZooKeeper has not heard of for its time-out has expired: its ephemeral nodes are gone. A new session is
opened by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from kafkalog.zookeeper.values import (
    ANY_VERSION,
    NO_OWNER,
    Check,
    Create,
    Delete,
    Node,
    Operation,
    SessionState,
    SetData,
    Stat,
)

__all__ = [
    "ANY_VERSION", "NO_OWNER", "AccessDeniedError", "BadVersionError", "Change", "Check", "ConnectionLossError",
    "Create", "Delete", "Listener", "MultiError", "NoNodeError", "Node", "NodeExistsError", "NotEmptyError",
    "Operation", "Result", "SessionExpiredError", "SessionState", "SetData", "Stat", "Watch", "WatchEvent",
    "ZooKeeper", "ZooKeeperError", "ensure",
]  # fmt: skip


class ZooKeeperError(Exception):
    """A request to ZooKeeper has failed."""


class NodeExistsError(ZooKeeperError):
    """The node to create exists."""


class NoNodeError(ZooKeeperError):
    """The node, or the parent of the node to create, does not exist."""


class NotEmptyError(ZooKeeperError):
    """The node to delete has children."""


class BadVersionError(ZooKeeperError):
    """The node has another version than the request names."""


class ConnectionLossError(ZooKeeperError):
    """There is no connection, or it was lost before the answer: the request may have been carried out or not."""


class SessionExpiredError(ZooKeeperError):
    """The session had expired before the request was carried out."""


class AccessDeniedError(ZooKeeperError):
    """The node's access list refuses this client, or the client could not authenticate."""


class MultiError(ZooKeeperError):
    """A request of several operations was not carried out, because one of them failed.

    Attributes:
        index: the position of the operation that failed.
        reason: its error.
    """

    def __init__(self, index: int, reason: ZooKeeperError) -> None:
        super().__init__(f"operation {index}: {reason!r}")
        self.index = index
        self.reason = reason


class Change(Enum):
    """The kind of change that a watch reports."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """A change, and the node that it concerns."""

    change: Change
    path: str


Result = str | Stat | None
"""The path of a created node, the stat of a changed one, else None."""
Watch = Callable[[WatchEvent], None]
Listener = Callable[[SessionState], None]


class ZooKeeper(Protocol):
    """A session; see the module. Every method can raise ConnectionLossError and SessionExpiredError."""

    @property
    def session_id(self) -> int:
        """The present session, or 0 before the first one."""

    @property
    def session_timeout(self) -> float:
        """The time-out of the session in seconds: what ZooKeeper grants, or what was asked for if that is less.

        It may be another one after each CONNECTED.
        """

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each change of the session's state."""

    async def get(self, path: str, watch: Watch | None = None) -> Node | None:
        """Return a node, or None if it does not exist.

        Args:
            watch: called when its data changes, or when it is created or deleted.
        """

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of a node's children.

        Args:
            watch: called when a child is created or deleted, or the node itself is deleted.

        Raises:
            NoNodeError: it does not exist.
        """

    async def create(
        self, path: str, data: bytes = b"", *, is_ephemeral: bool = False, is_sequential: bool = False
    ) -> str:
        """Create a node; return its path.

        Raises:
            NodeExistsError: it exists.
            NoNodeError: its parent does not exist.
        """

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Change a node's data.

        Raises:
            NoNodeError: it does not exist.
            BadVersionError: it has another version.
        """

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node.

        Raises:
            NoNodeError: it does not exist.
            BadVersionError: it has another version.
            NotEmptyError: it has children.
        """

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations as one, or none of them.

        Raises:
            MultiError: one of them failed.
        """

    async def close(self) -> None:
        """End the session: its ephemeral nodes are deleted at once."""


async def ensure(zookeeper: ZooKeeper, path: str) -> None:
    """Create a persistent node without data, and its parents, where they do not exist."""
    try:
        await zookeeper.create(path)
    except NodeExistsError:
        return
    except NoNodeError:
        await ensure(zookeeper, path.rpartition("/")[0])
        await ensure(zookeeper, path)
