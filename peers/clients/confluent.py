"""The client librdkafka, through confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from peers.clients.base import DEADLINE_S, DEFAULT_MAX_REQUEST, ClientError, ForeignClient, Record

_SPECS: dict[str, Any] = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "max_timestamp": OffsetSpec.max_timestamp,
}


def _failed(error: ck.KafkaException | ck.KafkaError) -> ClientError:
    inner = error.args[0] if isinstance(error, ck.KafkaException) else error
    return ClientError(inner.code() if inner.code() > 0 else -1, str(inner))


class ConfluentClient(ForeignClient):
    """The Producer, Consumer and AdminClient of confluent-kafka."""

    name = "librdkafka"
    features = frozenset(
        {"idempotent", "transactions", "timestamps", "null_record", "null_header", "admin", "acks_0"}
        | {"list_offset", "max_timestamp", "delete_records", "describe_config", "consume_all"}
    )

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": "librdkafka-peer",
            "log_level": 3,
        }
        self._admin = AdminClient(self._settings)

    @classmethod
    def missing(cls) -> str | None:
        return None

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, num_partitions=partitions, config=dict(config or {}))
        self._done(self._admin.create_topics([new])[topic])

    def delete_topic(self, topic: str) -> None:
        self._done(self._admin.delete_topics([topic])[topic])

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
        settings: dict[str, object] = {
            **self._settings,
            "acks": acks,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 500,
            "message.max.bytes": max_request,
            "message.timeout.ms": int(DEADLINE_S * 1000),
        }
        if transaction:
            settings |= {"transactional.id": f"rdkafka-{topic}-{transaction}", "enable.idempotence": True}
        producer = ck.Producer(settings)
        offsets: list[int] = []
        failures: list[ck.KafkaError] = []

        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            if error is not None:
                failures.append(error)
            offset = message.offset()
            offsets.append(-1 if acks == "0" or offset is None or offset < 0 else offset)

        try:
            if transaction:
                producer.init_transactions(DEADLINE_S)
                producer.begin_transaction()
            for record in records:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    on_delivery=delivered,
                    timestamp=record.timestamp if record.timestamp is not None else 0,
                    headers=list(record.headers),
                )
            left = producer.flush(DEADLINE_S)
            if transaction == "commit" and not failures:
                producer.commit_transaction(DEADLINE_S)
            elif transaction:
                producer.abort_transaction(DEADLINE_S)
        except ck.KafkaException as error:
            raise _failed(error) from error
        if failures:
            raise _failed(failures[0])
        if left:
            raise ClientError(-1, f"{left} records not delivered in {DEADLINE_S:.0f} s")
        return offsets

    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        consumer = ck.Consumer(
            {
                **self._settings,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "fetch.wait.max.ms": 200,
                # No message comes after control batches and aborted records, so look for the partition's end.
                "enable.partition.eof": True,
            }
        )
        got: list[Record] = []
        where = ck.TopicPartition(topic, partition, start)
        deadline = time.monotonic() + DEADLINE_S
        reached = start
        try:
            consumer.assign([where])
            while time.monotonic() < deadline:
                for message in consumer.consume(1000, timeout=0.1):
                    error = message.error()
                    if error is None:
                        if (message.offset() or 0) < end:
                            got.append(_record(message))
                    elif error.code() != ck.KafkaError._PARTITION_EOF:
                        raise _failed(error)
                    reached = (message.offset() or 0) + (error is None)
                if reached >= end:
                    break
        finally:
            consumer.close()
        return got

    def consume_all(self, topic: str, ends: Sequence[int]) -> list[list[int]]:
        consumer = ck.Consumer(
            {**self._settings, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        )
        offsets: list[list[int]] = [[] for _ in ends]
        deadline = time.monotonic() + DEADLINE_S
        missing = sum(ends)
        try:
            consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(len(ends))])
            while missing > 0 and time.monotonic() < deadline:
                for message in consumer.consume(1000, timeout=0.1):
                    error, where, offset = message.error(), message.partition(), message.offset()
                    if error is not None:
                        raise _failed(error)
                    assert where is not None
                    assert offset is not None
                    offsets[where].append(offset)
                    missing -= 1
        finally:
            consumer.close()
        return offsets

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        spec = _SPECS[at]() if at in _SPECS else OffsetSpec.for_timestamp(int(at))
        where = ck.TopicPartition(topic, partition)
        found = self._done(self._admin.list_offsets({where: spec})[where])
        return found.offset, found.timestamp

    def describe_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entries = self._done(self._admin.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def alter_config(self, topic: str, values: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._done(self._admin.incremental_alter_configs([resource])[resource])

    def partition_count(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        where = ck.TopicPartition(topic, partition, before)
        return int(self._done(self._admin.delete_records([where])[where]).low_watermark)

    def close(self) -> None:
        # The admin client has no close method; it would keep connecting.
        del self._admin

    @staticmethod
    def _done(future: Any) -> Any:
        try:
            return future.result(DEADLINE_S)
        except ck.KafkaException as error:
            raise _failed(error) from error


def _record(message: Any) -> Record:
    return Record(
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value) for name, value in message.headers() or ()),
        timestamp=message.timestamp()[1],
        offset=message.offset(),
    )
