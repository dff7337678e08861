"""The replica that a consumer should read from, as Kafka's `RackAwareReplicaSelector` chooses it."""

from __future__ import annotations

import pytest

from broker.metadata.model import PartitionState
from broker.replica.isr.rules import FollowerState
from broker.replica.nearby import nearby_replica
from broker.replica.roles import Leader

RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "b", 4: "c"}


def leading(**ends: int) -> Leader:
    followers = {
        int(replica[1:]): FollowerState(log_start_offset=2, log_end_offset=end) for replica, end in ends.items()
    }
    return Leader(1, PartitionState((1, 2, 3, 4), (1, 2, 3), 1), 0, 0, followers)


@pytest.mark.parametrize(
    ("rack", "offset", "wanted"),
    [
        ("", 5, None),
        ("a", 5, None),
        ("b", 5, 3),
        ("b", 8, 3),
        ("b", 9, None),
        ("b", 1, None),
        ("c", 5, None),
        ("elsewhere", 5, None),
    ],
)
def test_the_replica_in_the_rack_that_has_most_is_chosen(rack: str, offset: int, wanted: int | None) -> None:
    assert nearby_replica(leading(b2=6, b3=8, b4=9), RACKS, rack, offset) == wanted


def test_a_broker_that_the_consumer_cannot_reach_is_not_chosen() -> None:
    assert nearby_replica(leading(b2=6, b3=8), {1: "a", 2: "b"}, "b", 5) == 2
    assert nearby_replica(leading(b2=6, b3=8), {1: None}, "b", 5) is None
