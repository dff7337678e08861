"""Test what `kafkalog reassign verify` says of replicas that move between log directories."""

from __future__ import annotations

import pytest

from kafkalog.cli.admin.reassign.directories import DirectoryMove, directory_moves
from kafkalog.client.admin.replicas import LogDirInfo, ReplicaInfo, ReplicaOnBroker
from kafkalog.client.types import TopicPartition

WORDS = TopicPartition("words", 3)
HERE, FUTURE = ReplicaInfo(10, 0, False), ReplicaInfo(4, 6, True)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (
            {"/a": HERE, "/b": FUTURE},
            DirectoryMove("Reassignment of replica words-3-1 is still in progress.", is_active=True),
        ),
        (
            {"/a": HERE, "/c": FUTURE},
            DirectoryMove("Partition words-3 on broker 1 is being moved to log dir /c instead of /b.", is_active=True),
        ),
        ({"/b": HERE}, DirectoryMove("Reassignment of replica words-3-1 completed successfully.", is_done=True)),
        ({"/a": HERE}, DirectoryMove("Partition words-3 on broker 1 is not being moved from log dir /a to /b.")),
        ({}, DirectoryMove("Partition words-3 cannot be found in any live log directory on broker 1.")),
    ],
)
def test_the_state_of_a_replica(found: dict[str, ReplicaInfo], state: DirectoryMove) -> None:
    directories = {path: LogDirInfo(None, {WORDS: replica}, -1, -1) for path, replica in found.items()}
    assert directory_moves({ReplicaOnBroker(WORDS, 1): "/b"}, {1: directories}) == [state]


def test_replicas_are_ordered_by_broker() -> None:
    wanted = {
        ReplicaOnBroker(TopicPartition(topic, 0), broker): "/a" for topic, broker in (("b", 2), ("a", 2), ("c", 1))
    }
    told = [each.told for each in directory_moves(wanted, {})]
    assert [line.split()[1] for line in told] == ["c-0", "a-0", "b-0"]
