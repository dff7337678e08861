"""Test that one client cannot use up the broker: descriptors, stalled readers, expensive requests."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import (
    batch,
    create_topic,
    end_offset,
    exchange,
    fetch_request,
    is_closed,
    list_offset,
    produce,
    receive_frame,
)

DESCRIPTORS = 80


@pytest.mark.usefixtures("processes")
def test_connections_leave_descriptors_to_the_log(tmp_path: Path) -> None:
    broker = KafkalogBroker(tmp_path)
    broker.prefix = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]
    with broker, ExitStack() as stack:
        first = stack.enter_context(broker.connect())
        create_topic(first, "t", 1)
        began = time.monotonic()
        crowd = [stack.enter_context(broker.connect()) for _ in range(DESCRIPTORS)]
        broker.wait_logged("refusing connections")
        create_topic(first, "u", 5)
        for partition in range(5):
            for _ in range(10):
                assert produce(first, "u", batch([b"x"]), partition).error_code == ErrorCode.NONE
        # Looked at once a second, not as often as the processor allows.
        assert broker.logged().count("refusing connections") <= time.monotonic() - began + 2
        for sock in crowd:
            sock.close()

        def served() -> bool:
            with broker.connect() as sock:
                sock.sendall(encode_request(ListOffsetsRequest(replica_id=-1), 7, 1, "late"))
                return receive_frame(sock) != b""

        wait_until(served, "connections are accepted again")


def test_a_peer_that_takes_nothing_of_its_response_is_idle(start_broker: Callable[..., KafkalogBroker]) -> None:
    # Longer than this process may be put aside between two requests.
    broker = start_broker({"connections.max.idle.ms": "3000", "socket.send.buffer.bytes": "4096"})
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        for _ in range(8):
            assert produce(sock, "t", batch([b"x" * 1_000_000])).error_code == ErrorCode.NONE
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect((broker.host, broker.port))
    with stalled:
        assert end_offset(stalled, "t") == 8
        before = open_sockets(broker)
        stalled.sendall(encode_request(fetch_request("t", {0: 0}, partition_max_bytes=50 << 20), 12, 1, "stalled"))
        wait_until(lambda: open_sockets(broker) < before, "the stalled connection is closed")


def open_sockets(broker: KafkalogBroker) -> int:
    """Sockets that the broker's process has open."""
    links = Path(f"/proc/{broker.pid}/fd").iterdir()
    return sum(target_of(link).startswith("socket:") for link in links)


def target_of(link: Path) -> str:
    """Return what an open descriptor is; nothing if it has been closed meanwhile."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def test_a_partition_asked_for_twice_is_looked_up_for_neither(wire: socket.socket, topic: str) -> None:
    produce(wire, topic, batch([b"x"]))
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=0) for index in (0, 1, 0)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
    results = exchange(wire, request, 7).topics[0].partitions
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert {result.offset for result in results} == {-1}


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 99), (-100, 99)])
@pytest.mark.parametrize("version", range(1, 10))
def test_negative_timestamps_have_a_meaning_only_from_their_version_on(
    wire: socket.socket, topic: str, version: int, timestamp: int, since: int
) -> None:
    produce(wire, topic, batch([b"x"]))
    expected = ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(wire, topic, timestamp=timestamp, version=version).error_code == expected


def test_a_request_cannot_ask_for_any_number_of_partitions(wire: socket.socket, topic: str) -> None:
    def create(*partitions: int) -> list[int]:
        topics = [
            CreatableTopic(name=f"{topic}-{index}", num_partitions=count, replication_factor=1)
            for index, count in enumerate(partitions)
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True)
        return [result.error_code for result in exchange(wire, request, 5).topics]

    assert create((1 << 31) - 1) == [ErrorCode.POLICY_VIOLATION]
    assert create(10_000, 1) == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert create(6_000, 6_000, 4_000) == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
    growth = CreatePartitionsTopic(name=topic, count=(1 << 31) - 1, assignments=None)
    result = exchange(wire, CreatePartitionsRequest(topics=[growth], timeout_ms=10_000, validate_only=True), 3)
    assert result.results[0].error_code == ErrorCode.POLICY_VIOLATION


def test_a_large_request_leaves_others_their_turn(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Many small requests are answered while one that names 200,000 topics is still being served."""
    broker = start_broker()
    names = [f"topic-{number:06d}" for number in range(200_000)]
    large = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
    data = encode_request(large, 12, 1, "large")
    with broker.connect() as big, broker.connect() as small:
        create_topic(small, "t", 1)
        big.sendall(data)
        for _ in range(5):
            exchange(small, ApiVersionsRequest(), 3)
            assert produce(small, "t", batch([b"x"])).error_code == ErrorCode.NONE
        assert not select.select([big], [], [], 0)[0], "the large request was served before them"
        _, answer = decode_response(MetadataRequest, 12, receive_frame(big))
        assert [topic.name for topic in answer.topics] == names
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        # Cut short it is refused as a small one is.
        header = encode_request(MetadataRequest(topics=[]), 12, 1, "large")[4:-4]
        body = header + b"\xff\xff\xff\x7f" + b"x" * 100_000
        big.sendall(struct.pack(">i", len(body)) + body)
        assert is_closed(big)
    assert "Error parsing request" in broker.logged()
