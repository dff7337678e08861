"""Output of `kafkalog reassign verify` for a reassignment that waits."""

from __future__ import annotations

from kafkalog.cli.admin.reassign.waits import waits
from kafkalog.client.admin.replicas.explanations import ExplainedPartition, FollowerPosition, PartitionChange
from kafkalog.client.admin.replicas.replica_admin import Reassignment
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.describe_topic_partitions import WAITS_SINCE

MOVING = Reassignment(replicas=(3, 4, 5, 6, 1, 2), adding=(3, 4, 5, 6), removing=(2,))
FOUND = ExplainedPartition(
    partition=TopicPartition("words", 0),
    leader=1,
    leader_epoch=7,
    replicas=MOVING.replicas,
    isr=(1, 6),
    log_end_offset=100,
    followers=[
        FollowerPosition(2, 100, 0, 0, 5),
        FollowerPosition(3, 40, 60, -1, 120),
        FollowerPosition(4, 70, 30, 90_000, 80_000),
        FollowerPosition(5, -1, -1, -1, -1),
        FollowerPosition(6, 100, 0, 0, 120),
    ],
    silence=None,
    controller=3,
    controller_epoch=5,
    controller_since_ms=0,
    known_since_ms=0,
    changes=[],
)


def test_each_replica_that_is_not_in_sync_is_told_of() -> None:
    assert list(waits(MOVING, FOUND, {1, 2, 3, 4, 5, 6})) == [
        "broker 3 lacks 60 records",
        "broker 4 has not fetched for 1 min 20 s, and lacks 30 records",
        "broker 5 has not fetched from the leader, broker 1, in this leader epoch",
    ]
    assert "broker 4 is not alive" in list(waits(MOVING, FOUND, {1, 2, 3}))


def test_without_a_leader_nothing_is_known_of_the_others() -> None:
    found = FOUND._replace(leader=-1, isr=(2,), followers=[], silence="there is no leader")
    lines = list(waits(MOVING, found, {3}))
    assert lines[0] == "nobody leads the partition"
    assert lines[1] == "broker 3 is not in sync; how far it is, is not known: there is no leader"
    assert lines[-1] == "broker 1 is not alive"


def test_what_the_controller_says_comes_last_as_long_as_it_is_true() -> None:
    stalled = PartitionChange(1, 5, f"{WAITS_SINCE} 1970-01-01", "broker 4 is not registered")
    later = PartitionChange(2, 5, "isr [1] -> [1, 6]", "broker 1, the leader, asked for it")
    everybody = {1, 2, 3, 4, 5, 6}
    assert list(waits(MOVING, FOUND._replace(changes=[later, stalled]), everybody))[-1] == (
        "reassignment waits since 1970-01-01, because broker 4 is not registered"
    )
    assert not any("waits" in line for line in waits(MOVING, FOUND._replace(changes=[stalled, later]), everybody))
