"""Tests of Produce 0 to 2 and Fetch 0 to 3 over the wire: formats v0 and v1, and conversions for old clients."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.records.any_format import decode_any, iter_any_headers
from kafkalog.records.compression import Codec
from tests.broker.api.message_formats import TIME, alter, sent, topic_of
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import end_offset, exchange, fetch, list_offset, produce

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
RELEASES = ("0.9.0", "0.10.0", "2.8")


def rows(data: bytes) -> list[tuple[int, int, bytes | None, int]]:
    """(magic, offset, value, timestamp) of every whole record."""
    return [
        (header.magic, record.offset, record.value, record.timestamp)
        for pos, header in iter_any_headers(data)
        for record in decode_any(data, pos)[1]
    ]


def fetched(wire: socket.socket, topic: str, version: int, offset: int = 0, **fields: Any) -> Any:
    if version >= 7:
        fields["session_epoch"] = -1
    return fetch(wire, topic, {0: offset}, version, **fields)[0]


def test_all_versions_are_announced(wire: socket.socket) -> None:
    """The ranges of Apache Kafka 3.9."""
    found = {
        api.api_key: (api.min_version, api.max_version) for api in exchange(wire, ApiVersionsRequest(), 0).api_keys
    }
    assert (found[ApiKey.PRODUCE], found[ApiKey.FETCH]) == ((0, 11), (0, 17))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("release", RELEASES)
def test_every_version_reads_what_every_version_wrote(wire: socket.socket, release: str, codec: Codec) -> None:
    topic = topic_of(wire, message_format_version=release)
    stored = RELEASES.index(release)
    wanted = []
    for version in range(12):
        values = [b"%d-%d" % (version, at) for at in range(3)]
        result = produce(wire, topic, sent(values, version, codec, 3 * version), version=version)
        assert (result.error_code, result.base_offset) == (0, 3 * version)
        for at, value in enumerate(values):
            stamp = TIME + 3 * version + at if version >= 2 and stored else -1
            wanted.append((3 * version + at, value, stamp))
    for version in range(13):
        known = 0 if version <= 1 else 1 if version <= 3 else 2
        magic = min(stored, known)
        found: list[Any] = []
        while len(found) < len(wanted):
            data = fetched(wire, topic, version, len(found))
            assert data.error_code == 0
            assert {header.codec for _, header in iter_any_headers(data.records)} == {codec}
            found += rows(data.records)
        assert found == [(magic, offset, value, stamp if magic else -1) for offset, value, stamp in wanted]
    for version in range(2, 10):
        result = produce(wire, topic, sent([b"more"], 2), version=2)
        assert list_offset(wire, topic, version=max(version, 1)).offset == result.base_offset + 1


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_consumer_goes_on_from_the_middle_of_a_batch(wire: socket.socket, version: int) -> None:
    topic = topic_of(wire)
    for codec in CODECS:
        produce(wire, topic, sent([b"%d" % at for at in range(5)], 9, codec))
    offset, found = 0, []
    while offset < 20:
        # Consumers keep what they asked for; of uncompressed batches nothing comes before it.
        data = rows(fetched(wire, topic, version, offset).records)
        if offset < 5:
            assert data[0][1] == offset
        took = [row for row in data if row[1] >= offset][:2]
        found += [row[1] for row in took]
        offset = found[-1] + 1
    assert found == list(range(20))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("release", RELEASES)
def test_before_version_3_no_more_bytes_come_than_were_asked_for(
    wire: socket.socket, release: str, version: int
) -> None:
    topic = topic_of(wire, message_format_version=release)
    produce(wire, topic, sent([b"x" * 500] * 20, 2), version=2)
    for limit in (0, 100, 1200, 5000):
        data = fetched(wire, topic, version, partition_max_bytes=limit)
        # The beginning of a message that is too large is sent, so that the consumer finds out that it is.
        assert len(data.records) == limit if limit <= 100 else len(data.records) <= limit
        assert [row[1] for row in rows(data.records)] == list(range(limit // 535))
    assert len(fetched(wire, topic, 3, partition_max_bytes=100).records) > 500


def test_what_needs_no_conversion_is_sent_as_it_is_stored(wire: socket.socket) -> None:
    topic = topic_of(wire, message_format_version="0.9.0", message_downconversion_enable="false")
    produce(wire, topic, sent([b"a", b"b"], 0), version=0)
    sent_as = [bytes(fetched(wire, topic, version).records) for version in (0, 1, 2, 3, 4, 12)]
    assert len(set(sent_as)) == 1
    assert [row[:3] for row in rows(sent_as[0])] == [(0, 0, b"a"), (0, 1, b"b")]


def test_conversion_may_be_forbidden(wire: socket.socket) -> None:
    topic = topic_of(wire, message_downconversion_enable="false")
    produce(wire, topic, sent([b"a"], 9))
    for version in (0, 1, 2, 3):
        data = fetched(wire, topic, version)
        assert (data.error_code, data.records) == (ErrorCode.UNSUPPORTED_VERSION, b"")
    assert fetched(wire, topic, 4).error_code == 0


def test_zstd_cannot_be_converted(wire: socket.socket) -> None:
    topic = topic_of(wire)
    produce(wire, topic, sent([b"a"], 9))
    produce(wire, topic, sent([b"b"], 9, Codec.ZSTD))
    for version in (0, 3):
        assert [row[2] for row in rows(fetched(wire, topic, version).records)] == [b"a"]
        assert fetched(wire, topic, version, 1).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_topic_of_zstd_is_for_consumers_that_know_it(wire: socket.socket) -> None:
    topic = topic_of(wire, compression_type="zstd")
    produce(wire, topic, sent([b"a"], 9))
    assert fetched(wire, topic, 9).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert [row[2] for row in rows(fetched(wire, topic, 10).records)] == [b"a"]


def test_the_format_of_a_live_topic_changes(wire: socket.socket) -> None:
    topic = topic_of(wire)
    for at, release in enumerate(("2.8", "0.10.2", "0.8.2", "0.11.0", "0.10.0-IV1")):
        alter(wire, topic, message_format_version=release)
        assert produce(wire, topic, sent([b"%d" % at], 2), version=2).base_offset == at
    assert [row[0] for row in rows(fetched(wire, topic, 12).records)] == [2, 1, 0, 2, 1]
    assert [row[0] for row in rows(fetched(wire, topic, 3).records)] == [1, 1, 0, 1, 1]
    assert [row[0] for row in rows(fetched(wire, topic, 1).records)] == [0] * 5
    assert [row[2] for row in rows(fetched(wire, topic, 0).records)] == [b"%d" % at for at in range(5)]


def test_versions_that_are_none_are_refused(wire: socket.socket) -> None:
    topic = topic_of(wire)
    for release in ("0.7", "2", "9.9", "0.10", "0.10.0-IV9", "x"):
        configs = [AlterableConfig(name="message.format.version", value=release)]
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
        answer = exchange(wire, AlterConfigsRequest(resources=[resource]), 1).responses[0]
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert f"Version `{release}` is not a valid version" in answer.error_message


@pytest.mark.parametrize("version", [3, 6, 7, 11])
def test_since_version_3_records_are_a_batch_of_v2(wire: socket.socket, version: int) -> None:
    for release in RELEASES:
        topic = topic_of(wire, message_format_version=release)
        for data in (sent([b"a"], 2), sent([b"a" * 20_000], 2), sent([b"a"], 0, Codec.GZIP)):
            assert produce(wire, topic, data, version=version).error_code == ErrorCode.INVALID_RECORD
        assert end_offset(wire, topic) == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("release", RELEASES)
def test_large_sets_are_converted_beside_the_loop(wire: socket.socket, release: str, codec: Codec) -> None:
    topic = topic_of(wire, message_format_version=release)
    values = [b"%05d" % at * 10 for at in range(2000)]
    for version in (0, 2, 9):
        assert produce(wire, topic, sent(values, version, codec), version=version).error_code == 0
    damaged = bytearray(sent(values, 2, codec))
    damaged[-1] ^= 1
    assert produce(wire, topic, bytes(damaged), version=2).error_code == ErrorCode.CORRUPT_MESSAGE
    for version in (1, 3, 12):
        found: list[bytes | None] = []
        while len(found) < 6000:
            data = rows(fetched(wire, topic, version, len(found)).records)
            found += [row[2] for row in data if row[1] >= len(found)]
        assert found == values * 3


def test_a_set_without_a_whole_message_appends_nothing(wire: socket.socket, topic: str) -> None:
    for data in (b"", sent([b"a"], 2)[:-1], sent([b"a"], 2)[:5]):
        result = produce(wire, topic, data, version=2)
        assert (result.error_code, result.base_offset) == (0, -1)
    assert end_offset(wire, topic) == 0


def test_a_long_poll_of_an_old_consumer_ends_with_the_append(broker: KafkalogBroker, wire: socket.socket) -> None:
    from kafkalog.protocol.codec import decode_response, encode_request
    from kafkalog.protocol.messages.fetch import FetchRequest
    from tests.support.wire import fetch_request, receive_frame

    topic = topic_of(wire)
    with broker.connect() as waiting:
        waiting.sendall(encode_request(fetch_request(topic, {0: 0}, max_wait_ms=60_000), 1, 5, "t"))
        produce(wire, topic, sent([b"woken"], 9))
        _, response = decode_response(FetchRequest, 1, receive_frame(waiting))
    assert [row[:3] for row in rows(response.responses[0].partitions[0].records)] == [(0, 0, b"woken")]


def test_offsets_by_timestamp(wire: socket.socket) -> None:
    for release in RELEASES:
        topic = topic_of(wire, message_format_version=release)
        produce(wire, topic, sent([b"a", b"b", b"c"], 2), version=2)
        answer = list_offset(wire, topic, timestamp=TIME + 1)
        if release == "0.9.0":
            assert answer.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        else:
            assert (answer.offset, answer.timestamp) == (1, TIME + 1)
        latest = list_offset(wire, topic)
        assert (latest.offset, latest.leader_epoch >= 0) == (3, release == "2.8")
        assert list_offset(wire, topic, timestamp=-2).offset == 0


def test_acks_all_and_none(wire: socket.socket) -> None:
    topic = topic_of(wire, message_format_version="0.10.0")
    assert produce(wire, topic, sent([b"a"], 2), acks=-1, version=2).base_offset == 0
    from kafkalog.protocol.codec import encode_request
    from tests.support.wire import produce_request

    wire.sendall(encode_request(produce_request(topic, {0: sent([b"b"], 2)}, acks=0), 2, 9, "t"))
    assert produce(wire, topic, sent([b"c"], 2), acks=1, version=2).base_offset == 2
