"""Test that records of `__consumer_offsets` equal those of Apache Kafka, and that hostile bytes are refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group import records
from kafkalog.protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkalog.protocol.schema import Message

GOLDEN = Path(__file__).parent / "golden" / "group_records.txt"
LINES = [line.split() for line in GOLDEN.read_text().splitlines()]


def member(name: str, instance: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=name,
        group_instance_id=instance,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=f"subscription of {name}".encode(),
        assignment=f"assignment of {name}".encode(),
    )


def made(name: str, version: int) -> Message:
    """Return the message that `WriteGroupRecords.java` has written under that name."""
    if name == "offset-key":
        return OffsetCommitKey(group="grüße", topic="topic", partition=7)
    if name == "group-key":
        return GroupMetadataKey(group="grüße")
    if name == "offset-value":
        return OffsetCommitValue(
            offset=1 << 40,
            leader_epoch=5,
            metadata="where ✓",
            commit_timestamp=1_700_000_000_123,
            expire_timestamp=1_700_000_999_999 if version == 1 else -1,
        )
    if name == "empty-offset-value":
        return OffsetCommitValue(offset=0, metadata="", commit_timestamp=0)
    if name == "group-value":
        return GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="a",
            current_state_timestamp=1_700_000_000_456,
            members=[member("a", None), member("b", "static")],
        )
    assert name == "empty-group-value"
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=9,
        protocol=None,
        leader=None,
        current_state_timestamp=1_700_000_000_789,
    )


@pytest.mark.parametrize(("name", "version", "golden"), LINES, ids=[f"{line[0]}-v{line[1]}" for line in LINES])
def test_records_are_byte_for_byte_those_of_apache_kafka(name: str, version: str, golden: str) -> None:
    data = bytes.fromhex(golden)
    message = made(name, int(version))
    assert records.encode_versioned(message, int(version)) == data
    # What a version does not carry, it does not tell: it is the same once it is written again.
    again = records.decode_versioned(type(message), data)
    assert records.encode_versioned(again, int(version)) == data


def test_values_are_written_in_the_versions_that_apache_kafka_writes() -> None:
    golden = {(name, int(version)): bytes.fromhex(data) for name, version, data in LINES}
    plain = records.decode_versioned(OffsetCommitValue, golden["offset-value", 3])
    assert records.offset_commit_value(plain) == golden["offset-value", 3]
    retained = records.decode_versioned(OffsetCommitValue, golden["offset-value", 1])
    assert records.offset_commit_value(retained) == golden["offset-value", 1]
    group = records.decode_versioned(GroupMetadataValue, golden["group-value", 3])
    assert records.group_metadata_value(group) == golden["group-value", 3]
    assert records.offset_commit_key("grüße", "topic", 7) == golden["offset-key", 1]
    assert records.group_metadata_key("grüße") == golden["group-key", 2]


def test_keys_are_told_apart() -> None:
    assert records.parse_key(records.offset_commit_key("g", "t", 3)) == (1, "g", "t", 3)
    assert records.parse_key(records.group_metadata_key("g")) == (2, "g", "", -1)
    assert records.parse_key(b"\x00\x05whatever").type == 5


@given(st.binary(max_size=80))
def test_hostile_bytes_are_refused_or_read(data: bytes) -> None:
    for read in (
        lambda: records.parse_key(data),
        lambda: records.decode_versioned(OffsetCommitValue, data),
        lambda: records.decode_versioned(GroupMetadataValue, data),
    ):
        with suppress(records.UnreadableRecordError):
            read()


def test_a_version_of_a_later_release_is_refused() -> None:
    with pytest.raises(records.UnreadableRecordError, match="OffsetCommitValue"):
        records.decode_versioned(OffsetCommitValue, b"\x00\x09" + bytes(30))
    with pytest.raises(records.UnreadableRecordError):
        records.parse_key(None)
