"""Test which moves `kafkalog reassign execute --throttle` throttles, where some are under way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kafkalog.cli.admin.partition_files import ANY_DIRECTORY, Placed
from kafkalog.cli.admin.reassign.actions import _moves
from kafkalog.cli.admin.reassign.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS, Moves, throttled
from kafkalog.client.admin import Admin
from kafkalog.client.admin.replicas.replica_admin import Reassignment
from kafkalog.client.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def moves(
    going: dict[TopicPartition, Reassignment],
    wanted: dict[TopicPartition, tuple[int, ...]],
    before: dict[TopicPartition, tuple[int, ...]],
) -> Moves:
    replicas = SimpleNamespace(list_partition_reassignments=lambda: going)
    placed = {tp: Placed(each, (ANY_DIRECTORY,) * len(each)) for tp, each in wanted.items()}
    return _moves(cast(Admin, SimpleNamespace(replicas=replicas)), placed, before)


def test_replicas_that_are_being_added_are_new_ones_when_the_move_is_asked_for_again() -> None:
    """Metadata lists the replicas that are being added with those that are there."""
    going = {T0: Reassignment((1, 2, 3), (3,), (2,))}
    assert throttled(moves(going, {T0: (1, 3)}, {T0: (1, 2, 3)})) == {
        "t": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"}
    }


def test_a_move_to_other_brokers_is_throttled_from_where_the_replicas_are() -> None:
    going = {T0: Reassignment((1, 2, 3), (3,), (2,))}
    assert throttled(moves(going, {T0: (1, 4)}, {T0: (1, 2, 3)})) == {
        "t": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:4"}
    }


def test_moves_of_other_partitions_keep_their_throttles() -> None:
    going = {U0: Reassignment((5, 6), (6,), (5,))}
    assert throttled(moves(going, {T1: (2, 3)}, {T1: (1, 2)})) == {
        "t": {LEADER_REPLICAS: "1:1,1:2", FOLLOWER_REPLICAS: "1:3"},
        "u": {LEADER_REPLICAS: "0:5", FOLLOWER_REPLICAS: "0:6"},
    }
