"""The effects that decisions of the controller ask for.

A decision is a generator. It yields effects, one after another, and gets back what each of them brought. So a decision
has the order of its steps, and does no input or output: a test answers from a dictionary, `cluster.controller` from
ZooKeeper. The changes of the context between two effects are made at once.

Every `Write` is carried out only while this controller is the one whose epoch is in `/controller_epoch`. If it is not,
or if the session with ZooKeeper ends, the decision is abandoned: the generator is closed where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.requests import ControlRequest
from broker.metadata.model import BrokerRegistration
from broker.zookeeper.interface import Node, Operation, Result, ZooKeeperError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """Read nodes; brings for each a `Node`, or None where there is none.

    With `watch`, the next change of each node becomes an event, until `Unwatch`.
    """

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """List the children of nodes; brings for each the names, or none where there is no such node.

    With `watch`, the next change of each list becomes an event.
    """

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Carry out groups of operations; brings for each group its results, or the error for which it was not done.

    The operations of a group are done as one, or not at all. The groups are independent of each other.
    """

    groups: Sequence[Sequence[Operation]]


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Forget the watches of nodes."""

    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class Connect:
    """Begin to send requests to brokers; to one that is connected, anew."""

    brokers: Sequence[BrokerRegistration]


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Give up what was to be sent to brokers."""

    broker_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Send:
    """Queue requests to brokers; those to one broker keep their order."""

    requests: Sequence[ControlRequest]


class LogEnd(NamedTuple):
    """The end of a replica's log. The replica with the greater end has more of what leaders have written."""

    epoch: int
    """The leader epoch of the last record; -1 if that is not known."""
    offset: int
    """The log end offset."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask brokers where their logs of partitions end; brings the ends by broker and partition.

    Those are left out that do not answer in time, or have no such log.
    """

    wanted: Mapping[int, Sequence[PartitionKey]]
    timeout_s: float


Effect = Read | Children | Write | Unwatch | Connect | Disconnect | Send | Ask
Outcome = Sequence[Result] | ZooKeeperError
"""The results of a group of operations, or the error for which none of them was carried out."""
Steps = Generator[Effect, Any, T]
"""A decision that is under way."""
Decide = Callable[[ControllerContext], Steps[Any]]
"""Begins a decision."""


def read(paths: Iterable[str], *, watch: bool = False) -> Steps[list[Node | None]]:
    """Read nodes; see `Read`."""
    wanted = list(paths)
    if not wanted:
        return []
    found: list[Node | None] = yield Read(wanted, watch)
    return found


def children(paths: Iterable[str], *, watch: bool = False) -> Steps[list[list[str]]]:
    """List the children of nodes; see `Children`."""
    wanted = list(paths)
    if not wanted:
        return []
    found: list[list[str]] = yield Children(wanted, watch)
    return found


def write(groups: Iterable[Sequence[Operation]]) -> Steps[list[Outcome]]:
    """Carry out groups of operations; see `Write`."""
    wanted = list(groups)
    if not wanted:
        return []
    found: list[Outcome] = yield Write(wanted)
    return found


def send(requests: Sequence[ControlRequest]) -> Steps[None]:
    """Queue requests to brokers; see `Send`."""
    if requests:
        yield Send(requests)
