"""Turns watches into names of events.

A watch tells of one change. It is set again by the read that the event makes. When the connection is lost, ZooKeeper's
client forgets all watches: then every node that is watched counts as changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto

from broker.metadata.znodes import paths
from broker.zookeeper.interface import Watch, WatchEvent


class Kind(Enum):
    """The part of a node that a watch is for."""

    DATA = auto()
    CHILDREN = auto()


class Event(Enum):
    """The event that a watch leads to."""

    BROKERS = auto()
    REGISTRATION = auto()
    TOPICS = auto()
    PARTITIONS = auto()
    DELETIONS = auto()
    STATE = auto()
    ISR_NOTICES = auto()
    LOG_DIRS = auto()
    REASSIGNMENT_ORDER = auto()
    ELECTION_ORDER = auto()


_FIXED = {
    (Kind.CHILDREN, paths.BROKER_IDS): Event.BROKERS,
    (Kind.CHILDREN, paths.TOPICS): Event.TOPICS,
    (Kind.CHILDREN, paths.DELETE_TOPICS): Event.DELETIONS,
    (Kind.CHILDREN, paths.ISR_CHANGES): Event.ISR_NOTICES,
    (Kind.CHILDREN, paths.LOG_DIR_EVENTS): Event.LOG_DIRS,
    (Kind.DATA, paths.REASSIGN_PARTITIONS): Event.REASSIGNMENT_ORDER,
    (Kind.DATA, paths.PREFERRED_ELECTION): Event.ELECTION_ORDER,
}
_BROKER = re.compile(rf"{paths.BROKER_IDS}/(\d+)")
_TOPIC = re.compile(rf"{paths.TOPICS}/([^/]+)")
_STATE = re.compile(rf"{paths.TOPICS}/([^/]+)/partitions/(\d+)/state")

Subject = int | str | tuple[str, int] | None
"""The broker, topic or partition that changed, if the event concerns one."""


def event_of(kind: Kind, path: str) -> tuple[Event, Subject]:
    """Return what a change of a watched node means.

    Raises:
        ValueError: Such nodes are not watched.
    """
    if fixed := _FIXED.get((kind, path)):
        return fixed, None
    if match := _BROKER.fullmatch(path):
        return Event.REGISTRATION, int(match[1])
    if match := _STATE.fullmatch(path):
        return Event.STATE, (match[1], int(match[2]))
    if match := _TOPIC.fullmatch(path):
        return Event.PARTITIONS, match[1]
    raise ValueError(f"{path} is not watched")


class Watches:
    """The nodes that a controller watches.

    Args:
        changed: Called with each event.
    """

    def __init__(self, changed: Callable[[Event, Subject], None]) -> None:
        self._changed = changed
        self._wanted: set[tuple[Kind, str]] = set()
        self._armed: set[tuple[Kind, str]] = set()

    def watch(self, kind: Kind, path: str) -> Watch | None:
        """Return the watch to set with a read, or None if one is set."""
        key = kind, path
        self._wanted.add(key)
        if key in self._armed:
            return None
        self._armed.add(key)

        def fired(event: WatchEvent) -> None:
            self._armed.discard(key)
            if key in self._wanted:
                self._changed(*event_of(kind, path))

        return fired

    def forget(self, path: str) -> None:
        """Watch a node's data no longer."""
        self._wanted.discard((Kind.DATA, path))

    def lost(self) -> None:
        """Take note that the client has forgotten all watches."""
        self._armed.clear()

    def all_changed(self) -> None:
        """Report everything that is watched as changed."""
        for kind, path in sorted(self._wanted, key=lambda key: (key[0].value, key[1])):
            self._changed(*event_of(kind, path))
