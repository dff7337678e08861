"""One attempt of a task: writes its rows in a transaction of its own, which stays open for the driver to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyspark

from kafkalog.client.producer import Producer
from spark_kafkalog import faults
from spark_kafkalog.compat.streams import micro_batch as properties
from spark_kafkalog.compat.versions import TESTED
from spark_kafkalog.sink.message import TaskWrote
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.sink.transactional.claim import Claim
from spark_kafkalog.sink.transactional.errors import UnknownMicroBatchError
from spark_kafkalog.sink.transactional.ledger_record import TaskTransaction
from spark_kafkalog.sink.transactional.transactional_ids import of_process

ABORT_S = 10.0
"""The time for which a failed attempt waits for its transaction to be aborted; after that, the driver has to do it."""


class MicroBatch(NamedTuple):
    """The micro-batch that a task belongs to; "" and -1 in a batch query without one."""

    query: str
    batch: int


def micro_batch(batch: int | None, *, streaming: bool) -> MicroBatch:
    """Return the micro-batch of the task on this thread.

    For a streaming writer Spark names it; for a batch writer the user does, by the number `batch`. Spark also names a
    micro-batch inside `foreachBatch`. But a batch query there without a number is on its own: it may be the second one
    of that micro-batch.

    Raises:
        UnknownMicroBatchError: The task belongs to a stream, and Spark does not name its micro-batch.
    """
    query = properties.query_id()
    if not streaming:
        return MicroBatch(query or "", -1 if batch is None else batch)
    number = properties.batch_id()
    if query is None or number is None:
        raise UnknownMicroBatchError((properties.QUERY, properties.BATCH), pyspark.__version__, sorted(TESTED))
    return MicroBatch(query, number)


def write_in_transaction(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    claim: Claim,
    here: MicroBatch,
    run: Callable[[Producer, Iterable[pa.RecordBatch]], TaskWrote],
) -> TaskWrote:
    """Write all rows with `run`, which delivers them, and report the open transaction, if there were rows.

    If the claim says that the micro-batch was decided before, its rows are read but not written.
    """
    rows = (batch for batch in batches if batch.num_rows)
    if here.batch >= 0 and here == (claim.query, claim.batch):
        for _ in rows:
            pass
        return TaskWrote(claim=claim, query=here.query)
    first = next(rows, None)
    if first is None:
        return TaskWrote(claim=claim, query=here.query)
    assert options.once is not None
    name = of_process().take(options.once.prefix, claim.number)
    producer = Producer(replace(options.producer, transactional_id=name))
    try:
        producer.init_transactions()
        producer.begin_transaction()
        faults.point("task-begun")
        wrote = run(producer, _then_fault(chain([first], rows)))
        faults.point("task-written")
        opened = producer.detach()
        faults.point("task-flushed")
    except BaseException:
        producer.close(ABORT_S)
        raise
    producer.close()
    return replace(wrote, claim=claim, query=here.query, transaction=TaskTransaction(*opened[:3]))


def _then_fault(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    faults.point("task-unflushed")
