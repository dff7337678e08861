"""Tests of moves between log directories over the wire: while partitions are served, and with interruptions."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.records.batch import iter_headers
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, end_offset, exchange, fetch, list_offset, produce

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
HELD = {RATE: "1"}
"""Moves that do not get on."""


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / "one", tmp_path / "two", tmp_path / "three"]


@pytest.fixture
def start(start_broker: Callable[..., KafkalogBroker], dirs: list[Path]) -> Callable[..., KafkalogBroker]:
    """Starts a broker with three log directories and a topic `t` of one partition with 300 records."""

    def run(**topic: str) -> KafkalogBroker:
        settings = {"log.dirs": ",".join(map(str, dirs)), "log.segment.delete.delay.ms": "0", **HELD}
        broker = start_broker(settings)
        with broker.connect() as sock:
            create_topic(sock, "t", 1, **{"segment_bytes": "4000", **topic})
            fill(sock, 300)
        return broker

    return run


def fill(sock: socket.socket, count: int) -> None:
    for _ in range(count // 10):
        assert produce(sock, "t", batch([b"%090d" % n for n in range(10)])).error_code == ErrorCode.NONE


def alter(sock: socket.socket, path: Path | str, topic: str = "t", version: int = 2) -> int:
    wanted = AlterReplicaLogDir(path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
    response = exchange(sock, AlterReplicaLogDirsRequest(dirs=[wanted]), version)
    (result,) = response.results
    assert result.topic_name == topic
    (row,) = result.partitions
    code: int = row.error_code
    return code


def set_rate(sock: socket.socket, rate: int, codes: tuple[int, ...] = (ErrorCode.NONE,)) -> None:
    """Bytes a second that moves may copy."""
    config = AlterableConfig(name=RATE, config_operation=0, value=str(rate))
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=[config])
    (result,) = exchange(sock, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert result.error_code in codes, result.error_message


def go(sock: socket.socket) -> None:
    """Let moves go on."""
    set_rate(sock, 1 << 40)


def replicas(sock: socket.socket, topic: str = "t") -> dict[str, Any]:
    """By log directory what it has of the topic's partition 0."""
    response = exchange(sock, DescribeLogDirsRequest(topics=None), 4)
    return {
        Path(result.log_dir).name: part
        for result in response.results
        for described in result.topics
        if described.name == topic
        for part in described.partitions
    }


def place(dirs: list[Path]) -> Path:
    """The log directory that has the partition."""
    (found,) = [path for path in dirs if (path / "t-0").is_dir()]
    return found


def others(dirs: list[Path]) -> list[Path]:
    return [path for path in dirs if path != place(dirs)]


def futures(path: Path) -> list[Path]:
    return list(path.glob("t-0.*-future"))


def offsets(sock: socket.socket, start: int = 0) -> list[int]:
    """First offsets of all batches."""
    found: list[int] = []
    end = end_offset(sock, "t")
    while start < end:
        data = bytes(fetch(sock, "t", {0: start})[0].records)
        for _, header in iter_headers(data):
            found.append(header.base_offset)
            start = header.next_offset
    return found


def arrived(sock: socket.socket, target: Path) -> Callable[[], bool]:
    def check() -> bool:
        rows = replicas(sock)
        return list(rows) == [target.name] and not rows[target.name].is_future_key

    return check


def test_a_partition_is_moved_while_it_is_served(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    # A log that rolls every few milliseconds is ahead of its move for as long as it is written to.
    broker = start(segment_bytes="20000")
    source, target = place(dirs), others(dirs)[0]
    with broker.connect() as sock:
        assert alter(sock, target) == ErrorCode.NONE
        rows = replicas(sock)
        assert (rows[source.name].is_future_key, rows[source.name].offset_lag) == (False, 0)
        assert rows[target.name].is_future_key
        assert rows[target.name].offset_lag > 0
        assert len(futures(target)) == 1
        fill(sock, 50)
        go(sock)
        while not arrived(sock, target)():
            fill(sock, 10)
        fill(sock, 50)
        assert offsets(sock) == list(range(0, end_offset(sock, "t"), 10))
        end = end_offset(sock, "t")
        wait_until(lambda: not list(source.glob("t-*")), "the old directory is gone")
        assert place(dirs) == target
        assert alter(sock, target) == ErrorCode.NONE
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        assert end_offset(sock, "t") == end
        assert offsets(sock) == list(range(0, end, 10))
        assert place(dirs) == target


def test_what_cannot_be_moved(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    broker = start()
    with broker.connect() as sock:
        for version in range(3):
            assert alter(sock, "/no/such/directory", version=version) == ErrorCode.LOG_DIR_NOT_FOUND
        assert alter(sock, dirs[0].parent) == ErrorCode.LOG_DIR_NOT_FOUND
        assert alter(sock, place(dirs)) == ErrorCode.NONE
        assert alter(sock, dirs[0], "x" * 240) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert list(replicas(sock)) == [place(dirs).name]
        # It is made there when it is made.
        for target in dirs:
            name = f"later-{target.name}"
            assert alter(sock, target, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            create_topic(sock, name, 1)
            assert list(replicas(sock, name)) == [target.name]


def test_a_directory_that_is_offline(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    broker = start()
    broker.stop()
    source, target, other = place(dirs), *others(dirs)
    other.rename(other.with_name("away"))
    other.write_text("in its place")
    broker.start()
    with broker.connect() as sock:
        assert alter(sock, other) == ErrorCode.KAFKA_STORAGE_ERROR
        # It may have a copy of its own.
        assert alter(sock, target) == ErrorCode.KAFKA_STORAGE_ERROR
        assert list(replicas(sock)) == [source.name]


def test_a_move_is_cancelled_or_sent_elsewhere(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    broker = start()
    source, first, second = place(dirs), *others(dirs)
    with broker.connect() as sock:
        assert alter(sock, first) == ErrorCode.NONE
        (before,) = futures(first)
        assert alter(sock, first) == ErrorCode.NONE
        assert futures(first) == [before]
        assert alter(sock, second) == ErrorCode.NONE
        assert futures(first) == []
        assert set(replicas(sock)) == {source.name, second.name}
        assert alter(sock, source) == ErrorCode.NONE
        assert list(replicas(sock)) == [source.name]
        wait_until(lambda: not list(first.glob("t-*")) and not list(second.glob("t-*")), "the copies are gone")
        assert alter(sock, second) == ErrorCode.NONE
        go(sock)
        wait_until(arrived(sock, second), "it was moved after all")
        assert offsets(sock) == list(range(0, 300, 10))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_move_goes_on_after_a_start(start: Callable[..., KafkalogBroker], dirs: list[Path], end: str) -> None:
    broker = start()
    target = others(dirs)[0]
    with broker.connect() as sock:
        assert alter(sock, target) == ErrorCode.NONE
        wait_until(lambda: any(futures(target)[0].glob("*.index")), "something was copied")
    (before,) = futures(target)
    getattr(broker, end)()
    broker.start()
    with broker.connect() as sock:
        assert futures(target) == [before]
        assert replicas(sock)[target.name].is_future_key
        fill(sock, 20)
        go(sock)
        wait_until(arrived(sock, target), "the move goes on")
        assert offsets(sock) == list(range(0, 320, 10))


def test_a_topic_that_is_deleted_while_it_is_moved(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    broker = start()
    target = others(dirs)[0]
    with broker.connect() as sock:
        assert alter(sock, target) == ErrorCode.NONE
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
        assert exchange(sock, request, 6).responses[0].error_code == ErrorCode.NONE
        wait_until(lambda: not [found for path in dirs for found in path.glob("t-*")], "all of it is gone")
        create_topic(sock, "t", 1)
        assert offsets(sock) == []
        go(sock)
        fill(sock, 10)
        assert offsets(sock) == [0]
        (row,) = replicas(sock).values()
        assert not row.is_future_key


def test_records_deleted_while_it_is_moved_stay_deleted(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    broker = start()
    target = others(dirs)[0]
    with broker.connect() as sock:
        assert alter(sock, target) == ErrorCode.NONE
        part = DeleteRecordsPartition(partition_index=0, offset=125)
        topics = [DeleteRecordsTopic(name="t", partitions=[part])]
        response = exchange(sock, DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)
        assert response.topics[0].partitions[0].low_watermark == 125
        go(sock)
        wait_until(arrived(sock, target), "it was moved")
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        assert list_offset(sock, "t", timestamp=-2).offset == 125
        assert offsets(sock, 125) == list(range(120, 300, 10))


def test_a_directory_that_fails_ends_the_move_alone(start: Callable[..., KafkalogBroker], dirs: list[Path]) -> None:
    broker = start()
    target = others(dirs)[0]
    with broker.connect() as sock:
        assert alter(sock, target) == ErrorCode.NONE
        target.rename(target.with_name("away"))
        target.write_text("in its place")
        # The move finds it out, or the registry, which is written in every log directory.
        set_rate(sock, 2, (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR))
        broker.wait_logged(f"Stopping serving logs in dir {target}")
        fill(sock, 20)
        assert offsets(sock) == list(range(0, 320, 10))
        assert list(replicas(sock)) == [place([path for path in dirs if path != target]).name]
