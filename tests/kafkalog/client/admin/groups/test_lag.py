"""Test that lag lists every partition of a group once, and does not count unknown lags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.admin.groups.descriptions import CLASSIC_TYPE, CommittedOffset, GroupDescription, GroupMember
from kafkalog.client.admin.groups.lag import PartitionLag, lags
from kafkalog.client.metadata import Broker
from kafkalog.client.types import TopicPartition

PARTITIONS = [TopicPartition(topic, number) for topic in "ab" for number in range(4)]


def member(name: str, partitions: list[TopicPartition]) -> GroupMember:
    return GroupMember(name, None, "client", "/host", tuple(sorted(partitions)))


@given(
    st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from("xyz")),
    st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 9).map(CommittedOffset)),
    st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 9)),
)
def test_every_partition_once(
    owners: dict[TopicPartition, str],
    committed: dict[TopicPartition, CommittedOffset],
    ends: dict[TopicPartition, int],
) -> None:
    members = tuple(member(name, [tp for tp in owners if owners[tp] == name]) for name in "xyz")
    group = GroupDescription("g", CLASSIC_TYPE, "Stable", "consumer", "range", Broker(0, "h", 1), members)
    rows = lags(group, committed, ends)
    assert sorted(row.partition for row in rows) == sorted(owners.keys() | committed.keys())
    for row in rows:
        assert (row.member and row.member.member_id) == owners.get(row.partition)
        assert row.committed == committed.get(row.partition)
        known = row.partition in committed and row.partition in ends
        assert row.lag == (ends[row.partition] - committed[row.partition].offset if known else None)
    sizes = [len(row.member.assignment) for row in rows if row.member]
    assert sizes == sorted(sizes, reverse=True)
    assert [row.member is None for row in rows] == sorted(row.member is None for row in rows)


def test_a_log_that_was_truncated() -> None:
    assert PartitionLag(PARTITIONS[0], CommittedOffset(7), 5, None).lag == -2
