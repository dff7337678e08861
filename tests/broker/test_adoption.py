"""A log directory that has no registry: one that Apache Kafka wrote, or whose registry was lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.metadata.local import FILE_NAME
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.peers.process import PeerFailedError
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, end_offset, exchange, produce


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
