"""Tests of a topic's settings: retention, codecs, sizes, forced flushes, and the ends of leader epochs."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.records.batch import decode_batch, iter_headers
from kafkalog.records.compression import Codec
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import (
    batch,
    create_topic,
    end_offset,
    exchange,
    fetch,
    list_offset,
    produce,
    produce_request,
    receive_frame,
)

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def earliest(sock: socket.socket, topic: str) -> int:
    offset: int = list_offset(sock, topic, timestamp=-2).offset
    return offset


@pytest.mark.parametrize(
    ("config", "age_ms"),
    [({"retention_bytes": "3000"}, 0), ({"retention_ms": str(HOUR_MS)}, 2 * HOUR_MS)],
    ids=["by bytes", "by time"],
)
def test_retention(start_broker: Callable[..., KafkalogBroker], config: dict[str, str], age_ms: int) -> None:
    broker = start_broker({"log.retention.check.interval.ms": "100", "log.segment.delete.delay.ms": "100"})
    with broker.connect() as sock:
        create_topic(sock, "t", 1, segment_bytes="2000", **config)
        for n in range(10):
            produce(sock, "t", batch([b"%d" % n + b"x" * 900], timestamp=now_ms() - age_ms))
        produce(sock, "t", batch([b"kept"], timestamp=now_ms()))
        wait_until(lambda: earliest(sock, "t") > 0, "old segments are gone")
        directory = broker.log_dir / "t-0"

        def settled() -> bool:
            names = [path.name for path in directory.iterdir()]
            bases = sorted(int(name[:20]) for name in names if name.endswith(".log"))
            return bases[0] == earliest(sock, "t") and not any(name.endswith(".deleted") for name in names)

        wait_until(settled, "the files of old segments are removed")
        # Retention may go on, but never past the newest record.
        start = earliest(sock, "t")
        assert start < 11, "the newest record stays"
        assert end_offset(sock, "t") == 11
        assert fetch(sock, "t", {0: start - 1})[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(sock, "t", {0: 10})[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("sent", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_the_topics_codec_wins(wire: socket.socket, sent: Codec, name: str) -> None:
    topic = f"codec-{name}-{sent.name}"
    create_topic(wire, topic, compression_type=name)
    assert produce(wire, topic, batch([b"a" * 500, b"b"], codec=sent)).error_code == ErrorCode.NONE
    records = fetch(wire, topic, {0: 0})[0].records
    [(_, header)] = iter_headers(records)
    wanted = {"producer": sent, "uncompressed": Codec.NONE}.get(name)
    if wanted is None:
        wanted = Codec[name.upper()]
    assert (header.codec, header.records_count) == (wanted, 2)


@pytest.mark.parametrize("sent", [Codec.NONE, Codec.GZIP])
def test_large_batches_that_are_recompressed_keep_their_order_and_bytes(
    broker: KafkalogBroker, wire: socket.socket, topic: str, sent: Codec
) -> None:
    """They go to a worker, while the connection receives the requests behind them."""
    name = f"{topic}-zstd"
    create_topic(wire, name, 1, compression_type="zstd")
    values = [[b"%05d" % (100 * n + i) * 400 for i in range(30)] for n in range(12)]
    for n, some in enumerate(values):
        wire.sendall(encode_request(produce_request(name, {0: batch(some, codec=sent)}), 9, n, "pipelining"))
    for n in range(len(values)):
        answered, response = decode_response(ProduceRequest, 9, receive_frame(wire))
        row = response.responses[0].partition_responses[0]
        assert (answered, row.error_code, row.base_offset) == (n, ErrorCode.NONE, 30 * n)
    records = fetch(wire, name, {0: 0}, partition_max_bytes=10 << 20)[0].records
    stored = [decode_batch(records, at) for at, _ in iter_headers(records)]
    assert [[record.value for record in found] for _, found in stored] == values
    assert {header.codec for header, _ in stored} == {Codec.ZSTD}
    torn = batch([b"x" * 50_000])
    torn[-1] ^= 1
    assert produce(wire, name, torn).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(wire, name, batch([b"y" * 50_000]), version=6).base_offset == 30 * len(values)


def test_the_topics_size_limit(wire: socket.socket) -> None:
    create_topic(wire, "small", max_message_bytes="1000")
    assert produce(wire, "small", batch([b"x" * 2000])).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(wire, "small", batch([b"x" * 500])).base_offset == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_forced_flushes(start_broker: Callable[..., KafkalogBroker], acks: int) -> None:
    broker = start_broker({"log.flush.offset.checkpoint.interval.ms": "100"})
    with broker.connect() as sock:
        create_topic(sock, "t", 1, flush_messages="1")
        for n in range(20):
            assert produce(sock, "t", batch([b"%d" % n]), acks=acks).base_offset == n
        # Up to the recovery point the log is on the device; it is checkpointed soon after.
        checkpoint = broker.log_dir / "recovery-point-offset-checkpoint"
        wait_until(
            lambda: checkpoint.exists() and "t 0 20" in checkpoint.read_text(),
            "the recovery point has followed the acknowledgements",
        )


@pytest.mark.parametrize("version", range(5))
def test_where_epochs_end(wire: socket.socket, topic: str, version: int) -> None:

    def ask(epoch: int, partition: int = 0) -> tuple[int, int]:
        wanted = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
        result = exchange(wire, request, version).topics[0].partitions[0]
        return result.error_code, result.end_offset

    assert ask(0) == (0, 0), "the epoch began when the leader took over, with nothing written yet"
    for _ in range(3):
        produce(wire, topic, batch([b"x"]))
    assert ask(0) == (0, 3)
    assert ask(7) == (0, -1)
    assert ask(0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_every_producer_that_waits_for_an_fsync_gets_one(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Records that come while an fsync is under way, and are fewer than flush.messages, are not left waiting."""
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1, flush_messages="10")

    def work(_: int) -> list[int]:
        with broker.connect() as sock:
            # Longer than any fsync takes, and shorter than the socket waits.
            request = produce_request("t", {0: batch([b"x"])}, timeout_ms=15_000)
            answers = [exchange(sock, request, 9) for _ in range(150)]
        return [answer.responses[0].partition_responses[0].error_code for answer in answers]

    with ThreadPoolExecutor(12) as pool:
        codes = [code for codes in pool.map(work, range(12)) for code in codes]
    assert set(codes) == {ErrorCode.NONE}
