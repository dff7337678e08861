"""The state of replicas that a file puts into certain log directories, in the words of Kafka's tool. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkalog.client.admin.replicas.replica_admin import LogDirInfo, ReplicaOnBroker

LogDirs = Mapping[int, Mapping[str, "LogDirInfo"]]
"""The log directories of brokers, by their paths."""


class DirectoryMove(NamedTuple):
    """The state of a replica whose log directory the file names."""

    told: str
    """A line about it."""
    is_active: bool = False
    """True if it moves between directories now."""
    is_done: bool = False
    """True if it is in the directory that the file names."""


class Moving(NamedTuple):
    """A replica that moves between two log directories of its broker."""

    current: str
    """The directory that it is in."""
    future: str
    """The directory that it moves to."""


def moving(wanted: Iterable[ReplicaOnBroker], found: LogDirs) -> dict[ReplicaOnBroker, Moving]:
    """Return those of the replicas that move now, by broker and partition."""
    ordered = sorted(wanted, key=lambda replica: (replica.broker, replica.partition))
    places = {replica: _places(replica, found.get(replica.broker, {})) for replica in ordered}
    return {
        replica: Moving(current, future)
        for replica, (current, future) in places.items()
        if current is not None and future is not None
    }


def directory_moves(wanted: Mapping[ReplicaOnBroker, str], found: LogDirs) -> list[DirectoryMove]:
    """Return the state of each replica, by broker and partition.

    Args:
        wanted: The directories that the file names.
        found: What the brokers have.
    """
    ordered = sorted(wanted.items(), key=lambda item: (item[0].broker, item[0].partition))
    return [_state(replica, path, found.get(replica.broker, {})) for replica, path in ordered]


def _state(replica: ReplicaOnBroker, wanted: str, found: Mapping[str, LogDirInfo]) -> DirectoryMove:
    tp, broker = replica
    current, future = _places(replica, found)
    named = f"{tp}-{broker}"
    if current is None:
        return DirectoryMove(f"Partition {tp} cannot be found in any live log directory on broker {broker}.")
    if future == wanted:
        return DirectoryMove(f"Reassignment of replica {named} is still in progress.", is_active=True)
    if future is not None:
        text = f"Partition {tp} on broker {broker} is being moved to log dir {future} instead of {wanted}."
        return DirectoryMove(text, is_active=True)
    if current == wanted:
        return DirectoryMove(f"Reassignment of replica {named} completed successfully.", is_done=True)
    return DirectoryMove(f"Partition {tp} on broker {broker} is not being moved from log dir {current} to {wanted}.")


def _places(replica: ReplicaOnBroker, found: Mapping[str, LogDirInfo]) -> tuple[str | None, str | None]:
    """Return the directory that the replica is in, and the one that it moves to."""
    current, future = None, None
    for path, info in found.items():
        if (there := info.replicas.get(replica.partition)) is not None:
            current, future = (current, path) if there.is_future else (path, future)
    return current, future
