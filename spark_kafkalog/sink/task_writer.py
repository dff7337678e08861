"""Writes the rows of one task: encodes them into record batches, and sends these to the brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from kafkalog.client.producer import EncodedFuture, Producer, ProducerConfig
from kafkalog.client.producer.arrow.arrow_rows import Chunk, chunk_bytes, chunks
from kafkalog.client.producer.arrow.partition_rows import RowPartitioner
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import MessageTooLargeError
from kafkalog.records.batch import HEADER_SIZE
from spark_kafkalog.delegation.ended import naming_ended_token
from spark_kafkalog.executor import python_worker
from spark_kafkalog.sink.message import TaskWrote, Written
from spark_kafkalog.sink.sink_columns import SinkColumns
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.sink.transactional.claim import Claim


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    columns: SinkColumns,
    claim: Claim | None = None,
    *,
    streaming: bool = False,
) -> TaskWrote:
    """Write all rows, wait until brokers have acknowledged them (`acks`), and report what was written where.

    With a claim, the rows are written in a transaction, which is left open. `streaming` says who numbers the
    micro-batch: Spark, or the user by option `batchId`.

    After an error some of the rows may have been written.

    Raises:
        RowError: A row cannot be written.
        KafkaError, ClientError: A delivery has failed.
    """
    with python_worker.task(), naming_ended_token(options.token_ends_at):
        if claim is not None:
            from spark_kafkalog.sink.transactional.task_attempt import micro_batch, write_in_transaction

            def run(producer: Producer, rows: Iterable[pa.RecordBatch]) -> TaskWrote:
                return _Task(producer, options).run(rows, columns)

            here = micro_batch(options.batch_id, streaming=streaming)
            return write_in_transaction(batches, options, claim, here, run)
        producer = Producer(options.producer)
        try:
            wrote = _Task(producer, options).run(batches, columns)
        except BaseException:
            # Requests in flight may still succeed; there is no point in waiting for them.
            producer.close(0)
            raise
        producer.close()
        return wrote


class _Task:
    def __init__(self, producer: Producer, options: SinkOptions) -> None:
        self._producer = producer
        self._config: ProducerConfig = options.producer
        self._partitioner = RowPartitioner(
            producer.layout,
            topic=options.topic,
            batch_bytes=self._config.batch_limit - HEADER_SIZE,
            ignore_keys=self._config.ignore_keys,
        )
        self._under_way: deque[EncodedFuture] = deque()
        self._wrote = TaskWrote()

    def run(self, batches: Iterable[pa.RecordBatch], columns: SinkColumns) -> TaskWrote:
        for chunk in chunks(batches, columns, chunk_bytes(self._config)):
            self._write(chunk)
            while self._under_way and self._under_way[0].done():
                self._settle()
        while self._under_way:
            self._settle()
        return self._wrote

    def _write(self, chunk: Chunk) -> None:
        sizes = chunk.record_sizes()
        largest, limit = int(sizes.max()), self._config.max_request_size
        if largest > limit:
            raise MessageTooLargeError(
                f"a row's record of up to {largest} bytes is larger than kafka.max.request.size ({limit}): raise "
                "that, and max.message.bytes of the topic"
            )
        for group in self._partitioner.groups(chunk, sizes):
            for data in chunk.encode(group.rows, self._config):
                self._under_way.append(self._producer.send_batch(group.topic, group.partition, data))

    def _settle(self) -> None:
        """Wait for the oldest batch and count it.

        Raises:
            KafkaError, ClientError: Its delivery has failed.
        """
        future = self._under_way.popleft()
        first, last = future.result()
        known = first >= 0
        self._wrote.add(
            TopicPartition(future.topic, future.partition),
            Written(future.count, future.size, first if known else None, last if known else None),
        )
