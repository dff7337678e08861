"""Produce (key 0): append record batches, one per partition.

Checks in Kafka's order: acks, then for each partition that it exists, is led here, and that its batch is valid. With
acks=1 the response follows the append; with acks=all it waits until the high watermark has passed the batch, for at
most `timeout_ms`; with acks=0 there is none, and an error closes the connection so that the producer refreshes its
metadata.

Since version 3 records are one batch of message format v2; earlier versions have message sets of v0 (0 and 1) or v1
(2). `produce_legacy` handles these, and all records for a topic that stores them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from broker.api.context import Request
from broker.api.current_leaders import CurrentLeaders
from broker.api.errors import ClientGoneError
from broker.api.produce import authorization, produce_legacy
from broker.api.produce.admission import Unverified, admit, unverified_of
from broker.api.produce.answering import fill_error, reply, wait_ms
from broker.api.produce.deferred import NOT_MIRRORED, DeferredAppend
from broker.api.produce.delayed_produce import DelayedProduce, Pending
from broker.api.produce.rejected_batches import RejectedBatches
from broker.api.produce.repeated import drop_repeated
from broker.api.produce.versions import LEADER_SINCE, ZSTD_SINCE, changes_codec, check_version, is_old
from broker.coordinator.transaction.service import Verified
from broker.log.append.legacy.message_sets import PreparedSet
from broker.log.append.mirrored import prepare_mirrored
from broker.log.append.rejection import RejectedRecordsError, RejectedTimestampsError
from broker.log.append.validation import CheckedBatch, Origin, prepare_ahead
from broker.log.log_config import LogConfig
from broker.replica.acknowledging.appended import Appended
from broker.replica.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from kafkalog.protocol.errors import (
    ErrorCode,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
)
from kafkalog.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkalog.records.batch import HEADER_SIZE, MAGIC, read_header
from kafkalog.records.compression import Codec, most_expanded
from kafkalog.records.errors import RecordTooLargeError
from kafkalog.records.peek import RecordsView
from kafkalog.storage.topics import INTERNAL_TOPICS

logger = logging.getLogger(__name__)

ADMIN_CLIENT_ID = "__admin_client"
"""Clients with this id may produce into internal topics, as in Kafka."""
RECORD_ERRORS_SINCE = 8
"""Versions whose responses name the records for which a batch was refused (KIP-467)."""
CHECKED_ON_LOOP_BYTES = 4 << 20
"""The most bytes of records, uncompressed, that are checked on the event loop: some 5 ms. Workers check the rest."""
BLOCK_COST = 1024
"""The bytes of records that are checked in the time that one block of compressed data takes to find: some 1 µs."""
MOST_POSTPONED_PARTITIONS = 100
"""A request with more batches that wait for acknowledgement has the next request of its connection wait, too."""
_ACKS = frozenset({ACKS_ALL, ACKS_NONE, ACKS_LEADER})


def handle_produce(request: Request) -> Awaitable[None] | None:
    """Serve a Produce request; the returned coroutine does the work that needs a worker or turns."""
    produce = Produce(request)
    request.connection.is_silent = request.message.acks == ACKS_NONE
    if request.owns_records:
        return _serve_in_turns(produce)
    drop_repeated(request.message)
    if request.broker.authorizer is not None:
        for topic, error in authorization.take_out_denied(request):
            produce.refuse_topic(topic, error)
    if request.message.transactional_id is not None and request.broker.transactions.asks_others:
        unverified = [
            found for batch in _batches(request.message) if (found := unverified_of(request, *batch)) is not None
        ]
        if unverified:
            _keep_records(request)
            return _verify_and_serve(produce, unverified)
    deferred = produce.append_all()
    if not deferred and not produce.rejected:
        produce.respond()
        return None
    # As in `_keep_records`: before anything else runs.
    if not request.connection.keep_memory(request.nbytes):
        for work in deferred:
            work.keep()
        if produce.rejected is not None:
            produce.rejected.keep()
    return _work_and_respond(produce, deferred)


def _keep_records(request: Request) -> None:
    """Copy the records of a request out of the connection's buffer, unless that is left to a large request.

    Call this before anything else runs, and so not in a coroutine, whose first step is a later turn of the loop: the
    connection may receive the next request into the same memory by then.
    """
    if request.connection.keep_memory(request.nbytes):
        return
    for _, data in _batches(request.message):
        if data.records is not None:
            data.records = memoryview(bytearray(data.records))


async def _verify_and_serve(produce: Produce, unverified: list[Unverified]) -> None:
    """Serve a request for which the coordinator of the transaction, another broker, has to be asked first."""
    request = produce.request
    message: ProduceRequest = request.message
    try:
        assert message.transactional_id is not None
        async with request.broker.transactions.verified(message.transactional_id, unverified) as produce.verified:
            deferred = produce.append_all()
            await _work_and_respond(produce, deferred)
    finally:
        request.connection.free_memory()


async def _work_and_respond(produce: Produce, deferred: list[DeferredAppend]) -> None:
    try:
        for work in deferred:
            await produce.append_later(work)
        if produce.rejected is not None:
            await produce.rejected.name_rest(produce.request.broker)
        produce.respond()
    finally:
        produce.request.connection.free_memory()


async def _serve_in_turns(produce: Produce) -> None:
    """Serve a request with so many partitions, or other entries, that a worker has decoded it."""
    request = produce.request
    transactions, transactional_id = request.broker.transactions, request.message.transactional_id
    asks = transactional_id is not None and transactions.asks_others
    await request.broker.checking.run(drop_repeated, request.message)
    refusal_of_all = await authorization.refusal_of_all(request)
    async for topic in request.each(request.message.topic_data):
        results: list[PartitionProduceResponse] = []
        refusal = refusal_of_all or authorization.refusal_of(request, topic)
        async for data in request.each(topic.partition_data):
            if refusal is not None:
                produce.refuse(topic.name, data, results, refusal)
                continue
            unverified = unverified_of(request, topic.name, data) if asks else None
            if unverified is None:
                await produce.append_in_turns(topic.name, data, results)
                continue
            async with transactions.verified(transactional_id, [unverified]) as produce.verified:
                await produce.append_in_turns(topic.name, data, results)
        produce.answered(topic.name, results)
    if produce.rejected is not None:
        await produce.rejected.name_rest(request.broker)
    await produce.respond_in_turns()


def _batches(message: ProduceRequest) -> Iterator[tuple[str, PartitionProduceData]]:
    for topic in message.topic_data:
        for data in topic.partition_data:
            yield topic.name, data


class Produce:
    """One request: append its records to one partition after another, then answer.

    Attributes:
        rejected: made with the first batch that is refused because of some of its records.
        verified: what other brokers have answered about transactional batches, if they had to be asked.
    """

    __slots__ = (
        "_acks", "_failed", "_leaders", "_room", "_topics", "_version", "_waiting",
        "rejected", "request", "verified",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self.request = request
        self._acks: int = request.message.acks
        self._version = request.version
        self._waiting: list[Pending] = []
        self._failed = False
        self._leaders = CurrentLeaders(request, LEADER_SINCE, NodeEndpoint)
        self._room = CHECKED_ON_LOOP_BYTES
        """Bytes that may still be checked in this turn."""
        self._topics: list[TopicProduceResponse] = []
        self.rejected: RejectedBatches | None = None
        self.verified: Verified | None = None

    @property
    def _now_ms(self) -> int:
        """The time, which is later for records that had to wait: a log's own timestamps never decrease for that."""
        return self.request.broker.now_ms()

    def append_all(self) -> list[DeferredAppend]:
        """Append the batches that need no worker.

        Returns:
            The other batches, which a worker has to check or convert first.
        """
        deferred = []
        message: ProduceRequest = self.request.message
        for topic in message.topic_data:
            results: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                work = self.append(topic.name, data, results)
                if work is not None:
                    deferred.append(work)
            self.answered(topic.name, results)
        return deferred

    def refuse(
        self, topic: str, data: PartitionProduceData, results: list[PartitionProduceResponse], error: KafkaError
    ) -> None:
        """Answer an error for a partition, to which the client may not write."""
        result = PartitionProduceResponse(index=data.index, base_offset=-1)
        results.append(result)
        self._fail(topic, result, error, data.records)

    def refuse_topic(self, topic: TopicProduceData, error: KafkaError) -> None:
        """Answer an error for all partitions of a topic."""
        results: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            self.refuse(topic.name, data, results, error)
        self.answered(topic.name, results)

    def answered(self, topic: str, results: list[PartitionProduceResponse]) -> None:
        """Note the results of a topic's partitions; results that wait for a worker are filled in later."""
        self._topics.append(TopicProduceResponse(name=topic, partition_responses=results))

    def append(
        self, topic: str, data: PartitionProduceData, results: list[PartitionProduceResponse]
    ) -> DeferredAppend | None:
        """Append records as the producer sent them, or return the work that a worker has to do first."""
        result = PartitionProduceResponse(index=data.index, base_offset=-1)
        results.append(result)
        try:
            expected_end = data.expected_end_offset
            partition = self._partition(topic, data.index, expected_end)
            partition.counters.total_produce += 1
            if expected_end != NOT_MIRRORED:
                # A worker checks these, for they are many batches.
                records = memoryview(b"") if data.records is None else data.records
                return DeferredAppend(topic, records, partition.log.config, result, expected_end)
            view = RecordsView(data.records)
            if view.magic != MAGIC or self._version < ZSTD_SINCE:
                check_version(self._version, view)
            config = partition.log.config
            if is_old(view, config):
                if produce_legacy.takes_long(view) or not self._has_room(view.size * produce_legacy.BYTE_COST):
                    return DeferredAppend(topic, data.records, config, result)
                self._append_old(partition, view, data.records, result)
            elif (
                config.compression_type != "producer" and changes_codec(self._version, view, config)
            ) or self._takes_long(view, data.records, config):
                return DeferredAppend(topic, data.records, config, result)
            elif view.codec == Codec.GZIP and view.size > HEADER_SIZE:
                checked = self._gunzipped(partition, config, data.records)
                if checked is None:
                    return DeferredAppend(topic, data.records, config, result)
                self._append(partition, view, data.records, result, checked)
            else:
                self._append(partition, view, data.records, result)
        except Exception as error:
            self._fail(topic, result, error, data.records)
        return None

    async def append_in_turns(
        self, topic: str, data: PartitionProduceData, results: list[PartitionProduceResponse]
    ) -> None:
        """Append records, with a worker's help where that is needed."""
        work = self.append(topic, data, results)
        if work is not None:
            await self.append_later(work)

    def _takes_long(self, view: RecordsView, records: memoryview, config: LogConfig) -> bool:
        """Return whether checking this batch and those before it would keep others waiting for too long."""
        if view.magic != MAGIC or not HEADER_SIZE <= view.size <= config.max_message_bytes:
            # It is refused by its header.
            return False
        cost, look = view.size // 2, 0
        if view.codec:
            expanded = most_expanded(view.codec, records[HEADER_SIZE:], self._room, self._room // BLOCK_COST)
            look = expanded.blocks * BLOCK_COST
            cost = max(cost, expanded.size, look)
        if self._has_room(cost):
            return False
        # A request may have many batches that look like small ones for long.
        self._room = max(0, self._room - look)
        return True

    def _has_room(self, cost: int) -> bool:
        """Take as many bytes from what may still be checked in this turn, and return whether there were so many."""
        if cost > self._room:
            return False
        self._room -= cost
        return True

    def _gunzipped(self, partition: Partition, config: LogConfig, records: memoryview) -> CheckedBatch | None:
        """Check a gzip batch; return None if more comes out of it than `_takes_long` has counted.

        gzip states no size that could be trusted.
        """
        label = f"{partition.topic}-{partition.index}"
        most = most_expanded(Codec.GZIP, records[HEADER_SIZE:], 0, 0).size
        try:
            return prepare_ahead(records, config, self._now_ms, Origin.CLIENT, label, most=most)
        except RecordTooLargeError:
            return None

    async def append_later(self, work: DeferredAppend) -> None:
        """Append records once a worker has prepared them."""
        try:
            broker, records = self.request.broker, work.records
            if work.expected_end != NOT_MIRRORED:
                await self._append_mirrored(work)
                return
            view = RecordsView(records)
            if is_old(view, work.config):
                label = f"{work.topic}-{work.result.index}"
                prepared = await produce_legacy.prepare_on_worker(broker, records, work.config, label)
                # Another broker may lead the partition by now.
                self._append_prepared(self._partition(work.topic, work.result.index), view, prepared, work.result)
                return
            checked = await broker.checking.run(partial(self._checked, work))
            partition = self._partition(work.topic, work.result.index)
            if is_old(view, partition.log.config):
                self._append_old(partition, view, checked.records, work.result)
            else:
                self._append(partition, view, records, work.result, checked)
        except Exception as error:
            self._fail(work.topic, work.result, error, work.records, takes_long=True)

    def _checked(self, work: DeferredAppend) -> CheckedBatch:
        label = f"{work.topic}-{work.result.index}"
        return prepare_ahead(work.records, work.config, self._now_ms, Origin.CLIENT, label)

    async def _append_mirrored(self, work: DeferredAppend) -> None:
        """Check records of a mirror on a worker, then append them."""
        broker, index = self.request.broker, work.result.index
        label = f"{work.topic}-{index}"
        mirrored = await broker.checking.run(partial(prepare_mirrored, work.records, work.config, label))
        partition = self._partition(work.topic, index, work.expected_end)
        appended = broker.replicas.append_mirrored(partition, mirrored, work.expected_end, self._acks, self._now_ms)
        self._note(partition, appended, work.result)

    def _partition(self, topic: str, index: int, expected_end: int = NOT_MIRRORED) -> Partition:
        """Return the partition, if this request may append to it."""
        if self._acks not in _ACKS:
            raise InvalidRequiredAcksError(f"acks={self._acks} is not one of -1, 0 and 1")
        if topic in INTERNAL_TOPICS and self.request.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopicError(f"Cannot append to internal topic {topic}")
        partition = self.request.broker.replicas.require(topic, index)
        source = partition.log.config.mirror_source
        if source and expected_end == NOT_MIRRORED:
            raise PolicyViolationError(
                f"Topic {topic} is a mirror of the cluster {source} with its offsets (kafkalog.mirror.source), and "
                "takes no records from producers"
            )
        return partition

    def _append(
        self,
        partition: Partition,
        view: RecordsView,
        records: memoryview,
        result: PartitionProduceResponse,
        checked: CheckedBatch | None = None,
    ) -> None:
        in_transaction = view.is_transactional and admit(self.request, partition, read_header(records), self.verified)
        appended = self.request.broker.replicas.append(
            partition, checked or records, view.size, self._acks, self._now_ms, in_transaction=in_transaction
        )
        self._note(partition, appended, result)

    def _append_old(
        self, partition: Partition, view: RecordsView, records: memoryview, result: PartitionProduceResponse
    ) -> None:
        if view.is_transactional:
            admit(self.request, partition, read_header(records), self.verified)
        label = f"{partition.topic}-{partition.index}"
        prepared = produce_legacy.prepare(records, view, partition.log.config, self._now_ms, label)
        self._append_prepared(partition, view, prepared, result)

    def _append_prepared(
        self, partition: Partition, view: RecordsView, prepared: PreparedSet | None, result: PartitionProduceResponse
    ) -> None:
        replicas = self.request.broker.replicas
        appended = replicas.append_legacy(partition, prepared, view.size, self._acks, self._now_ms)
        self._note(partition, appended, result)

    def _note(self, partition: Partition, appended: Appended, result: PartitionProduceResponse) -> None:
        info = appended.info
        result.base_offset = info.first_offset
        result.log_append_time_ms = info.log_append_time
        result.log_start_offset = info.log_start_offset
        if appended.outcome() is not ErrorCode.NONE:
            self._waiting.append(Pending(appended, result, self._leaders))

    def _fail(
        self,
        topic: str,
        result: PartitionProduceResponse,
        error: Exception,
        records: memoryview | None,
        *,
        takes_long: bool = False,
    ) -> None:
        self._failed = True
        fill_error(self.request, topic, result, error, 0 if records is None else len(records))
        self._leaders.name(ErrorCode(result.error_code), topic, result.index, result.current_leader)
        if records is None or not isinstance(error, (RejectedRecordsError, RejectedTimestampsError)):
            return
        partition = self.request.broker.replicas.get(topic, result.index)
        if partition is not None:
            result.log_start_offset = partition.log.log_start_offset
        if self._version < RECORD_ERRORS_SINCE or self._acks == ACKS_NONE:
            return
        if self.rejected is None:
            self.rejected = RejectedBatches()
        self.rejected.add(error, records, result, takes_long=takes_long)

    def respond(self) -> None:
        """Answer now, or once the appended batches are acknowledged."""
        if self._acks == ACKS_NONE:
            self._end_without_response()
            return
        response = ProduceResponse(responses=self._topics, node_endpoints=self._leaders.nodes)
        if not self._waiting:
            reply(self.request, response)
            return
        is_small = len(self._waiting) <= MOST_POSTPONED_PARTITIONS
        operation = DelayedProduce(self.request, self._waiting, partial(reply, self.request, response))
        self._wait(operation, self.request.postpone if is_small else self.request.wait_for)

    async def respond_in_turns(self) -> None:
        """Do the same for a request with many partitions."""
        request = self.request
        if self._acks == ACKS_NONE:
            self._end_without_response()
            return
        if self._waiting:
            acknowledged: asyncio.Future[None] = request.broker.loop.create_future()
            complete = partial(_complete, acknowledged)
            self._wait(DelayedProduce(request, self._waiting, complete, on_cancelled=complete), request.wait_for)
            await acknowledged
            if request.connection.closed:
                raise ClientGoneError
        response = ProduceResponse(responses=self._topics, node_endpoints=self._leaders.nodes)
        await request.answer(response, wait_ms=wait_ms(request))

    def _end_without_response(self) -> None:
        request = self.request
        if self._failed:
            logger.info("closing connection from %s: a produce with acks=0 failed", request.connection.peer)
            request.drop()
        else:
            quota = request.broker.quotas.produce
            request.no_reply(request.quota_wait_ms((quota, request.nbytes), timed=False) if quota.limited else 0)

    def _wait(self, operation: DelayedProduce, wait_for: Callable[[DelayedProduce], None]) -> None:
        """Let `operation` end the request once the appended batches are acknowledged, or its time-out has passed.

        Args:
            operation: what the request waits for.
            wait_for: called with it unless they are acknowledged by now.
        """
        timeout_ms = self.request.message.timeout_ms
        if not operation.try_complete():
            wait_for(operation)
            keys = [pending.key for pending in self._waiting]
            self.request.broker.replicas.produce_purgatory.watch(operation, keys, timeout_ms / 1000)


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


HANDLERS = {ProduceRequest: handle_produce}
