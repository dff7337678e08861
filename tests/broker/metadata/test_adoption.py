"""Tests of a log directory without a registry: from Apache Kafka, or after the registry was lost."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.metadata.local import FILE_NAME, LocalStore
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.records.batch import Record, encode_batch
from peers.process import PeerFailedError
from tests.support.in_process.runtime import InlineWorkers
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.requests.transactions import WireProducer
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, end_offset, exchange, list_offset, produce


def new_producer(sock: socket.socket) -> int:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    response = exchange(sock, request, 4)
    assert response.error_code == ErrorCode.NONE
    producer_id: int = response.producer_id
    return producer_id


def test_producer_ids_found_in_the_log_are_not_given_again(start_broker: Callable[..., KafkalogBroker]) -> None:
    """A new producer under an old one's id would have its records taken for duplicates, and dropped."""
    now_ms = time.time_ns() // 1_000_000
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        old = [new_producer(sock) for _ in range(3)]
        for producer_id in old:
            first = batch([b"old"], producer_id=producer_id, producer_epoch=0, base_sequence=0, timestamp=now_ms)
            assert produce(sock, "t", first).error_code == ErrorCode.NONE
    broker.stop()
    (broker.log_dir / FILE_NAME).unlink()
    broker.start()
    with broker.connect() as sock:
        new = new_producer(sock)
        assert new not in old
        records = batch([b"new"], producer_id=new, producer_epoch=0, base_sequence=0, timestamp=now_ms)
        assert produce(sock, "t", records).base_offset == 3
        assert end_offset(sock, "t") == 4


def test_producer_ids_of_transactional_ids_are_not_given_again(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Of producers that have written nothing, or nothing that is still there."""
    broker = start_broker()
    with broker.connect() as sock:
        old = WireProducer(sock, "mine")
        old.init()
    broker.stop()
    (broker.log_dir / FILE_NAME).unlink()
    broker.start()
    with broker.connect() as sock:
        again = WireProducer(sock, "mine")
        again.init()
        assert (again.producer_id, again.epoch) == (old.producer_id, old.epoch + 1)
        assert new_producer(sock) > old.producer_id
        other = WireProducer(sock, "other")
        other.init()
        assert other.producer_id > old.producer_id
    assert LocalStore(broker.log_dir, workers=InlineWorkers()).load(None).next_producer_id > old.producer_id


def test_nothing_is_removed_by_a_retention_that_nobody_set(start_broker: Callable[..., KafkalogBroker]) -> None:
    """The topic's own configuration was in Kafka's ZooKeeper, or in the registry that is gone."""
    broker = start_broker({"log.retention.check.interval.ms": "50", "log.segment.bytes": "1000"})

    def fill(sock: socket.socket, topic: str) -> None:
        for _ in range(4):
            assert produce(sock, topic, batch([bytes(700)], timestamp=1)).error_code == ErrorCode.NONE

    with broker.connect() as sock:
        create_topic(sock, "kept", 1, retention_ms="-1")
        fill(sock, "kept")
    broker.stop()
    (broker.log_dir / FILE_NAME).unlink()
    broker.start()
    assert "are not known" in broker.logged()
    with broker.connect() as sock:
        create_topic(sock, "control", 1)
        fill(sock, "control")
        wait_until(lambda: list_offset(sock, "control", timestamp=-2).offset > 0, "retention of the other topic")
        assert list_offset(sock, "kept", timestamp=-2).offset == 0


def test_what_was_compacted_is_compacted(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "compacted", 1, cleanup_policy="compact")
        keyed = encode_batch([Record(0, time.time_ns() // 1_000_000, b"k", b"v", ())])
        assert produce(sock, "compacted", keyed).error_code == ErrorCode.NONE
    broker.stop()
    (broker.log_dir / FILE_NAME).unlink()
    (broker.log_dir / "cleaner-offset-checkpoint").write_text("0\n1\ncompacted 0 1\n")
    broker.start()
    with broker.connect() as sock:
        refused = produce(sock, "compacted", batch([b"no key"]))
        assert refused.error_code == ErrorCode.INVALID_RECORD


def test_the_registry_is_found_when_log_dirs_change_their_order(
    start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    """Begun anew it would lack the topics' configurations, and give producer ids again."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    broker = start_broker({"log.dirs": f"{first},{second}"})
    with broker.connect() as sock:
        create_topic(sock, "t", 2, max_message_bytes="300")
        producer_id = new_producer(sock)
    broker.stop()
    broker.overrides["log.dirs"] = f"{third},{second},{first}"
    broker.start()
    with broker.connect() as sock:
        assert produce(sock, "t", batch([b"x" * 500])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert new_producer(sock) > producer_id
    broker.stop()
    registry = (second / FILE_NAME).read_text()
    (second / FILE_NAME).write_text(registry.replace("300", "400"))
    with pytest.raises(PeerFailedError):
        broker.start()
    assert f"lies in several log directories ({third}, {second}, {first})" in broker.logged()


@pytest.mark.parametrize("running", [False, True])
def test_a_partition_whose_directory_is_gone_is_not_made_anew_without_a_word(
    start_broker: Callable[..., KafkalogBroker], running: bool
) -> None:
    """Taken away under a broker that runs, which is killed then, or after a clean stop."""
    broker = start_broker({"replica.high.watermark.checkpoint.interval.ms": "50"})
    with broker.connect() as sock:
        for topic in ("taken", "kept", "empty"):
            create_topic(sock, topic, 1)
        for topic in ("taken", "kept"):
            assert produce(sock, topic, batch([b"x"] * 10)).error_code == ErrorCode.NONE
    checkpoint = broker.log_dir / "replication-offset-checkpoint"
    wait_until(lambda: checkpoint.exists() and "taken 0 10" in checkpoint.read_text(), "the records are checkpointed")
    if not running:
        assert broker.stop() == 0
    for topic in ("taken", "empty"):
        shutil.rmtree(broker.log_dir / f"{topic}-0")
    if running:
        broker.kill()
    broker.start()
    warnings = [line for line in broker.logged().splitlines() if "anew, empty" in line]
    told = {"taken" if "taken-0" in line else "empty" if "empty-0" in line else "?": line for line in warnings}
    assert (len(warnings), set(told)) == (2, {"taken", "empty"})
    assert "up to offset 10," in told["taken"]
    assert "no checkpoint has records" in told["empty"]
    with broker.connect() as sock:
        assert (end_offset(sock, "taken"), end_offset(sock, "kept")) == (0, 10)
        assert produce(sock, "taken", batch([b"new"])).base_offset == 0
    assert broker.stop() == 0
    broker.start()
    # It is told once: the checkpoints now tell of the new log.
    assert broker.logged().count("anew, empty") == 2
