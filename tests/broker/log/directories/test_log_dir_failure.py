"""Tests of log directories that fail at the start or later: other directories are served, and losses are reported."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.metadata.local import FILE_NAME
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from peers.process import PeerFailedError
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, exchange, fetch, list_offset, produce

CHECKPOINTS = {"log.flush.offset.checkpoint.interval.ms": "50"}


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / "one", tmp_path / "two"]


@pytest.fixture
def broker(start_broker: Callable[..., KafkalogBroker], dirs: list[Path]) -> KafkalogBroker:
    """With two log directories and a topic `t` of two partitions, one in each."""
    broker = start_broker({"log.dirs": ",".join(map(str, dirs)), **CHECKPOINTS})
    with broker.connect() as sock:
        create_topic(sock, "t", 2, max_message_bytes="5000")
        for partition in range(2):
            assert produce(sock, "t", batch([b"first"]), partition).error_code == ErrorCode.NONE
    return broker


def partitions_in(directory: Path) -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in directory.glob("t-?")]


def lose(broker: KafkalogBroker, directory: Path) -> Path:
    """Take the directory's contents away and wait until the broker has noticed; where they are now."""
    away = directory.with_name("away-" + directory.name)
    directory.rename(away)
    directory.write_text("in its place")
    broker.wait_logged(f"Stopping serving logs in dir {directory}")
    return away


def metadata(sock: socket.socket, topic: str = "t") -> dict[int, tuple[int, int, list[int], list[int]]]:
    """By partition: error, leader, ISR, offline replicas."""
    response = exchange(sock, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return {
        row.partition_index: (row.error_code, row.leader_id, row.isr_nodes, row.offline_replicas)
        for row in response.topics[0].partitions
    }


HEALTHY: tuple[int, int, list[int], list[int]] = (ErrorCode.NONE, 0, [0], [])
LOST = (ErrorCode.LEADER_NOT_AVAILABLE, -1, [0], [0])


def check_lost(sock: socket.socket, lost: int) -> None:
    """The partition's directory is offline, the other partition is served."""
    assert metadata(sock) == {lost: LOST, 1 - lost: HEALTHY}
    assert produce(sock, "t", batch([b"x"]), lost).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(sock, "t", batch([b"x"]), 1 - lost).error_code == ErrorCode.NONE
    rows = {index: row.error_code for index, row in fetch(sock, "t", {0: 0, 1: 0}).items()}
    assert rows == {lost: ErrorCode.KAFKA_STORAGE_ERROR, 1 - lost: ErrorCode.NONE}
    assert list_offset(sock, "t", lost).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def log_dirs(sock: socket.socket) -> dict[str, tuple[int, list[int]]]:
    response = exchange(sock, DescribeLogDirsRequest(topics=None), 4)
    return {
        row.log_dir: (row.error_code, [part.partition_index for topic in row.topics for part in topic.partitions])
        for row in response.results
    }


def test_a_directory_that_fails_is_told_by_every_answer(broker: KafkalogBroker, dirs: list[Path]) -> None:
    (lost,), (kept,) = (partitions_in(directory) for directory in dirs)
    with broker.connect() as sock:
        lose(broker, dirs[0])
        check_lost(sock, lost)
        assert log_dirs(sock) == {
            str(dirs[0]): (ErrorCode.KAFKA_STORAGE_ERROR, []),
            str(dirs[1]): (ErrorCode.NONE, [kept]),
        }
        create_topic(sock, "made-later", 2)
        assert metadata(sock, "made-later") == {0: HEALTHY, 1: HEALTHY}
    assert f"Logs for partitions t-{lost} are offline" in broker.logged()


def test_a_fetch_that_waits_learns_that_its_directory_failed(broker: KafkalogBroker, dirs: list[Path]) -> None:
    (lost,) = partitions_in(dirs[0])
    with broker.connect() as sock:
        dirs[0].rename(dirs[0].with_name("away"))
        answer = fetch(sock, "t", {lost: 1}, max_wait_ms=60_000, min_bytes=1 << 20)
        assert answer[lost].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_broken_directory_at_the_start_leaves_the_others_served(broker: KafkalogBroker, dirs: list[Path]) -> None:
    """Whichever it is: the registry is in both. Its partitions come back with it, and none is made anew elsewhere."""
    broker.stop()
    for broken, kept in (dirs, reversed(dirs)):
        (lost,) = partitions_in(broken)
        away = broken.with_name("away")
        broken.rename(away)
        broken.write_text("not a directory")
        broker.start()
        assert f"cannot use the directory {broken}" in broker.logged()
        with broker.connect() as sock:
            check_lost(sock, lost)
            assert produce(sock, "t", batch([b"x" * 6000]), 1 - lost).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert partitions_in(kept) == [1 - lost]
            create_topic(sock, f"without-{lost}", 1)
        broker.stop()
        broken.unlink()
        away.rename(broken)
        broker.start()
        with broker.connect() as sock:
            assert metadata(sock) == {0: HEALTHY, 1: HEALTHY}
            assert metadata(sock, f"without-{lost}") == {0: HEALTHY}
            assert fetch(sock, "t", {lost: 0})[lost].records
        broker.stop()


@pytest.mark.parametrize(
    "name", ["meta.properties", "recovery-point-offset-checkpoint", "t-{}/00000000000000000000.log"]
)
def test_a_file_that_cannot_be_read_takes_its_directory_offline(
    broker: KafkalogBroker, dirs: list[Path], name: str
) -> None:
    broker.kill()
    (lost,) = partitions_in(dirs[0])
    path = dirs[0] / name.format(lost)
    path.unlink(missing_ok=True)
    path.mkdir()
    broker.start()
    with broker.connect() as sock:
        check_lost(sock, lost)


def test_a_broker_does_not_start_without_any_directory(broker: KafkalogBroker, dirs: list[Path]) -> None:
    broker.stop()
    for directory in dirs:
        shutil.rmtree(directory)
        directory.write_text("")
    with pytest.raises(PeerFailedError):
        broker.start()
    last = broker.logged().splitlines()[-1]
    assert f"none of the specified log dirs from {dirs[0]}, {dirs[1]} can be created or validated" in last


def test_a_broker_without_the_directory_of_the_only_registry_does_not_begin_a_new_one(
    broker: KafkalogBroker, dirs: list[Path]
) -> None:
    """As a release before copies were kept in each directory left it."""
    broker.stop()
    (dirs[1] / FILE_NAME).unlink()
    dirs[0].rename(dirs[0].with_name("away"))
    dirs[0].write_text("")
    with pytest.raises(PeerFailedError):
        broker.start()
    assert f"{FILE_NAME} is in none of the log directories that can be used" in broker.logged()


def test_a_broker_halts_when_all_directories_have_failed(broker: KafkalogBroker, dirs: list[Path]) -> None:
    lose(broker, dirs[0])
    dirs[1].rename(dirs[1].with_name("away"))
    broker.wait_logged("have failed")
    assert broker.stop() == 1
    last = broker.logged().splitlines()[-1]
    assert f"Shutdown broker because all log dirs in {dirs[0]}, {dirs[1]} have failed" in last


def test_a_topic_deleted_while_a_directory_is_offline_is_gone_when_it_returns(
    broker: KafkalogBroker, dirs: list[Path]
) -> None:
    with broker.connect() as sock:
        away = lose(broker, dirs[0])
        deleted = exchange(sock, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        assert deleted.responses[0].error_code == ErrorCode.NONE
    broker.stop()
    dirs[0].unlink()
    away.rename(dirs[0])
    broker.start()
    with broker.connect() as sock:
        assert log_dirs(sock) == {str(path): (ErrorCode.NONE, []) for path in dirs}
    assert not partitions_in(dirs[0])
    assert not list(dirs[0].glob("*-stray"))
