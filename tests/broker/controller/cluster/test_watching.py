"""Watches become events."""

from __future__ import annotations

import pytest

from broker.controller.cluster.watching import Event, Kind, Subject, Watches, event_of
from broker.metadata.znodes import paths
from broker.zookeeper.interface import Change, WatchEvent


@pytest.mark.parametrize(
    ("kind", "path", "event", "subject"),
    [
        (Kind.CHILDREN, paths.BROKER_IDS, Event.BROKERS, None),
        (Kind.CHILDREN, paths.TOPICS, Event.TOPICS, None),
        (Kind.CHILDREN, paths.DELETE_TOPICS, Event.DELETIONS, None),
        (Kind.CHILDREN, paths.ISR_CHANGES, Event.ISR_NOTICES, None),
        (Kind.CHILDREN, paths.LOG_DIR_EVENTS, Event.LOG_DIRS, None),
        (Kind.DATA, paths.REASSIGN_PARTITIONS, Event.REASSIGNMENT_ORDER, None),
        (Kind.DATA, paths.PREFERRED_ELECTION, Event.ELECTION_ORDER, None),
        (Kind.DATA, paths.broker_id(7), Event.REGISTRATION, 7),
        (Kind.DATA, paths.topic("a.b-c_d"), Event.PARTITIONS, "a.b-c_d"),
        (Kind.DATA, paths.partition_state("words", 12), Event.STATE, ("words", 12)),
    ],
)
def test_what_a_watch_means(kind: Kind, path: str, event: Event, subject: Subject) -> None:
    assert event_of(kind, path) == (event, subject)


def test_other_nodes_are_not_watched() -> None:
    with pytest.raises(ValueError, match="/consumers"):
        event_of(Kind.DATA, "/consumers")


def test_a_watch_is_set_once_until_it_has_told() -> None:
    told: list[tuple[Event, Subject]] = []
    watches = Watches(lambda event, subject: told.append((event, subject)))
    path = paths.topic("words")
    watch = watches.watch(Kind.DATA, path)
    assert watch is not None
    assert watches.watch(Kind.DATA, path) is None
    watch(WatchEvent(Change.DATA, path))
    assert told == [(Event.PARTITIONS, "words")]
    again = watches.watch(Kind.DATA, path)
    assert again is not None
    watches.forget(path)
    again(WatchEvent(Change.DELETED, path))
    assert len(told) == 1


def test_everything_counts_as_changed_when_the_client_has_forgotten_its_watches() -> None:
    told: list[tuple[Event, Subject]] = []
    watches = Watches(lambda event, subject: told.append((event, subject)))
    watches.watch(Kind.CHILDREN, paths.TOPICS)
    watches.watch(Kind.DATA, paths.topic("words"))
    watches.watch(Kind.DATA, paths.topic("gone"))
    watches.forget(paths.topic("gone"))
    watches.lost()
    watches.all_changed()
    assert sorted(told, key=repr) == [(Event.PARTITIONS, "words"), (Event.TOPICS, None)]
    assert watches.watch(Kind.DATA, paths.topic("words")) is not None
