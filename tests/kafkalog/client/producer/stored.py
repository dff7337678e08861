"""A producer, and what a broker has stored of it."""

from __future__ import annotations

import socket
import uuid
from typing import Any

from kafkalog.client.producer import Producer
from kafkalog.records.batch import BatchHeader, Record, decode_batch, iter_headers
from tests.support.wire import create_topic, fetch


def new_topic(sock: socket.socket, partitions: int = 1, **configs: str) -> str:
    name = f"producer-{uuid.uuid4().hex[:12]}"
    create_topic(sock, name, partitions, **configs)
    return name


def producer(broker_address: str, **properties: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": broker_address, **{key.replace("_", "."): value for key, value in properties.items()}}
    )


def batches(sock: socket.socket, topic: str, partition: int = 0) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of a partition, as it is in the log."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    offset = 0
    while True:
        data = fetch(sock, topic, {partition: offset})[partition]
        assert data.error_code == 0
        whole = [decode_batch(data.records, at) for at, _ in iter_headers(data.records)]
        if not whole:
            return found
        found += whole
        offset = whole[-1][0].next_offset


def records(sock: socket.socket, topic: str, partition: int = 0) -> list[Record]:
    return [record for _, each in batches(sock, topic, partition) for record in each]


def values(sock: socket.socket, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records(sock, topic, partition)]
