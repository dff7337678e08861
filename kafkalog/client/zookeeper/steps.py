"""Steps: reads and writes of ZooKeeper's nodes, one after another.

A step is a generator. It yields a read or a write, and gets back what that brought, or the error that it raised. So
steps have an order, and do no input or output: a `session` carries them out, and a test may do it on simulated time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafkalog.client.errors import ClientError
from kafkalog.zookeeper.security import JAAS_KEY
from kafkalog.zookeeper.values import ANY_VERSION, Check, Create, Delete, Operation, SetData

T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""A generator of effects that returns a T."""


class ZooKeeperError(ClientError):
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
    """There is no connection, or it was lost before the answer.

    The request may have been carried out, or will be, unless the text says that it was not sent.
    """


class SessionExpiredError(ZooKeeperError):
    """The session has expired, and with it its ephemeral nodes are gone."""


class AccessDeniedError(ZooKeeperError):
    """The node's access list refuses this client."""


def denial(path: str) -> str:
    """Return what to tell of a node whose access list refuses this client."""
    return f"{path}: ZooKeeper denies access. Its access list names others: log in as one of them ({JAAS_KEY})"


class WriteError(ZooKeeperError):
    """A write was not carried out, because one of its operations failed.

    Attributes:
        index: The position of that operation.
        reason: Its error.
    """

    def __init__(self, index: int, path: str, reason: ZooKeeperError) -> None:
        is_denied = isinstance(reason, AccessDeniedError)
        super().__init__(denial(path) if is_denied else f"{path}: {type(reason).__name__.removesuffix('Error')}")
        self.index = index
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Read:
    """Read a node; brings a `Node`, or None where there is none.

    Where `watch` is not None, the user of the session gets that value at the next change, creation or deletion of the
    node.
    """

    path: str
    watch: Any = None


@dataclass(frozen=True, slots=True)
class Children:
    """List the names of a node's children; brings None where there is no such node. `watch` is as in `Read`.

    A watch on a node that does not exist tells of its creation.
    """

    path: str
    watch: Any = None


@dataclass(frozen=True, slots=True)
class Write:
    """Carry out all operations as one, or none of them; raises WriteError where one fails."""

    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class CurrentSession:
    """Brings the id of the present session."""


def ensure(path: str) -> Steps[None]:
    """Create a persistent node without data, and its parents, where they do not exist."""
    try:
        yield Write([Create(path)])
    except WriteError as error:
        if isinstance(error.reason, NodeExistsError):
            return
        if not isinstance(error.reason, NoNodeError) or path.count("/") < 2:
            raise
        yield from ensure(path.rpartition("/")[0])
        yield from ensure(path)


def put(path: str, data: bytes, *, only_while: str | None = None) -> Steps[None]:
    """Set the data of a persistent node, and create it with its parents where it does not exist.

    Args:
        path: The node.
        data: Its new data.
        only_while: A node without which nothing is written. It makes a write depend on the session that owns it.

    Raises:
        SessionExpiredError: The node `only_while` does not exist.
    """
    guard = [] if only_while is None else [Check(only_while, ANY_VERSION)]
    while True:
        for write in (SetData(path, data), Create(path, data)):
            try:
                yield Write([*guard, write])
            except WriteError as error:
                if error.index < len(guard):
                    raise SessionExpiredError(f"{only_while} does not exist: the session has expired") from error
                if not isinstance(error.reason, NoNodeError | NodeExistsError):
                    raise
            else:
                return
        # Neither the node nor its parent exists, or it was created and deleted meanwhile.
        yield from ensure(path.rpartition("/")[0])


def delete_tree(path: str) -> Steps[None]:
    """Delete a node with everything below it; do nothing where it does not exist."""
    while True:
        for name in (yield Children(path)) or ():
            yield from delete_tree(f"{path}/{name}")
        try:
            yield Write([Delete(path)])
        except WriteError as error:
            if isinstance(error.reason, NotEmptyError):
                continue
            if not isinstance(error.reason, NoNodeError):
                raise
        return
