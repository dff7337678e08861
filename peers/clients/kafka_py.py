"""The client kafka-python."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import kafka
import kafka.errors
from kafka.admin import ConfigResource, ConfigResourceType

from peers.clients.base import DEADLINE_S, DEFAULT_MAX_REQUEST, ClientError, ForeignClient, Record

T = TypeVar("T")
# ListOffsets: the timestamps that mean "latest", "earliest", "of the greatest timestamp"
_SPECS = {"latest": -1, "earliest": -2, "max_timestamp": -3}


def _told(call: Callable[[], T]) -> T:
    """Return the call's result.

    Raises:
        ClientError: The call has failed.
    """
    try:
        return call()
    except kafka.errors.KafkaError as error:
        errno = getattr(error, "errno", None)
        raise ClientError(errno if isinstance(errno, int) and errno > 0 else -1, repr(error)) from error


class KafkaPythonClient(ForeignClient):
    """The KafkaProducer, KafkaConsumer and KafkaAdminClient of kafka-python."""

    name = "kafka-python"
    features = frozenset(
        {"idempotent", "transactions", "timestamps", "admin", "acks_0"}
        | {"list_offset", "max_timestamp", "delete_records", "describe_config", "consume_all"}
    )

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": "kafka-python-peer"}
        self._admin = kafka.KafkaAdminClient(**self._settings)

    @classmethod
    def missing(cls) -> str | None:
        return None

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = {topic: {"num_partitions": partitions, "configs": dict(config or {})}}
        _told(lambda: self._admin.create_topics(new, wait_for_metadata=True))

    def delete_topic(self, topic: str) -> None:
        _told(lambda: self._admin.delete_topics([topic]))

    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transaction: str = "",
        max_request: int = DEFAULT_MAX_REQUEST,
    ) -> list[int]:
        settings = {
            **self._settings,
            "acks": acks if acks == "all" else int(acks),
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": idempotent or bool(transaction),
            "batch_size": 1 << 20,
            "linger_ms": 500,
            "max_request_size": max_request,
            "delivery_timeout_ms": int(DEADLINE_S * 1000),
            "request_timeout_ms": 20_000,
        }
        if transaction:
            settings["transactional_id"] = f"kafka-python-{topic}-{transaction}"
        producer = kafka.KafkaProducer(**settings)
        try:
            return _told(lambda: self._send(producer, topic, partition, records, transaction, acks))
        finally:
            producer.close(timeout=5)

    @staticmethod
    def _send(
        producer: kafka.KafkaProducer,
        topic: str,
        partition: int,
        records: Sequence[Record],
        transaction: str,
        acks: str,
    ) -> list[int]:
        if transaction:
            producer.init_transactions()
            producer.begin_transaction()
        sent = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        producer.flush(timeout=DEADLINE_S)
        offsets = [future.get(timeout=DEADLINE_S).offset for future in sent]
        if transaction == "commit":
            producer.commit_transaction()
        elif transaction == "abort":
            producer.abort_transaction()
        return [-1] * len(offsets) if acks == "0" else offsets

    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        consumer = kafka.KafkaConsumer(
            **self._settings,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation,
            fetch_max_wait_ms=200,
        )
        where = kafka.TopicPartition(topic, partition)
        got: list[Record] = []

        def read() -> None:
            consumer.assign([where])
            consumer.seek(where, start)
            deadline = time.monotonic() + DEADLINE_S
            while consumer.position(where) < end and time.monotonic() < deadline:
                batch = consumer.poll(timeout_ms=200).get(where, ())
                got.extend(_record(message) for message in batch if message.offset < end)

        try:
            _told(read)
        finally:
            consumer.close()
        return got

    def consume_all(self, topic: str, ends: Sequence[int]) -> list[list[int]]:
        consumer = kafka.KafkaConsumer(
            **self._settings, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        partitions = [kafka.TopicPartition(topic, partition) for partition in range(len(ends))]
        offsets: list[list[int]] = [[] for _ in ends]

        def read() -> None:
            consumer.assign(partitions)
            for where in partitions:
                consumer.seek(where, 0)
            missing = sum(ends)
            deadline = time.monotonic() + DEADLINE_S
            while missing > 0 and time.monotonic() < deadline:
                for where, batch in consumer.poll(timeout_ms=200).items():
                    offsets[where.partition] += [message.offset for message in batch]
                    missing -= len(batch)

        try:
            _told(read)
        finally:
            consumer.close()
        return offsets

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        where = kafka.TopicPartition(topic, partition)
        spec = _SPECS.get(at)
        found = _told(lambda: self._admin.list_partition_offsets({where: int(at) if spec is None else spec}))[where]
        return int(found.offset), int(found.timestamp)

    def describe_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = _told(lambda: self._admin.describe_configs([resource], config_filter="all"))
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter_config(self, topic: str, values: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(values))
        said = _told(lambda: self._admin.alter_configs([resource]))["topic"][topic]
        if said != "OK":
            # kafka-python turns the response's code into text: "[Error 40] InvalidConfigurationError: ..."
            code = re.match(r"\[Error (\d+)\]", said)
            raise ClientError(int(code[1]) if code else -1, said)

    def partition_count(self, topic: str) -> int:
        (found,) = _told(lambda: self._admin.describe_topics([topic]))
        return len(found["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        _told(lambda: self._admin.create_partitions({topic: total}))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        where = kafka.TopicPartition(topic, partition)
        found = _told(lambda: self._admin.delete_records({where: before}))[where]
        return int(found["low_watermark"])

    def close(self) -> None:
        self._admin.close()


def _record(message: Any) -> Record:
    return Record(
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp=message.timestamp,
        offset=message.offset,
    )
