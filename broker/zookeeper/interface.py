"""The interface of a session with ZooKeeper, its values and its errors.

All methods are called on the event loop, and all callbacks are called there. Paths are absolute, below the chroot of
`zookeeper.connect`.

A watch is set by a read, and tells of the first change after that read, once. When the connection is lost, all watches
are forgotten, and requests that wait for an answer end with `ConnectionLossError`: ZooKeeper may have carried them out
or not. So after every `CONNECTED`, who watches reads again, and who writes looks at what is there. Writes that matter
name the version that they are based on.

A session that ZooKeeper has not heard of for its time-out has expired: its ephemeral nodes are gone. A new session is
opened by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
"""A version that fits every node."""
NO_OWNER = 0
"""The owner of a node that is not ephemeral."""


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


class SessionState(Enum):
    """What happens to a session."""

    CONNECTED = "connected"
    """Requests are answered; after EXPIRED, in a new session."""
    SUSPENDED = "suspended"
    """The connection is lost. The session may go on; nothing is known until CONNECTED or EXPIRED."""
    EXPIRED = "expired"
    """The session is gone with its ephemeral nodes."""


class Change(Enum):
    """What a watch tells of."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """A change, and the node that it concerns."""

    change: Change
    path: str


class Stat(NamedTuple):
    """What ZooKeeper knows of a node."""

    version: int
    """The number of changes of its data."""
    created: int
    """The transaction that created it (czxid)."""
    modified: int
    """The transaction that changed its data last (mzxid)."""
    owner: int
    """The session that an ephemeral node belongs to, or NO_OWNER."""
    created_ms: int = 0
    """When it was created, by ZooKeeper's clock (ctime)."""


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
    """Do nothing if the node has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Result = str | Stat | None
"""The path of a created node, the stat of a changed one, else None."""
Watch = Callable[[WatchEvent], None]
Listener = Callable[[SessionState], None]


class ZooKeeper(Protocol):
    """A session; see the module. Every method can raise ConnectionLossError and SessionExpiredError."""

    @property
    def session_id(self) -> int:
        """The present session, or 0 before the first one."""

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
