"""The client aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import aiokafka  # type: ignore[import-untyped]
import aiokafka.errors  # type: ignore[import-untyped]
from aiokafka.admin import (  # type: ignore[import-untyped]
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped]
    ConfigResource,
    ConfigResourceType,
)

from peers.clients.base import DEADLINE_S, DEFAULT_MAX_REQUEST, ClientError, ForeignClient, Record

T = TypeVar("T")


class AioKafkaClient(ForeignClient):
    """AIOKafkaProducer, AIOKafkaConsumer and AIOKafkaAdminClient; each call runs its own event loop."""

    name = "aiokafka"
    features = frozenset(
        {"idempotent", "transactions", "timestamps", "null_header", "admin", "acks_0", "list_offset"}
        | {"delete_records", "describe_config", "consume_all"}
    )

    @classmethod
    def missing(cls) -> str | None:
        return None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, 2 * DEADLINE_S)

        try:
            return asyncio.run(bounded())
        except aiokafka.errors.KafkaError as error:
            errno = getattr(error, "errno", -1)
            raise ClientError(errno if errno > 0 else -1, repr(error)) from error

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(config or {}))

        async def work(admin: AIOKafkaAdminClient) -> None:
            answer = await admin.create_topics([new])
            _check(answer.topic_errors)

        self._run(self._with_admin(work))

    def delete_topic(self, topic: str) -> None:
        async def work(admin: AIOKafkaAdminClient) -> None:
            answer = await admin.delete_topics([topic])
            _check(answer.topic_error_codes)

        self._run(self._with_admin(work))

    async def _with_admin(self, work: Any) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, client_id="aiokafka-peer")
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

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
        settings: dict[str, Any] = {
            "acks": acks if acks == "all" else int(acks),
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": idempotent or bool(transaction),
            "max_batch_size": max_request,
            "max_request_size": max_request,
            "linger_ms": 500,
        }
        if transaction:
            settings["transactional_id"] = f"aiokafka-{topic}-{transaction}"

        async def work() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=self.bootstrap, **settings)
            await producer.start()
            try:
                if transaction:
                    await producer.begin_transaction()
                sent = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        partition=partition,
                        timestamp_ms=record.timestamp,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                told = await asyncio.gather(*sent)
                if transaction == "commit":
                    await producer.commit_transaction()
                elif transaction == "abort":
                    await producer.abort_transaction()
            finally:
                await producer.stop()
            return [-1 if acks == "0" or each is None else each.offset for each in told]

        return self._run(work())

    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        where = aiokafka.TopicPartition(topic, partition)

        async def work() -> list[Record]:
            consumer = self._consumer(auto_offset_reset="none", isolation_level=isolation)
            await consumer.start()
            got: list[Record] = []
            try:
                consumer.assign([where])
                consumer.seek(where, start)
                loop = asyncio.get_running_loop()
                deadline = loop.time() + DEADLINE_S
                while await consumer.position(where) < end and loop.time() < deadline:
                    batch = (await consumer.getmany(where, timeout_ms=200)).get(where, ())
                    got += [_record(message) for message in batch if message.offset < end]
            finally:
                await consumer.stop()
            return got

        return self._run(work())

    def _consumer(self, **settings: Any) -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
            **settings,
        )

    def consume_all(self, topic: str, ends: Sequence[int]) -> list[list[int]]:
        partitions = [aiokafka.TopicPartition(topic, partition) for partition in range(len(ends))]
        offsets: list[list[int]] = [[] for _ in ends]

        async def work() -> None:
            consumer = self._consumer(auto_offset_reset="none")
            await consumer.start()
            try:
                consumer.assign(partitions)
                for where in partitions:
                    consumer.seek(where, 0)
                missing = sum(ends)
                loop = asyncio.get_running_loop()
                deadline = loop.time() + DEADLINE_S
                while missing > 0 and loop.time() < deadline:
                    for where, batch in (await consumer.getmany(*partitions, timeout_ms=200)).items():
                        offsets[where.partition] += [message.offset for message in batch]
                        missing -= len(batch)
            finally:
                await consumer.stop()

        self._run(work())
        return offsets

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        where = aiokafka.TopicPartition(topic, partition)

        async def work() -> tuple[int, int]:
            consumer = self._consumer()
            await consumer.start()
            try:
                if at == "earliest":
                    return (await consumer.beginning_offsets([where]))[where], -1
                if at == "latest":
                    return (await consumer.end_offsets([where]))[where], -1
                found = (await consumer.offsets_for_times({where: int(at)}))[where]
                return (-1, -1) if found is None else (found.offset, found.timestamp)
            finally:
                await consumer.stop()

        return self._run(work())

    def describe_config(self, topic: str) -> dict[str, str | None]:
        async def work(admin: AIOKafkaAdminClient) -> dict[str, str | None]:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            code, message, _, _, entries = answer.resources[0]
            if code:
                raise ClientError(code, str(message))
            return {entry[0]: entry[1] for entry in entries}

        found: dict[str, str | None] = self._run(self._with_admin(work))
        return found

    def alter_config(self, topic: str, values: Mapping[str, str]) -> None:
        async def work(admin: AIOKafkaAdminClient) -> None:
            (answer,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(values))])
            _check([(topic, code, message) for code, message, *_ in answer.resources])

        self._run(self._with_admin(work))

    def partition_count(self, topic: str) -> int:
        async def work(admin: AIOKafkaAdminClient) -> int:
            (found,) = await admin.describe_topics([topic])
            return len(found["partitions"])

        count: int = self._run(self._with_admin(work))
        return count

    def create_partitions(self, topic: str, total: int) -> None:
        async def work(admin: AIOKafkaAdminClient) -> None:
            answer = await admin.create_partitions({topic: NewPartitions(total)})
            _check(answer.topic_errors)

        self._run(self._with_admin(work))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        where = aiokafka.TopicPartition(topic, partition)

        async def work(admin: AIOKafkaAdminClient) -> int:
            return int((await admin.delete_records({where: RecordsToDelete(before)}))[where])

        low: int = self._run(self._with_admin(work))
        return low


def _check(answers: Sequence[Sequence[Any]]) -> None:
    for name, code, *rest in answers:
        if code:
            raise ClientError(code, f"{name}: {rest}")


def _record(message: Any) -> Record:
    return Record(
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp=message.timestamp,
        offset=message.offset,
    )
