"""Test the bytes of the records that a mirror writes about itself."""

from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.formats import (
    Checkpoint,
    FormatError,
    GroupMark,
    Heartbeat,
    KeptTopic,
    OffsetSync,
    SourcePosition,
)
from tests.kafkalog.mirror.golden import RECORDS

NUMBERS = st.integers(0, (1 << 63) - 1)
PARTITIONS = st.builds(TopicPartition, st.text(max_size=30), st.integers(0, 9))


@pytest.mark.parametrize(("record", "key", "value"), RECORDS, ids=lambda each: type(each).__name__)
def test_bytes_are_those_of_apache_kafka(record: OffsetSync | Checkpoint | Heartbeat, key: str, value: str) -> None:
    assert record.key().hex() == key
    assert record.value().hex() == value
    assert type(record).read(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(st.builds(Checkpoint, st.text(max_size=20), PARTITIONS, NUMBERS, NUMBERS, st.text(max_size=20)))
def test_checkpoints_come_back(record: Checkpoint) -> None:
    assert Checkpoint.read(record.key(), record.value()) == record


@given(st.builds(OffsetSync, PARTITIONS, NUMBERS, NUMBERS))
def test_offset_syncs_come_back(record: OffsetSync) -> None:
    assert OffsetSync.read(record.key(), record.value()) == record


@given(st.builds(GroupMark, st.text(max_size=20), PARTITIONS, NUMBERS))
def test_group_marks_come_back(record: GroupMark) -> None:
    assert GroupMark.read(record.key(), record.value()) == record


@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_other_bytes_are_refused(key: bytes | None, value: bytes | None) -> None:
    for kind in (OffsetSync, Checkpoint, GroupMark, Heartbeat, SourcePosition):
        with contextlib.suppress(FormatError):
            kind.read(key, value)


def test_an_unknown_version_is_refused() -> None:
    beat = Heartbeat("A", "B", 1)
    with pytest.raises(FormatError, match="version 1"):
        Heartbeat.read(beat.key(), b"\x00\x01" + beat.value()[2:])


def test_a_position_is_stored_as_kafka_connect_stores_it() -> None:
    position = SourcePosition("A", TopicPartition("words", 2), 124)
    # As connect-mirror-maker.sh writes it: the offset of the last record, not the next one.
    assert position.key() == b'["MirrorSourceConnector",{"cluster":"A","partition":2,"topic":"words"}]'
    assert position.value() == b'{"offset":123}'
    assert SourcePosition.read(position.key(), position.value()) == position


def test_a_kept_topic_is_no_position_of_kafka_connect() -> None:
    kept = KeptTopic("A", TopicPartition("words", 2), UUID(int=7))
    assert kept.key() == b'["kafkalog.mirror.source",{"cluster":"A","partition":2,"topic":"words"}]'
    assert kept.value() == b'{"topic_id":"00000000-0000-0000-0000-000000000007"}'
    assert KeptTopic.read(kept.key(), kept.value()) == kept
    assert SourcePosition.read(kept.key(), kept.value()) is None
    position = SourcePosition("A", TopicPartition("words", 2), 124)
    assert KeptTopic.read(position.key(), position.value()) is None
    for value in (None, b"{}", b'{"topic_id":7}', b'{"topic_id":"7"}'):
        with pytest.raises(FormatError):
            KeptTopic.read(kept.key(), value)


def test_a_tombstone_says_that_a_position_does_not_count() -> None:
    forgotten = SourcePosition("A", TopicPartition("words", 2), None)
    assert forgotten.value() is None
    assert SourcePosition.read(forgotten.key(), None) == forgotten


def test_positions_of_others_are_left_out() -> None:
    assert SourcePosition.read(b'["MirrorHeartbeatConnector",{"x":1}]', b'{"offset":0}') is None
    with pytest.raises(FormatError):
        SourcePosition.read(b'["MirrorSourceConnector",{"topic":"words"}]', b'{"offset":0}')
